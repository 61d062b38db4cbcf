"""What a hook gets and what it may return: read-only gradients, private buffers, checked results."""

import numpy as np
import pytest

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def words_of(error):
    """The message of an exception and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


# What is returned -----------------------------------------------------------------------------------------------------

SHAPE = (2, 3)


def returns(value):
    def a_returning_hook(grad):
        return value

    return a_returning_hook


WRONG = {
    "int": (7, TypeError, "int"),
    "float": (1.5, TypeError, "float"),
    "bool": (True, TypeError, "bool"),
    "list": ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], TypeError, "list"),
    "tuple of a tensor": ((hg.ones(SHAPE),), TypeError, "tuple"),
    "string": ("gradient", TypeError, "str"),
    "dict": ({}, TypeError, "dict"),
    "object": (object(), TypeError, "object"),
    "NotImplemented": (NotImplemented, TypeError, "NotImplementedType"),
    "fewer axes": (hg.ones((3,)), ValueError, "(3,)"),
    "more axes": (hg.ones((1, 2, 3)), ValueError, "(1, 2, 3)"),
    "another length": (np.ones((2, 4), np.float32), ValueError, "(2, 4)"),
    "transposed": (hg.ones((3, 2)), ValueError, "(3, 2)"),
    "one element": (hg.ones((1, 1)), ValueError, "(1, 1)"),
    "no axes": (hg.tensor(1.0), ValueError, "()"),
    "empty": (np.ones((0, 3), np.float32), ValueError, "(0, 3)"),
    "NumPy scalar": (np.float32(1), ValueError, "()"),
    "float64 tensor": (hg.ones(SHAPE, dtype=np.float64), TypeError, "float64"),
    "float64 array": (np.ones(SHAPE), TypeError, "float64"),
    "float16 array": (np.ones(SHAPE, np.float16), TypeError, "float16"),
    "integers": (np.ones(SHAPE, np.int64), TypeError, "int64"),
    "int tensor": (hg.tensor(np.ones(SHAPE, np.int32)), TypeError, "int32"),
    "bools": (np.ones(SHAPE, bool), TypeError, "bool"),
    "complex": (np.ones(SHAPE, np.complex64), TypeError, "complex64"),
    "objects": (np.ones(SHAPE, object), TypeError, "object"),
    "strings": (np.full(SHAPE, "g"), TypeError, "U1"),
}


@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize(("value", "error", "word"), WRONG.values(), ids=WRONG.keys())
def test_wrong_results(value, error, word, interior):
    x = leaf(np.ones(SHAPE), name="weight")
    t = x * 2 if interior else x
    handle = t.register_hook(returns(value))
    with pytest.raises(error) as caught:
        (t * 3).sum().backward()
    assert type(caught.value) is error
    message = words_of(caught.value)
    assert "a_returning_hook" in message
    assert word in message
    assert "hook 1 of 1" in message
    if error is ValueError:
        assert str(SHAPE) in message
    assert ("made by multiply" in message) if interior else ("'weight'" in message)
    assert x.grad is None
    assert hg.is_grad_enabled()
    handle.remove()
    (t * 3 if not interior else x * 6).sum().backward()
    assert x.grad.tolist() == np.full(SHAPE, 6.0 if interior else 3.0).tolist()


def test_float64_for_float32_names_tensor_hook_and_both_dtypes():
    x = leaf(np.ones((3, 3)), name="w")
    x.register_hook(lambda g: g.numpy().astype(np.float64))
    with pytest.raises(TypeError) as caught:
        (x * 2).sum().backward()
    message = words_of(caught.value)
    assert "float64" in message
    assert "float32" in message
    assert "<lambda>" in message
    assert "'w'" in message
    assert x.grad is None


def test_float32_for_float64():
    x = leaf([1.0, 2.0], np.float64)
    x.register_hook(lambda g: g.astype(np.float32))
    with pytest.raises(TypeError, match=r"float32.*float64"):
        x.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_wrong_results_under_create_graph_too(create_graph):
    x = leaf([1.0, 2.0], np.float64)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ValueError, match=r"\(\).*\(2,\)"):
        (x * x).sum().backward(create_graph=create_graph)
    assert x.grad is None


def big_endian(grad):
    return (grad.numpy() * 2).astype(">f4")


def transposed(grad):
    return np.ascontiguousarray((grad.numpy() * 2).T).T


def strided(grad):
    wide = np.zeros((2, 6), np.float32)
    wide[:, ::2] = grad.numpy() * 2
    return wide[:, ::2]


def backwards(grad):
    return np.ascontiguousarray((grad.numpy() * 2)[::-1])[::-1]


def misaligned(grad):
    raw = np.zeros(4 * 6 + 1, np.uint8)[1:]
    out = raw.view(np.float32).reshape(2, 3)
    out[...] = grad.numpy() * 2
    return out


def read_only(grad):
    out = grad.numpy() * 2
    out.flags.writeable = False
    return out


class Labelled(np.ndarray):
    pass


RIGHT = {
    "tensor": lambda grad: grad * 2,
    "array": lambda grad: grad.numpy() * 2,
    "a view of the gradient plus itself": lambda grad: grad[:] + grad,
    "big endian": big_endian,
    "transposed": transposed,
    "strided": strided,
    "backwards": backwards,
    "misaligned": misaligned,
    "read-only": read_only,
    "a subclass of ndarray": lambda grad: (grad.numpy() * 2).view(Labelled),
    "recorded although recording is off": lambda grad: with_history(grad),
}


def with_history(grad):
    with hg.enable_grad():
        return grad * leaf(2.0)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("hook", RIGHT.values(), ids=RIGHT.keys())
def test_right_results(hook, interior, create_graph):
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    t = x * 1 if interior else x
    t.register_hook(hook)
    t.register_hook(lambda g: None)
    (t * t).sum().backward(retain_graph=True, create_graph=create_graph)
    expected = [[4.0, 8.0, 12.0], [16.0, 20.0, 24.0]]
    assert x.grad.tolist() == expected
    assert x.grad.requires_grad is (create_graph and hook in DIFFERENTIABLE)
    x.grad.numpy()  # the values can be read, whatever memory they came in
    (t * t).sum().backward()
    assert x.grad.tolist() == (2 * np.array(expected)).tolist()


DIFFERENTIABLE = [
    RIGHT["tensor"],
    RIGHT["a view of the gradient plus itself"],
    RIGHT["recorded although recording is off"],
]


def test_a_numpy_scalar_is_a_gradient_without_axes():
    # grad.numpy() * 2 is a scalar there, not an ndarray
    x = leaf(3.0)
    x.register_hook(lambda g: g.numpy() * 2)
    (x * 5).backward()
    assert x.grad.item() == 10.0


def test_a_hook_may_return_its_argument():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g)
    y = x * 3
    y.register_hook(lambda g: g)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad += 1  # and it is no read-only gradient then
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("result", ["tensor", "array", "view", "the leaf itself", "tensor that requires grad"])
@pytest.mark.parametrize("interior", [False, True])
def test_what_a_hook_returns_is_not_taken_from_it(result, interior):
    """The engine neither writes into a result that the hook still has, nor makes it anybody's .grad."""
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    own = {
        "tensor": hg.tensor([7.0, 9.0]),
        "array": np.array([7.0, 9.0], np.float32),
        "view": np.array([7.0, 0.0, 9.0], np.float32)[::2],
        "the leaf itself": leaf([7.0, 9.0]),
        "tensor that requires grad": leaf([3.5, 4.5]) * 2,
    }[result]
    if result == "the leaf itself":
        x.data = own.data
        own = x
    t = x + w if interior else x
    t.register_hook(lambda g: own)
    out = -(t + w) * 2 + t
    out.sum().backward()
    assert x.grad.tolist() == [7.0, 9.0]
    for _ in range(2):
        x.grad *= 100
        w.grad *= 100
        out = -(t + w) * 2 + t if not interior else -(x + w)
        out.sum().backward()
    assert (own.tolist() if hasattr(own, "tolist") else own) == [7.0, 9.0]


# What is given --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 1, 3)])
@pytest.mark.parametrize("interior", [False, True])
def test_a_gradient_is_a_tensor_of_the_same_shape_and_dtype(shape, dtype, interior):
    x = hg.ones(shape, dtype=dtype, requires_grad=True)
    t = x * 2 if interior else x
    seen = []
    t.register_hook(lambda g: seen.append((type(g), g.shape, g.dtype, g.requires_grad, g.grad_fn, g.is_leaf)))
    (t * 3).sum().backward()
    assert seen == [(hg.Tensor, shape, np.dtype(dtype), False, None, True)]


def iadd(g):
    g += 1


def isub(g):
    g -= 1


def imul(g):
    g *= 2


def itruediv(g):
    g /= 2


def ipow(g):
    g **= 2


def set_item(g):
    g[0] = 5


def set_all(g):
    g[...] = 5


def set_mask(g):
    g[g > 0] = 5


def set_data(g):
    g.data = hg.ones((2,))


def detach(g):
    d = g.detach()
    d += 1


def data(g):
    d = g.data
    d *= 2


def detach_item(g):
    g.detach()[0] = 5


def view_slice(g):
    v = g[:1]
    v *= 5


def view_slice_operator(g):
    g[:1] *= 5


def view_reshape(g):
    v = g.reshape((2, 1))
    v += 1


def view_transpose(g):
    v = g.T
    v += 1


def view_squeeze(g):
    v = g.squeeze()
    v += 1


def view_expand(g):
    v = hg.expand_dims(g, 0)
    v[0, 0] = 5


def view_of_view(g):
    v = g.reshape((2, 1))[0].detach()
    v += 1


def as_tensor(g):
    v = hg.asarray(g)
    v += 1


def from_numpy(g):
    v = hg.from_numpy(g.numpy())
    v += 1


def numpy_item(g):
    g.numpy()[0] = 5


def numpy_inplace(g):
    a = g.numpy()
    a *= 2


def numpy_view(g):
    g.numpy()[:1] *= 5


def numpy_out(g):
    np.multiply(g.numpy(), 2, out=g.numpy())


def numpy_array(g):
    np.asarray(g)[0] = 5


def numpy_fill(g):
    g.numpy().fill(5)


def numpy_sort(g):
    g.numpy().sort()


BY_OPERATOR = [iadd, isub, imul, itruediv, ipow, set_item, set_all, set_mask, set_data, detach, data, detach_item]
BY_VIEW = [
    view_slice,
    view_slice_operator,
    view_reshape,
    view_transpose,
    view_squeeze,
    view_expand,
    view_of_view,
    as_tensor,
    from_numpy,
]
BY_NUMPY = [numpy_item, numpy_inplace, numpy_view, numpy_out, numpy_array, numpy_fill, numpy_sort]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("change", BY_OPERATOR + BY_VIEW + BY_NUMPY)
def test_a_gradient_is_read_only(change, interior, create_graph):
    """Changing it raises, and has changed nothing; what another tensor shares with it is as it was."""
    x, other = leaf([2.0, 1.0]), leaf([0.0, 0.0])
    t = x * 1 if interior else x
    errors = []

    def hook(g):
        before = g.tolist()
        try:
            change(g)
        except (RuntimeError, ValueError) as error:
            errors.append(error)
        assert g.tolist() == before

    t.register_hook(hook)
    (t + other).backward(hg.tensor([3.0, 2.0]), create_graph=create_graph)
    assert len(errors) == 1
    if change in BY_OPERATOR:
        assert isinstance(errors[0], RuntimeError)
        assert "read-only" in str(errors[0])
        assert "return a new tensor" in str(errors[0])
    assert x.grad.tolist() == [3.0, 2.0]
    assert other.grad.tolist() == [3.0, 2.0]


def test_the_cure_that_the_error_names_works():
    x = leaf([1.0, 2.0])

    def hook(g):
        with pytest.raises(RuntimeError, match=r"return a new tensor.*return grad \* 2"):
            g *= 2
        return g * 2

    x.register_hook(hook)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("copy", [lambda g: g.copy(), lambda g: g + 0, lambda g: hg.tensor(g.numpy())])
def test_a_copy_of_a_gradient_can_be_changed(copy):
    x = leaf([1.0, 2.0])

    def hook(g):
        mine = copy(g)
        mine += 1
        mine.numpy()[0] = 7
        assert g.tolist() == [1.0, 1.0]
        return mine

    x.register_hook(hook)
    x.sum().backward()
    assert x.grad.tolist() == [7.0, 2.0]


def test_a_gradient_is_still_read_only_after_the_backward():
    x = leaf([1.0, 2.0])
    kept = []
    x.register_hook(kept.append)
    x.sum().backward()
    with pytest.raises(RuntimeError, match="read-only"):
        kept[0] += 1
    x.grad *= 5
    assert kept[0].tolist() == [1.0, 1.0]


def test_an_in_place_change_as_the_hook_itself():
    # a hook written for a library where this silently works, or silently does not
    x = leaf([1.0, 2.0])

    def scale(g):
        g *= 2

    x.register_hook(scale)
    with pytest.raises(RuntimeError, match="read-only"):
        x.sum().backward()
    assert x.grad is None


# Memory of its own ----------------------------------------------------------------------------------------------------


def double(grad):
    grad *= 2


def test_inplace_hooks_do_not_change_a_gradient_that_tensors_share():
    x, y, z = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([5.0, 6.0])
    seen = []
    y.register_hook(seen.append)
    s = x + y
    x.register_inplace_hook(double)
    v = hg.tensor([10.0, 20.0])
    (s + z).backward(v)
    assert x.grad.tolist() == [20.0, 40.0]
    assert y.grad.tolist() == [10.0, 20.0]
    assert z.grad.tolist() == [10.0, 20.0]
    assert s.grad.tolist() == [10.0, 20.0]
    assert seen[0].tolist() == [10.0, 20.0]
    assert v.tolist() == [10.0, 20.0]


@pytest.mark.parametrize("hook", ["inplace", "post", "none"])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_the_root_gradient_is_neither_changed_nor_kept(kind, hook):
    x = leaf([1.0, 2.0])
    if hook == "inplace":
        x.register_inplace_hook(double)
    elif hook == "post":
        x.register_post_accumulate_grad_hook(lambda t: double(t.grad))
    v = hg.tensor([10.0, 20.0]) if kind == "tensor" else np.array([10.0, 20.0], np.float32)
    expected = np.array([10.0, 20.0]) * (1 if hook == "none" else 2)
    x.backward(v)
    assert x.grad.tolist() == expected.tolist()
    x.grad *= 3
    assert v.tolist() == [10.0, 20.0]
    y = x * 1
    y.backward(v)
    y.grad *= 3
    assert v.tolist() == [10.0, 20.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_leaf_grads_share_memory_with_nothing(create_graph):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    s = x + y
    v = hg.tensor([10.0, 20.0])
    s.backward(v, create_graph=create_graph)
    grads = [x.grad, y.grad]
    assert grads[0] is not grads[1]
    with hg.no_grad():
        x.grad *= 5
        assert y.grad.tolist() == [10.0, 20.0]
        y.grad *= 7
    assert x.grad.tolist() == [50.0, 100.0]
    assert v.tolist() == [10.0, 20.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_interior_grads_share_memory_with_nothing(create_graph):
    x = leaf([1.0, 2.0])
    a, b = x * 2, x * 3
    c = a + b
    v = hg.tensor([10.0, 20.0])
    kept = []
    b.register_hook(kept.append)
    c.backward(v, create_graph=create_graph)
    for t in (a, b, c):
        assert t.grad.tolist() == [10.0, 20.0]
    with hg.no_grad():
        a.grad *= 10
        c.grad += 1
    assert a.grad.tolist() == [100.0, 200.0]
    assert b.grad.tolist() == [10.0, 20.0]
    assert c.grad.tolist() == [11.0, 21.0]
    assert kept[0].tolist() == [10.0, 20.0]
    assert v.tolist() == [10.0, 20.0]


def test_an_interior_grad_is_an_ordinary_tensor():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 2
    y.sum().backward()  # the gradient of a sum is one number, broadcast
    assert y.grad.numpy().flags.writeable
    y.grad[0] = 5
    y.grad *= 2
    assert y.grad.tolist() == [10.0, 2.0, 2.0]


def test_an_interior_tensor_that_becomes_a_leaf_accumulates_in_its_own_memory():
    x = leaf([1.0, 2.0])
    a, b = x * 2, x * 3
    (a + b).backward(hg.tensor([10.0, 20.0]))
    a.stop_gradient = True
    a.stop_gradient = False
    (a * 5).backward(hg.tensor([1.0, 1.0]))
    assert a.grad.tolist() == [15.0, 25.0]
    assert b.grad.tolist() == [10.0, 20.0]


def test_gradients_that_hooks_keep_are_not_overwritten_by_the_engine():
    """Sums and derivatives may reuse memory that nobody else holds, and only that."""
    x = leaf(np.arange(1.0, 5.0))
    kept = []

    def keep(g):
        kept.append((g, g.numpy(), g.numpy()[1:], g.numpy().copy()))

    t = x
    for k in range(6):
        t.register_hook(keep)
        t = -(t * 2) + t / 3 - t * t * 0.01 + (t - k).tanh()
    t.register_hook(keep)
    t.sum().backward()
    (x * 3).sum().backward()
    assert len(kept) == 8
    for g, array, view, copy in kept:
        np.testing.assert_array_equal(g.numpy(), copy)
        np.testing.assert_array_equal(array, copy)
        np.testing.assert_array_equal(view, copy[1:])


def test_accumulation_does_not_write_into_a_gradient_that_a_hook_kept():
    x = leaf([1.0, 2.0])
    kept = []
    x.register_hook(kept.append)
    for _ in range(3):
        (x * 2).sum().backward()
    assert [g.tolist() for g in kept] == [[2.0, 2.0]] * 3
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_hooks_gradient_set_as_the_grad_of_a_tensor_is_not_changed_by_accumulation():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    kept = []

    def hook(g):
        kept.append(g)
        w.grad = g

    x.register_hook(hook)
    (x * 2).sum().backward()
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5.0, 5.0]
    assert kept[0].tolist() == [2.0, 2.0]


def test_a_grad_that_cannot_be_written_is_replaced():
    frozen = np.array([1.0, 2.0], np.float32)
    frozen.flags.writeable = False
    x = leaf([1.0, 2.0])
    x.grad = hg.from_numpy(frozen)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]
    assert frozen.tolist() == [1.0, 2.0]
    broadcast = hg.from_numpy(np.broadcast_to(np.float32(1), (2,)))
    x.grad = broadcast
    (x * hg.tensor([3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]


def test_an_inplace_hook_on_a_grad_of_any_layout():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    x.grad = hg.tensor([[10.0, 20.0], [30.0, 40.0]]).T
    x.register_inplace_hook(double)
    (x * hg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [[22.0, 64.0], [46.0, 88.0]]


@pytest.mark.parametrize("grad", ["read-only", "broadcast"])
def test_an_inplace_hook_gets_memory_that_it_may_change(grad):
    x = leaf([1.0, 2.0])
    array = np.array([1.0, 1.0], np.float32)
    array.flags.writeable = False
    if grad == "broadcast":
        array = np.broadcast_to(np.float32(1), (2,))

    def set_grad(t):
        t.grad = hg.from_numpy(array)

    x.register_post_accumulate_grad_hook(set_grad)
    x.register_inplace_hook(double)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert array.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [5, "grad", [1.0], np.ones(2, np.float32), hg.ones((2,))], ids=type)
def test_an_inplace_hook_returns_nothing(value):
    x = leaf([1.0, 2.0])
    x.register_inplace_hook(returns(value))
    with pytest.raises(TypeError, match=rf"a_returning_hook.*{type(value).__name__}.*None.*register_hook"):
        x.sum().backward()


def test_a_post_accumulate_hook_that_returns_the_new_value():
    """It trains nothing, so it says so."""
    x = hg.tensor([1.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: p - 0.1 * p.grad)
    with pytest.raises(TypeError, match=r"post-accumulate hook .*returned Tensor.*change the leaf itself"):
        x.sum().backward()


def test_a_gradient_set_as_data_is_a_copy():
    x, p = hg.tensor([1.0], requires_grad=True), hg.tensor([5.0])

    def hook(grad):
        p.data = grad
        p.__imul__(100.0)

    x.register_hook(hook)
    (x * 2.0).backward()
    assert (x.grad.tolist(), p.tolist()) == ([2.0], [200.0])


@pytest.mark.parametrize("value", [5, "grad", np.ones(2, np.float32), hg.ones((2,))], ids=type)
def test_a_post_accumulate_hook_returns_nothing(value):
    x = leaf([1.0, 2.0])
    x.register_post_accumulate_grad_hook(returns(value))
    with pytest.raises(TypeError, match=rf"a_returning_hook.*{type(value).__name__}.*None"):
        x.sum().backward()
    assert hg.is_grad_enabled()
