"""Making tensors, their dtypes and memory, and the rules of what a tensor is: flags, .grad, words, copies."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import hookgrad as hg

# Values and dtypes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [hg.tensor, hg.to_tensor, hg.asarray])
@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1.0, 2.0], "float32"),
        ((1.0, 2.0), "float32"),
        ([[1, 2.5], [3, 4]], "float32"),
        ([1, 2.5], "float32"),
        ([True, 2.5], "float32"),
        ([], "float32"),
        ([[], []], "float32"),
        (7, "int64"),
        ([1, 2], "int64"),
        (range(3), "int64"),
        (True, "bool"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        (np.float64(1.5), "float64"),
        (np.float32(1.5), "float32"),
        (np.int8(3), "int8"),
        (np.bool_(True), "bool"),
        ([np.float64(1), np.float64(2)], "float64"),
        ([np.float32(1), np.float32(2)], "float32"),
        (np.array([1.0, 2.0]), "float64"),
        (np.array([1.0, 2.0], np.float32), "float32"),
        ([np.array([1.0]), np.array([2.0])], "float64"),
        (np.array([[1, 2]], np.uint8), "uint8"),
        (np.zeros((2, 0, 3)), "float64"),
        (np.array([1.0, 2.0], ">f4"), "float32"),
        (np.array([1, 2], ">i8"), "int64"),
    ],
    ids=repr,
)
def test_dtypes(make, data, dtype):
    """Python floats make float32; everything of NumPy's keeps its dtype; Python integers and bools are NumPy's."""
    t = make(data)
    expected = np.array(data)
    assert isinstance(t, hg.Tensor)
    assert (t.dtype, t.shape, t.requires_grad) == (np.dtype(dtype), expected.shape, False)
    assert t.dtype.isnative
    np.testing.assert_array_equal(t.numpy(), expected.astype(dtype))


@pytest.mark.parametrize("data", [[np.float64(0.1), 0.1], [0.1, np.float64(0.1)], [1, np.float64(0.1)]])
def test_the_dtype_of_a_list_does_not_depend_on_its_order(data):
    """A float64 of NumPy's keeps its dtype wherever it stands."""
    assert hg.tensor(data).dtype == np.float64


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64"])
def test_a_given_dtype(dtype):
    for make in (hg.tensor, hg.to_tensor, hg.asarray):
        for data in ([0.0, 1.0, 2.0], np.array([0, 1, 2]), hg.tensor([0.0, 1.0, 2.0])):
            t = make(data, dtype)
            assert t.dtype == dtype
            np.testing.assert_array_equal(t.numpy(), np.array([0, 1, 2]).astype(dtype))
    for t in (hg.zeros((2, 3), dtype), hg.ones((2, 3), dtype), hg.full((2, 3), 1, dtype), hg.eye(2, 3, dtype=dtype),
              hg.arange(2, dtype=dtype), hg.zeros_like([1.0], dtype), hg.ones_like(hg.ones(2), dtype)):  # fmt: skip
        assert t.dtype == dtype


def test_tensors_of_tensors():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    t = hg.tensor(x)
    assert t is not x
    assert not t.requires_grad
    assert t.dtype == np.float32
    stacked = hg.tensor([hg.tensor(1.0), hg.tensor(2.0)])
    assert (stacked.dtype, stacked.tolist()) == (np.dtype(np.float32), [1.0, 2.0])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0), 3, [2, 3]])
def test_filled(shape):
    for t, expected in (
        (hg.zeros(shape), np.zeros(shape, np.float32)),
        (hg.ones(shape), np.ones(shape, np.float32)),
        (hg.full(shape, 2.5), np.full(shape, 2.5, np.float32)),
        (hg.full(shape, 7), np.full(shape, 7)),
        (hg.full(shape, True), np.full(shape, True)),
        (hg.full(shape, np.float64(0.1)), np.full(shape, 0.1)),
        (hg.full(shape, 7, "float64"), np.full(shape, 7.0)),
    ):
        assert (t.dtype, t.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(t.numpy(), expected)


def test_full_broadcasts_its_value():
    assert hg.full((2, 2), [1.0, 2.0]).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert hg.full((2,), hg.tensor([1.0, 2.0])).dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ((5,), "int64"),
        ((2, 7), "int64"),
        ((7, 2, -2), "int64"),
        ((0,), "int64"),
        ((5.0,), "float32"),
        ((1, 2.0, 1), "float32"),
        ((0, 1, 0.1), "float32"),
        ((np.float64(3),), "float64"),
    ],
)
def test_arange(arguments, dtype):
    t = hg.arange(*arguments)
    assert t.dtype == dtype
    np.testing.assert_array_equal(t.numpy(), np.arange(*arguments).astype(dtype))


def test_arange_with_a_dtype():
    assert hg.arange(3, dtype="float64").tolist() == [0.0, 1.0, 2.0]
    assert hg.arange(3, dtype="float64").dtype == np.float64
    assert hg.arange(0, 1, 0.25, dtype="float32", requires_grad=True).requires_grad


@pytest.mark.parametrize("arguments", [(2,), (2, 3), (3, 2, 1), (3, 3, -1), (0,), (2, 2, 5)])
def test_eye(arguments):
    t = hg.eye(*arguments)
    assert t.dtype == np.float32
    np.testing.assert_array_equal(t.numpy(), np.eye(*arguments))


def test_like():
    for like, dtype in (
        (hg.tensor([1.0, 2.0]), "float32"),
        (np.ones((2, 3)), "float64"),
        ([1, 2], "int64"),
        (1.5, "float32"),
    ):
        expected = np.asarray(like.numpy() if isinstance(like, hg.Tensor) else like)
        for make, value in ((hg.zeros_like, 0), (hg.ones_like, 1)):
            t = make(like)
            assert (t.dtype, t.shape, t.requires_grad) == (np.dtype(dtype), expected.shape, False)
            assert (t.numpy() == value).all()
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    assert not hg.zeros_like(x).requires_grad
    assert hg.zeros_like(x, requires_grad=True).requires_grad
    assert not hg.ones_like(x * 2).requires_grad


# Memory ---------------------------------------------------------------------------------------------------------------


def test_tensor_and_to_tensor_copy():
    a = np.array([1.0, 2.0])
    for make in (hg.tensor, hg.to_tensor):
        for source in (a, hg.asarray(a)):
            t = make(source)
            assert not np.shares_memory(t.numpy(), a)
            a[0] = 9.0
            assert t.tolist() == [1.0, 2.0]
            a[0] = 1.0


def test_asarray_and_from_numpy_share():
    a = np.array([1.0, 2.0])
    for make in (hg.asarray, hg.from_numpy):
        t = make(a)
        a[0] = 9.0
        assert t.tolist() == [9.0, 2.0]
        with hg.no_grad():
            t -= 8.0
        assert a.tolist() == [1.0, -6.0]
        a[:] = [1.0, 2.0]
    t = hg.asarray(a)
    assert hg.asarray(t) is t
    assert hg.asarray(t, "float64") is t
    assert not np.shares_memory(hg.asarray(a, "float32").numpy(), a)


def test_strided_memory_is_shared_too():
    a = np.arange(12.0).reshape(3, 4)
    t = hg.from_numpy(a.T[::-1, ::2])
    np.testing.assert_array_equal(t.numpy(), a.T[::-1, ::2])
    assert np.shares_memory(t.numpy(), a)


def test_a_copy_of_any_layout():
    a = np.arange(12.0).reshape(3, 4)
    for view in (a.T, a[::-1, ::2], np.broadcast_to(a[0], (2, 4)), np.asfortranarray(a)):
        t = hg.tensor(view)
        np.testing.assert_array_equal(t.numpy(), view)
        assert t.numpy().flags.writeable
        assert t.numpy().base is None


def unaligned(values, dtype):
    """An array whose items do not lie at multiples of their size."""
    values = np.asarray(values, dtype)
    buffer = np.zeros(values.nbytes + 1, np.uint8)
    a = buffer[1:].view(dtype)
    a[...] = values
    assert not a.flags.aligned
    return a


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", ">f8"])
def test_misaligned_and_byteswapped_arrays(dtype):
    """They are copied, since inner loops need aligned memory in native byte order; `from_numpy` says that it cannot."""
    a = unaligned([1.0, 2.0, 3.0], dtype) if dtype[0] == "f" else np.array([1.0, 2.0, 3.0], dtype)
    native = a.dtype.newbyteorder("=")
    for t in (hg.tensor(a), hg.asarray(a)):
        assert t.dtype == native
        assert t.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"from_numpy: .*aligned"):
        hg.from_numpy(a)
    assert hg.square(a).tolist() == [1.0, 4.0, 9.0]
    assert hg.add(a, a).tolist() == [2.0, 4.0, 6.0]
    assert hg.sum(a).item() == 6.0
    x = hg.tensor(np.array([1.0, 1.0, 1.0], native), requires_grad=True)
    for y in (x * a, a * x, hg.multiply(x, a)):
        x.clear_grad()
        assert y.dtype == native
        assert y.tolist() == [1.0, 2.0, 3.0]
        y.backward(a)
        assert x.grad.tolist() == [1.0, 4.0, 9.0]
    with hg.no_grad():
        x += a
    assert x.tolist() == [2.0, 3.0, 4.0]


class Celsius(np.ndarray):
    """A subclass with arithmetic of its own."""

    def __mul__(self, other):
        raise AssertionError("hookgrad must not run a subclass's operators")


def test_subclasses_of_ndarray_are_plain_arrays_inside():
    a = np.array([1.0, 2.0]).view(Celsius)
    for make in (hg.tensor, hg.asarray, hg.from_numpy):
        t = make(a)
        assert type(t.numpy()) is np.ndarray
        assert (t * t).tolist() == [1.0, 4.0]


def test_read_only_memory_is_never_written():
    a = np.array([1.0, 2.0])
    a.flags.writeable = False
    t = hg.from_numpy(a)
    with pytest.raises(ValueError, match="read-only"):
        t += 1.0
    with pytest.raises(ValueError, match="read-only"):
        t[0] = 5.0
    assert a.tolist() == [1.0, 2.0]


# Errors ---------------------------------------------------------------------------------------------------------------

UNUSABLE = {
    "float16": np.float16(1),
    "float16 array": np.ones(2, np.float16),
    "long double": np.ones(2, np.longdouble),
    "complex": 1j,
    "complex list": [1, 2j],
    "complex array": np.ones(2, np.complex64),
    "str": "text",
    "list of str": ["1", "2"],
    "bytes": b"bytes",
    "str array": np.array(["a"]),
    "object": object(),
    "object array": np.array([1, None]),
    "list of objects": [object()],
    "None": None,
    "list of None": [None, 1.0],
    "dict": {"a": 1},
    "set": {1, 2},
    "date": np.ones(2, "M8[s]"),
    "record": np.zeros(2, [("a", "f4")]),
    "ragged": [[1.0], [1.0, 2.0]],
    "ragged depth": [1.0, [2.0]],
    "huge integer": 2**70,
    "function": len,
    "type": float,
    "generator": (i for i in range(3)),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_data_that_cannot_be_a_tensor(kind):
    bad = UNUSABLE[kind]
    makers = {
        "tensor": hg.tensor,
        "to_tensor": hg.to_tensor,
        "asarray": hg.asarray,
        "full": lambda data: hg.full((2,), data),
        "zeros_like": hg.zeros_like,
        "ones_like": hg.ones_like,
    }
    for name, make in makers.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            make(bad)
    with pytest.raises(TypeError, match=r"^from_numpy: "):
        hg.from_numpy(bad)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "S3", "U2", "O", "M8[s]", "nonsense", np.longdouble])
def test_dtypes_that_a_tensor_cannot_have(dtype):
    makers = {
        "tensor": lambda: hg.tensor([1.0], dtype),
        "to_tensor": lambda: hg.to_tensor([1.0], dtype),
        "asarray": lambda: hg.asarray([1.0], dtype),
        "zeros": lambda: hg.zeros(2, dtype),
        "ones": lambda: hg.ones(2, dtype),
        "full": lambda: hg.full(2, 1.0, dtype),
        "arange": lambda: hg.arange(2, dtype=dtype),
        "eye": lambda: hg.eye(2, dtype=dtype),
        "zeros_like": lambda: hg.zeros_like([1.0], dtype),
        "ones_like": lambda: hg.ones_like(hg.ones(2), dtype),
    }
    for name, make in makers.items():
        with pytest.raises(TypeError, match=f"^{name}: "):
            make()


@pytest.mark.parametrize("bound", [1j, "a", [1, 2]])
def test_arange_of_what_is_no_number(bound):
    with pytest.raises((TypeError, ValueError)):
        hg.arange(bound)


def test_integers_and_bools_cannot_require_grad():
    makers = [
        lambda: hg.tensor([1, 2], requires_grad=True),
        lambda: hg.tensor([True], requires_grad=True),
        lambda: hg.to_tensor([1, 2], stop_gradient=False),
        lambda: hg.zeros(2, "int64", requires_grad=True),
        lambda: hg.arange(3, requires_grad=True),
        lambda: hg.full(2, 7, requires_grad=True),
        lambda: hg.ones_like([1, 2], requires_grad=True),
    ]
    for make in makers:
        with pytest.raises(RuntimeError, match=r"int64|bool"):
            make()
    for attribute, value in (("requires_grad", True), ("stop_gradient", False)):
        t = hg.tensor([1, 2])
        with pytest.raises(RuntimeError, match=r"int64.*float32 and float64"):
            setattr(t, attribute, value)
        assert not t.requires_grad


def test_contradictions_and_unknown_places():
    with pytest.raises(ValueError, match="tensor: requires_grad=True and stop_gradient=True"):
        hg.tensor([1.0], requires_grad=True, stop_gradient=True)
    with pytest.raises(ValueError, match="to_tensor: got place 'gpu'"):
        hg.to_tensor([1.0], place="gpu")
    assert hg.to_tensor([1.0], place="cpu").tolist() == [1.0]


def test_the_class_is_not_for_calling():
    """It would make a tensor without an array."""
    with pytest.raises(TypeError, match=r"tensor\("):
        hg.Tensor([1.0])
    with pytest.raises(TypeError):
        hg.Tensor()


def test_nodes_are_not_for_calling_either():
    node = (hg.tensor([1.0], requires_grad=True) * 2).grad_fn
    with pytest.raises(TypeError):
        type(node)()


# requires_grad and stop_gradient --------------------------------------------------------------------------------------


def test_two_names_of_one_bit():
    for t in (
        hg.tensor([1.0], requires_grad=True),
        hg.tensor([1.0], stop_gradient=False),
        hg.to_tensor([1.0], stop_gradient=False),
    ):
        assert t.requires_grad
        assert not t.stop_gradient
    for t in (hg.tensor([1.0]), hg.tensor([1.0], stop_gradient=True), hg.to_tensor([1.0])):
        assert not t.requires_grad
        assert t.stop_gradient
    t = hg.tensor([1.0])
    t.stop_gradient = False
    assert t.requires_grad
    t.requires_grad = False
    assert t.stop_gradient


def test_a_leaf_both_ways():
    x = hg.tensor([1.0, 2.0])
    x.requires_grad = True
    assert x.is_leaf
    assert x.grad_fn is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.requires_grad = False
    y = x * 3
    assert not y.requires_grad
    x.requires_grad = True
    (x * 4).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_setting_what_is_set_changes_nothing():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    node = y.grad_fn
    x.requires_grad = True
    y.requires_grad = True
    y.stop_gradient = False
    assert y.grad_fn is node
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("attribute", "value"), [("stop_gradient", True), ("requires_grad", False)])
def test_an_interior_tensor_cuts_the_graph(attribute, value):
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    before = y * 5
    setattr(y, attribute, value)
    assert y.is_leaf
    assert y.grad_fn is None
    assert not y.requires_grad
    (y * 7 + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    x.clear_grad()
    before.sum().backward()  # recorded before the cut
    assert x.grad.tolist() == [15.0, 15.0]


def test_a_cut_tensor_can_become_a_leaf():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.stop_gradient = True
    y.stop_gradient = False
    assert y.is_leaf
    (y * 7).sum().backward()
    assert y.grad.tolist() == [7.0, 7.0]
    assert x.grad is None


def test_leaf_and_interior():
    x = hg.tensor([1.0], requires_grad=True)
    for t in (x, hg.tensor([1.0]), x.detach(), hg.tensor([1])):
        assert t.is_leaf
        assert t.grad_fn is None
    y = x * 2
    assert not y.is_leaf
    assert y.grad_fn.name() == "MultiplyBackward"
    with hg.no_grad():
        z = x * 2
    assert z.is_leaf
    assert not z.requires_grad


def test_detach_shares_memory_outside_the_graph():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    for t in (y.detach(), y.data):
        assert not t.requires_grad
        assert t.grad is None
        assert np.shares_memory(t.numpy(), y.numpy())


def test_data_can_be_replaced():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = hg.tensor([5.0, 5.0])
    for value in (hg.tensor([3.0, 4.0]), np.array([3.0, 4.0], np.float32)):
        x.data = value
        assert x.tolist() == [3.0, 4.0]
    assert x.requires_grad
    assert x.grad.tolist() == [5.0, 5.0]
    for bad in (hg.tensor([1.0]), np.array([1.0, 2.0]), hg.tensor([1, 2])):
        with pytest.raises(ValueError, match=r"data: got shape .* expected the tensor's own, \(2,\) and float32"):
            x.data = bad
    assert x.tolist() == [3.0, 4.0]


def test_names():
    assert hg.tensor([1.0]).name is None
    makers = [hg.zeros, hg.ones, hg.arange, hg.eye, lambda n, name: hg.full(n, 1.0, name=name)]
    named = [make(2, name="w") for make in makers]
    named += [make([1.0], name="w") for make in (hg.tensor, hg.zeros_like, hg.ones_like)]
    for t in named:
        assert t.name == "w"
        assert "name='w'" in repr(t)


# .grad ----------------------------------------------------------------------------------------------------------------


def test_grad_can_be_set():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    g = hg.tensor([10.0, 20.0])
    x.grad = g
    assert x.grad is g
    (x * 3).sum().backward()
    assert x.grad.tolist() == [13.0, 23.0]
    x.grad = None
    assert x.grad is None
    x.grad = hg.tensor([1.0, 1.0])
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.ones(2, np.float32), TypeError, "grad: got ndarray, expected a Tensor of shape"),
        ([1.0, 1.0], TypeError, "grad: got list"),
        (1.0, TypeError, "grad: got float"),
        (hg.ones(3), ValueError, r"grad: got shape \(3,\), expected the tensor's own, \(2,\)"),
        (hg.ones((1, 2)), ValueError, r"grad: got shape \(1, 2\)"),
        (hg.ones(2, "float64"), TypeError, "grad: got dtype float64, expected the tensor's own, float32"),
        (hg.ones(2, "int64"), TypeError, "grad: got dtype int64"),
    ],
)
def test_grad_of_another_kind(bad, error, message):
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = hg.tensor([5.0, 5.0])
    with pytest.raises(error, match=message):
        x.grad = bad
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_tensor_is_not_its_own_grad():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="its own gradient"):
        x.grad = x


def test_clear_grad():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    x.clear_grad()
    x.clear_grad(set_to_zero=True)
    assert x.grad is None
    (x * 3).sum().backward()
    x.clear_grad(set_to_zero=True)
    assert x.grad.tolist() == [0.0, 0.0]
    assert x.grad.dtype == x.dtype
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.clear_grad()
    assert x.grad is None


# numpy() --------------------------------------------------------------------------------------------------------------


def test_numpy_is_read_only_while_the_tensor_requires_grad():
    x = hg.tensor([1.0, 2.0])
    a = x.numpy()
    a[0] = 9.0
    assert x.tolist() == [9.0, 2.0]
    x.requires_grad = True
    for t in (x, x * 2):
        view = t.numpy()
        assert np.shares_memory(view, t.numpy())
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5.0
    x.requires_grad = False
    assert x.numpy().flags.writeable


def test_a_gradient_in_a_hook_is_read_only_and_a_leafs_own_is_not():
    seen = []
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.numpy().flags.writeable))
    (x * 2).sum().backward()
    assert seen == [False]
    x.grad.numpy()[0] = 7.0
    assert x.grad.tolist() == [7.0, 2.0]


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: hg.tensor([1.0, 2.0], requires_grad=True), "Tensor([1., 2.], dtype=float32, requires_grad=True)"),
        (lambda: hg.tensor([1.0, 2.0], requires_grad=True) * 2, "Tensor([2., 4.], dtype=float32, requires_grad=True)"),
        (lambda: hg.tensor([1.0, 2.5]), "Tensor([1. , 2.5], dtype=float32)"),
        (lambda: hg.tensor(np.array([0.1])), "Tensor([0.1], dtype=float64)"),
        (lambda: hg.tensor(3.0), "Tensor(3., dtype=float32)"),
        (lambda: hg.tensor([1, 2]), "Tensor([1, 2], dtype=int64)"),
        (lambda: hg.tensor([True, False]), "Tensor([ True, False], dtype=bool)"),
        (lambda: hg.tensor([]), "Tensor([], dtype=float32)"),
        (lambda: hg.zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float32)"),
        (lambda: hg.tensor([[1.0, 2.0], [3.0, 4.0]]), "Tensor([[1., 2.],\n        [3., 4.]], dtype=float32)"),
        (
            lambda: hg.tensor(1.0, name="w", requires_grad=True),
            "Tensor(1., dtype=float32, name='w', requires_grad=True)",
        ),
    ],
)
def test_repr(make, expected):
    assert repr(make()) == expected


def test_str_is_that_of_the_array():
    for data in ([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], 3.0, [1, 2], [True], []):
        t = hg.tensor(data)
        assert str(t) == str(t.numpy())
        assert f"{t}" == str(t)
    assert str(hg.tensor([1.0, 2.0], requires_grad=True)) == "[1. 2.]"


def test_words_follow_numpys_print_options():
    t = hg.tensor(np.array([1 / 3, 2.0]))
    with np.printoptions(precision=2):
        assert repr(t) == "Tensor([0.33, 2.  ], dtype=float64)"
        assert str(t) == "[0.33 2.  ]"
    assert "..." in repr(hg.zeros(100_000))


def test_format():
    assert f"{hg.tensor(1.5, requires_grad=True):.3f}" == "1.500"
    assert f"{hg.tensor([[7]]):>4d}" == "   7"
    with pytest.raises(ValueError, match="2 elements"):
        f"{hg.tensor([1.0, 2.0]):.3f}"


# Copies, weak references, hashes --------------------------------------------------------------------------------------


def pickled(t):
    return pickle.loads(pickle.dumps(t))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_copies_of_leaves(duplicate, requires_grad):
    x = hg.tensor(np.arange(6.0).reshape(2, 3).T, requires_grad=requires_grad, name="w")
    y = duplicate(x)
    assert type(y) is hg.Tensor
    assert y is not x
    assert (y.requires_grad, y.name, y.dtype, y.shape) == (requires_grad, "w", x.dtype, x.shape)
    assert y.is_leaf
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert not np.shares_memory(y.numpy(), x.numpy())
    if requires_grad:
        (y * 2).sum().backward()
        assert x.grad is None
        assert y.grad.tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(protocol):
    x = hg.tensor([[1.0, 2.0]], requires_grad=True)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert (y.tolist(), y.requires_grad) == ([[1.0, 2.0]], True)


def test_deepcopy_copies_the_gradient():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = hg.tensor([3.0, 4.0])
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [3.0, 4.0]
    y.grad = None
    assert x.grad.tolist() == [3.0, 4.0]


def test_one_tensor_in_two_places_stays_one():
    x = hg.tensor([1.0], requires_grad=True)
    for duplicate in (copy.deepcopy, pickled):
        a, b = duplicate([x, x])
        assert a is b
        assert a is not x


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_interior_tensors_have_a_graph_that_cannot_be_copied(duplicate):
    y = hg.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"leaves.*detach\(\)"):
        duplicate(y)
    assert duplicate(y.detach()).tolist() == [2.0]


def test_weak_references_and_immediate_death():
    gc.disable()
    try:
        x = hg.tensor([1.0], requires_grad=True)
        y = x * 2
        refs = [weakref.ref(x), weakref.ref(y)]
        assert refs[0]() is x
        assert refs[1]() is y
        del x, y
        assert [r() for r in refs] == [None, None]
    finally:
        gc.enable()


def test_hash_is_identity():
    a, b = hg.tensor([1.0, 2.0]), hg.tensor([1.0, 2.0])
    assert hash(a) == hash(a)
    assert len({a, b}) == 2
    table = {a: "a", b: "b"}
    assert table[a] == "a"
    assert table[b] == "b"


def test_no_attributes_of_ones_own():
    """A tensor is as small as the compiled part."""
    with pytest.raises(AttributeError):
        hg.tensor([1.0]).anything = 1


def test_a_dtype_does_not_go_through_float32():
    assert hg.tensor(0.1, dtype=np.float64).item() == 0.1
    assert hg.tensor([1e300], dtype="float64").tolist() == [1e300]
    assert hg.tensor([16777217, 1.5], dtype="int64").tolist() == [16777217, 1]
    assert hg.full((1,), 0.1, dtype=np.float64).tolist() == [0.1]
    assert hg.asarray([0.1], dtype=np.float64).tolist() == [0.1]
    assert hg.to_tensor([0.1], dtype="float64").tolist() == [0.1]
