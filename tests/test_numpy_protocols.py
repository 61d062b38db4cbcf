"""NumPy's own functions and operators on tensors: they give recorded tensors, or say what is not there."""

import numpy as np
import pytest

import hookgrad as hg

VALUES = np.array([[1.5, 2.0, 3.5], [0.5, 1.0, 2.5]], np.float32)

UFUNCS = (
    "absolute add cos divide equal exp expm1 greater greater_equal less less_equal log log1p maximum minimum multiply "
    "negative not_equal power reciprocal sin sqrt square subtract tanh matmul"
).split()
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def same(found, expected):
    assert type(found) is hg.Tensor
    expected = np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs(name):
    """Recorded like hookgrad's function of that name, whichever operand is the tensor."""
    ufunc, ours = getattr(np, name), getattr(hg, name)
    second = VALUES.T.copy() if name == "matmul" else VALUES[:, ::-1].copy()
    calls = [(0,)] if ufunc.nin == 1 else [(0,), (1,), (0, 1)]
    arrays = [VALUES, second][: ufunc.nin]
    for tensors in calls:
        operands = [hg.tensor(a, requires_grad=True) if k in tensors else a for k, a in enumerate(arrays)]
        y = ufunc(*operands)
        same(y, ufunc(*arrays))
        if name in COMPARISONS:
            assert not y.requires_grad
            continue
        y.sum().backward()
        for k in tensors:
            twins = [hg.tensor(a, requires_grad=True) for a in arrays]
            ours(*twins).sum().backward()
            np.testing.assert_array_equal(operands[k].grad.numpy(), twins[k].grad.numpy())


FUNCTIONS = {
    "sum": [{}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}, {"axis": 1, "dtype": np.float64}],
    "mean": [{}, {"axis": -1, "keepdims": True}],
    "prod": [{}, {"axis": 0}],
    "max": [{}, {"axis": 1, "keepdims": True}],
    "min": [{}, {"axis": 1}],
    "var": [{}, {"axis": 0, "ddof": 1}, {"correction": 1}],
    "std": [{}, {"axis": 0, "ddof": 1, "keepdims": True}],
    "cumsum": [{}, {"axis": 1}],
    "clip": [(1.0, 2.0)],
    "reshape": [((3, 2),)],
    "expand_dims": [{"axis": 0}],
    "squeeze": [{}],
    "copy": [{}],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    for given in FUNCTIONS[name]:
        arguments, kwargs = ((), given) if isinstance(given, dict) else (given, {})
        x = hg.tensor(VALUES, requires_grad=True)
        y = getattr(np, name)(x, *arguments, **kwargs)
        same(y, getattr(np, name)(VALUES, *arguments, **kwargs))
        assert y.requires_grad
        y.sum().backward()
        assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)


def test_functions_of_several_tensors():
    x = hg.tensor(VALUES, requires_grad=True)
    z = hg.tensor(2 * VALUES, requires_grad=True)
    for y, expected in (
        (np.concatenate([x, z]), np.concatenate([VALUES, 2 * VALUES])),
        (np.concatenate((x, 2 * VALUES), axis=1), np.concatenate((VALUES, 2 * VALUES), axis=1)),
        (np.concatenate([2 * VALUES, x], 0), np.concatenate([2 * VALUES, VALUES])),
        (np.stack([x, z], axis=-1), np.stack([VALUES, 2 * VALUES], axis=-1)),
        (np.where(VALUES > 1, x, z), np.where(VALUES > 1, VALUES, 2 * VALUES)),
        (np.where(x > 1, x, 0.0), np.where(VALUES > 1, VALUES, np.float32(0))),
        (np.dot(x, z.T), np.dot(VALUES, 2 * VALUES.T)),
        (np.dot(VALUES, x.T), np.dot(VALUES, VALUES.T)),
        (np.broadcast_to(x, (4, 2, 3)), np.broadcast_to(VALUES, (4, 2, 3))),
        (np.transpose(x), VALUES.T),
        (np.transpose(x, (1, 0)), VALUES.T),
        (np.clip(x, 1.0, z), np.clip(VALUES, np.float32(1), 2 * VALUES)),
        (np.clip(x, 1.0, 2.0), np.clip(VALUES, 1.0, 2.0)),
    ):
        same(y, expected)
        assert y.requires_grad
        x.clear_grad()
        y.sum().backward()
        assert x.grad.shape == x.shape


def test_functions_without_a_derivative_give_data():
    x = hg.tensor(VALUES, requires_grad=True)
    same(np.any(x > 2, axis=0), np.any(VALUES > 2, axis=0))
    same(np.all(x > 0), np.all(VALUES > 0))
    assert not np.any(x).requires_grad


def test_aliases_are_the_same_ufuncs():
    x = hg.tensor(VALUES, requires_grad=True)
    same(np.abs(-x), VALUES)
    same(np.true_divide(x, 2), VALUES / 2)
    if hasattr(np, "pow"):
        same(np.pow(x, 2.0), np.pow(VALUES, 2.0))
    if hasattr(np, "concat"):
        same(np.concat([x, x]), np.concat([VALUES, VALUES]))
    if hasattr(np, "permute_dims"):
        same(np.permute_dims(x, (1, 0)), VALUES.T)
    if hasattr(np, "astype"):
        same(np.astype(x, np.float64), VALUES.astype(np.float64))


SIGNS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "@": lambda a, b: a @ b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "==": lambda a, b: a == b,
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_on_the_left(sign, order):
    """The array does not take the tensor apart, element by element or otherwise."""
    left = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32, order=order)
    right = np.array([[2.0, 0.5], [1.0, 3.0]], np.float32)
    x = hg.tensor(right, requires_grad=True)
    y = SIGNS[sign](left, x)
    expected = SIGNS[sign](left, right)
    assert type(y) is hg.Tensor
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    assert y.requires_grad == (sign in ("+", "-", "*", "/", "**", "%", "@"))


def test_numpy_scalars_on_the_left():
    """A float64 scalar of NumPy's widens float32, as in NumPy; the gradient comes back in float32."""
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = np.float64(2) * x
    same(y, np.float64(2) * np.array([1.0, 2.0], np.float32))
    assert y.dtype == np.float64
    y.sum().backward()
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [2.0, 2.0]
    assert (np.float32(2) * x).dtype == np.float32
    assert (np.int8(2) - x).dtype == np.float32
    assert (np.float64(6) / hg.tensor(2.0, requires_grad=True)).requires_grad
    assert (np.float64(2) ** x).requires_grad
    assert not (np.float64(2) < x).requires_grad


def test_an_array_never_swallows_a_tensor_in_place():
    a = np.zeros(2, np.float32)
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"np\.add: .*in place.*numpy\(\)"):
        a += x
    with pytest.raises(TypeError, match=r"np\.add: .*in place"):
        np.add(x, 1.0, out=a)
    assert a.tolist() == [0.0, 0.0]
    with hg.no_grad(), pytest.raises(TypeError, match="in place"):
        a += x


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.arctan2(x, 1.0), r"arctan2: hookgrad has no such function.*numpy\(\)"),
        (lambda x: np.median(x), r"np\.median: hookgrad has no such function.*numpy\(\)"),
        (lambda x: np.add.reduce(x), r"np\.add\.reduce: "),
        (lambda x: np.multiply.outer(x, x), r"np\.multiply\.outer: "),
        (lambda x: np.add.accumulate(x), r"np\.add\.accumulate: "),
        (lambda x: np.add.at(x, [0], 1.0), r"np\.add\.at: "),
        (lambda x: np.add(x, 1.0, where=np.array([True, False])), r"np\.add: .*where"),
        (lambda x: np.add(x, 1.0, dtype=np.float64), r"np\.add: .*dtype"),
        (lambda x: np.exp(x, casting="no"), r"np\.exp: .*casting"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_so(call, message):
    for requires_grad in (False, True):
        x = hg.tensor([1.0, 2.0], requires_grad=requires_grad)
        with pytest.raises(TypeError, match=message):
            call(x)
        assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sum(x, where=np.array([True, False])),
        lambda x: np.sum(x, out=np.zeros((), np.float32)),
        lambda x: np.max(x, initial=5.0),
        lambda x: np.concatenate([x, x], out=np.zeros(4, np.float32)),
        lambda x: np.where(x),
    ],
)
def test_arguments_that_are_not_there_are_a_type_error(call):
    with pytest.raises(TypeError):
        call(hg.tensor([1.0, 2.0], requires_grad=True))


# Conversion to arrays -------------------------------------------------------------------------------------------------


def test_asarray_shares_memory():
    t = hg.tensor([1.0, 2.0])
    a = np.asarray(t)
    assert type(a) is np.ndarray
    a[0] = 9.0
    assert t.tolist() == [9.0, 2.0]
    t.requires_grad = True
    a = np.asarray(t)
    assert np.shares_memory(a, t.numpy())
    assert not a.flags.writeable


def test_array_copies():
    for requires_grad in (False, True):
        t = hg.tensor([1.0, 2.0], requires_grad=requires_grad)
        a = np.array(t)
        assert a.flags.writeable
        a[0] = 9.0
        assert t.tolist() == [1.0, 2.0]


def test_array_with_a_dtype():
    t = hg.tensor([1.5, 2.0])
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.asarray(t, dtype="int64").tolist() == [1, 2]
    assert np.shares_memory(np.asarray(t, dtype=np.float32), t.numpy())
    assert np.shares_memory(np.array(t, copy=False), t.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.array(t, dtype=np.float64, copy=False)


def test_numpys_checks_take_tensors():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    np.testing.assert_allclose(x, [1.0, 2.0])
    np.testing.assert_array_equal(x * 2, np.array([2.0, 4.0]))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(x, [1.0, 3.0])


def test_a_gradient_is_not_lost_in_silence():
    """`np.array([[np.cos(p), ...]])` makes numbers of tensors: the most natural mistake."""
    p = hg.tensor(0.5, requires_grad=True)
    with pytest.warns(UserWarning, match=r"no gradient flows back.*hg\.stack"):
        np.array([np.cos(p), np.sin(p)])
    with hg.no_grad():
        np.array([p])
    np.array([p.detach()])
    np.asarray(hg.stack([p, p]))


def test_arrays_of_tensors():
    pair = [hg.tensor(1.0), hg.tensor(2.0)]
    assert np.array(pair).tolist() == [1.0, 2.0]
    assert np.array(pair).dtype == np.float32


def test_a_tensor_indexes_an_array():
    a = np.array([10, 20, 30])
    assert a[hg.tensor([0, 2])].tolist() == [10, 30]
    assert a[hg.tensor([True, False, True])].tolist() == [10, 30]
    assert a[hg.tensor(1)] == 20
