"""hg.grad(), and backward(inputs=...): gradients of chosen tensors, and nothing else."""

import numpy as np
import pytest

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


KINDS = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]


# Results --------------------------------------------------------------------------------------------------------------


def test_a_list_in_the_order_of_the_inputs():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    out = y * y
    for inputs, expected in (
        ([x, w, y], [36.0, 24.0, 12.0]),
        ([y, w, x], [12.0, 24.0, 36.0]),
        ((w,), [24.0]),
        (x, [36.0]),
        (out, [1.0]),
    ):
        results = hg.grad(out, inputs, retain_graph=True)
        assert type(results) is list
        assert [g.item() for g in results] == expected
        assert all(type(g) is hg.Tensor and not g.requires_grad for g in results)


def test_outputs_as_one_tensor_or_a_sequence():
    x = leaf([1.0, 2.0])
    y = x * 3
    v = hg.tensor([1.0, 10.0])
    for outputs, grad_outputs in ((y, v), ([y], [v]), ((y,), (v,)), (y, [v]), ([y], v)):
        (g,) = hg.grad(outputs, x, grad_outputs, retain_graph=True)
        assert g.tolist() == [3.0, 30.0]


def test_several_outputs_are_summed():
    x = leaf([1.0, 2.0])
    (g,) = hg.grad([x * 3, (x * x).sum(), x], x, [hg.ones((2,)), None, hg.tensor([100.0, 200.0])])
    assert g.tolist() == [105.0, 207.0]


def test_nothing_is_written():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    x.grad = hg.tensor([100.0, 100.0])
    kept = x.grad
    y = x * w
    out = y.sum()
    hg.grad(out, [x, w, y], retain_graph=True)
    assert x.grad is kept
    assert x.grad.tolist() == [100.0, 100.0]
    assert w.grad is None
    assert y.grad is None
    assert out.grad is None
    out.backward()
    assert x.grad.tolist() == [103.0, 104.0]


def test_a_grad_that_was_set_is_left_alone():
    x = leaf(2.0)
    x.grad = hg.tensor(100.0)
    (g,) = hg.grad(3 * x, x)
    assert g.item() == 3.0
    assert x.grad.item() == 100.0


def test_an_interior_grad_of_an_earlier_backward_is_left_alone():
    x = leaf(2.0)
    y = x * 3
    out = y * y
    out.backward(retain_graph=True)
    kept = y.grad
    hg.grad(out, [x, y])
    assert y.grad is kept
    assert y.grad.item() == 12.0


def test_one_input_twice():
    x = leaf([1.0, 2.0])
    y = x * 3
    results = hg.grad((y * y).sum(), [x, y, x, y])
    assert [g.tolist() for g in results] == [[18.0, 36.0], [6.0, 12.0]] * 2


def test_an_output_that_is_an_input():
    x = leaf([1.0, 2.0])
    y = x * 3
    v = hg.tensor([5.0, 6.0])
    assert [g.tolist() for g in hg.grad(y, [y, x], v)] == [[5.0, 6.0], [15.0, 18.0]]
    assert hg.grad(x, x, v)[0].tolist() == [5.0, 6.0]
    x.register_hook(lambda g: g * 10)
    assert hg.grad(x, x, v)[0].tolist() == [5.0, 6.0]
    assert hg.grad(x, x, v, run_leaf_hooks=True)[0].tolist() == [50.0, 60.0]


def test_an_input_upstream_of_another_input():
    x = leaf(2.0)
    a = x * x
    b = a * 3
    c = b * b
    assert [g.item() for g in hg.grad(c, [a, b, x])] == [72.0, 24.0, 288.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_results_share_memory_with_nothing(create_graph):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    kept = []
    y = a + b
    y.register_hook(kept.append)
    v = hg.tensor([10.0, 20.0])
    results = hg.grad(y, [a, b, y], v, create_graph=create_graph)
    with hg.no_grad():
        for k, g in enumerate(results):
            assert g.tolist() == [10.0, 20.0]
            g *= k + 2
            assert g.tolist() == [10.0 * (k + 2), 20.0 * (k + 2)]
    assert v.tolist() == [10.0, 20.0]
    assert kept[0].tolist() == [10.0, 20.0]
    assert [g.tolist() for g in results] == [[20.0, 40.0], [30.0, 60.0], [40.0, 80.0]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_result_can_be_changed_where_the_hook_returned_a_gradient_it_was_given(create_graph):
    x = leaf([1.0, 2.0])
    y = x * 1
    first = []
    y.register_hook(lambda g: first.append(g) or g * 2)
    y.register_hook(lambda g: first[0])
    (g,) = hg.grad(y * 3, y, hg.tensor([1.0, 10.0]), create_graph=create_graph)
    with hg.no_grad():
        g += 1
    assert g.tolist() == [4.0, 31.0]
    assert first[0].tolist() == [3.0, 30.0]


def test_the_result_of_a_sum_can_be_changed():
    x = leaf([1.0, 2.0, 3.0])
    (g,) = hg.grad(x.sum(), x)
    g[0] = 5
    assert g.tolist() == [5.0, 1.0, 1.0]


def test_result_has_the_inputs_dtype_and_shape():
    x = hg.ones((2, 1), dtype=np.float64, requires_grad=True)
    w = hg.ones((3,), requires_grad=True)
    gx, gw = hg.grad((x * w).sum(), [x, w])
    assert (gx.shape, gx.dtype, gx.tolist()) == ((2, 1), np.float64, [[3.0], [3.0]])
    assert (gw.shape, gw.dtype, gw.tolist()) == ((3,), np.float32, [2.0, 2.0, 2.0])


# Hooks ----------------------------------------------------------------------------------------------------------------


def test_interior_hooks_run():
    x = leaf([1.0, 2.0])
    y = x * 3
    log = []
    y.register_hook(lambda g: log.append(g.tolist()) or g * 10)
    (g,) = hg.grad(y.sum(), x)
    assert log == [[1.0, 1.0]]
    assert g.tolist() == [30.0, 30.0]


def test_an_interior_inputs_result_is_the_hooked_one():
    x = leaf([1.0, 2.0])
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    gy, gx = hg.grad(y.sum(), [y, x])
    assert gy.tolist() == [11.0, 11.0]
    assert gx.tolist() == [33.0, 33.0]


def test_an_interior_input_that_is_the_output_is_hooked():
    x = leaf(2.0)
    y = x * 3
    log = []
    y.register_hook(lambda g: log.append(g.item()) or g * 10)
    (g,) = hg.grad(y, y)
    assert g.item() == 10.0
    assert log == [1.0]


def test_a_leaf_inputs_hooks_do_not_run():
    x, w = leaf(2.0), leaf(3.0)
    calls = []
    for t in (x, w):
        for kind in KINDS:
            getattr(t, kind)(lambda *args, kind=kind: calls.append(kind))
    gx, gw = hg.grad(x * w, [x, w])
    assert (gx.item(), gw.item()) == (3.0, 2.0)
    assert calls == []
    assert x.grad is None


def test_run_leaf_hooks_runs_gradient_hooks_alone():
    x, w = leaf(2.0), leaf(3.0)
    calls = []
    x.register_hook(lambda g: calls.append(g.item()) or g * 10)
    x.register_hook(lambda g: calls.append(g.item()) or g + 1)
    for kind in KINDS[1:]:
        getattr(x, kind)(lambda *args, kind=kind: calls.append(kind))
    w.register_hook(lambda g: calls.append("w"))
    (g,) = hg.grad(x * w, x, run_leaf_hooks=True)
    assert calls == [3.0, 30.0]
    assert g.item() == 31.0
    assert x.grad is None


def test_a_post_accumulate_hook_never_runs_in_grad():
    x = leaf(2.0)
    calls = []
    x.register_post_accumulate_grad_hook(calls.append)
    for run_leaf_hooks in (False, True):
        assert hg.grad(3 * x, x, run_leaf_hooks=run_leaf_hooks)[0].item() == 3.0
    assert calls == []
    assert x.grad is None


def test_hooks_run_once_whatever_the_number_of_inputs():
    x = leaf(2.0)
    y = x * x
    log = []
    y.register_hook(lambda g: log.append(g.item()))
    hg.grad(y * 2 + y * 3, [y, x, y])
    assert log == [5.0]


# Pruning: what the inputs do not need ---------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["grad", "backward"])
def test_what_is_not_needed_is_neither_run_nor_hooked(through):
    x, w, u = leaf(2.0), leaf(3.0), leaf(5.0)
    a = x * x
    side = w * w
    deep = u * side
    out = a * side + deep
    log = []
    for name, t in (("x", x), ("w", w), ("u", u), ("a", a), ("side", side), ("deep", deep), ("out", out)):
        t.register_hook(lambda g, name=name: log.append(name))
        if t.is_leaf:
            t.register_inplace_hook(lambda g, name=name: log.append(name + " in place"))
            t.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name + " post"))
    with hg.no_grad():
        u += 1  # the derivative of u * side would fail, if it were asked for
    if through == "grad":
        (g,) = hg.grad(out, x)
        assert log == ["out", "a"]
    else:
        out.backward(inputs=[x])
        g = x.grad
        assert log == ["out", "a", "x", "x in place", "x post"]
        assert w.grad is None
        assert u.grad is None
    assert g.item() == 36.0
    assert all(t.grad is None for t in (a, side, deep, out))


@pytest.mark.parametrize("through", ["grad", "backward"])
def test_nothing_upstream_of_the_inputs_is_run(through):
    x = leaf(2.0)
    a = x * x
    b = a * 3
    out = b * b
    log = []
    for name, t in (("x", x), ("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: log.append(name))
    if through == "grad":
        (g,) = hg.grad(out, b)
    else:
        out.backward(inputs=b)
        g = b.grad
    assert g.item() == 24.0
    assert log == ["b"]
    assert x.grad is None
    assert a.grad is None
    a.backward()  # and it is not freed either
    assert x.grad.item() == 4.0


def test_only_the_needed_contributions_are_waited_for():
    """The input is used by a part that is run and by one that the outputs do not reach."""
    x = leaf(2.0)
    y = x * 3
    y * 100
    out = y * y + y
    assert hg.grad(out, [y, x])[0].item() == 13.0


def test_a_freed_part_that_is_not_needed():
    x, w = leaf(2.0), leaf(3.0)
    side = w * w
    side.backward()
    out = x * side
    (g,) = hg.grad(out, x, retain_graph=True)
    assert g.item() == 9.0
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        hg.grad(out, w)


# backward(inputs=...) -------------------------------------------------------------------------------------------------


def test_backward_inputs_accumulates_into_leaves():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    x.grad = hg.tensor(100.0)
    y.backward(inputs=[x], retain_graph=True)
    y.backward(inputs=(x,), retain_graph=True)
    y.backward(inputs=x)
    assert x.grad.item() == 109.0
    assert w.grad is None
    assert y.grad is None


def test_backward_inputs_with_interior_tensors():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    z = y * y
    out = z * 2
    y.register_hook(lambda g: g * 10)
    out.backward(inputs=[y, w], retain_graph=True)
    assert y.grad.item() == 24.0  # the raw sum
    assert w.grad.item() == 480.0
    assert x.grad is None
    assert z.grad is None
    out.backward(5.0, inputs=[y])
    assert y.grad.item() == 120.0  # replaced, not added to
    assert w.grad.item() == 480.0


def test_backward_inputs_fills_interior_tensors_even_where_they_are_not_retained():
    x = leaf(2.0)
    y = x * 3
    with hg.autograd.retain_interior_grads(False):
        (y * y).backward(inputs=[y, x])
    assert y.grad.item() == 12.0
    assert x.grad.item() == 36.0


def test_backward_inputs_runs_all_hooks_of_the_leaves_it_names():
    x, w = leaf(2.0), leaf(3.0)
    log = []
    for name, t in (("x", x), ("w", w)):
        for kind in KINDS:
            getattr(t, kind)(lambda *args, name=name, kind=kind: log.append((name, kind)))
    (x * w).backward(inputs=[w])
    assert log == [("w", kind) for kind in KINDS]


def test_backward_inputs_that_are_not_reached():
    x, w = leaf(2.0), leaf(3.0)
    (x * 5).backward(inputs=[x, w])
    assert x.grad.item() == 5.0
    assert w.grad is None


def test_backward_inputs_with_the_root():
    x = leaf(2.0)
    y = x * 3
    y.backward(7.0, inputs=[y])
    assert y.grad.item() == 7.0
    assert x.grad is None


# Errors ---------------------------------------------------------------------------------------------------------------


def test_unused_inputs():
    x, w = leaf(2.0), leaf(3.0, name="unused")
    y = x * 5
    side = w * 2
    with pytest.raises(RuntimeError, match=r"inputs\[1\].*'unused'.*allow_unused=True"):
        hg.grad(y, [x, w], retain_graph=True)
    for inputs in ([x, w, side], [x, side, w]):
        g, *rest = hg.grad(y, inputs, allow_unused=True, retain_graph=True)
        assert g.item() == 5.0
        assert rest == [None, None]
    assert hg.grad(y, w, allow_unused=True, retain_graph=True) == [None]


def test_an_input_downstream_of_the_output_is_unused():
    x = leaf(2.0)
    y = x * 5
    z = y * 2
    assert hg.grad(y, z, allow_unused=True, retain_graph=True) == [None]
    with pytest.raises(RuntimeError, match="allow_unused"):
        hg.grad(y, z)


@pytest.mark.parametrize("through", ["grad", "backward"])
def test_inputs_that_need_no_grad(through):
    x = leaf(2.0)
    y = x * 5
    with hg.no_grad():
        hidden = x * 2
    for t in (hg.tensor(1.0, name="c"), hg.tensor(3), hidden, x.detach()):
        with pytest.raises(RuntimeError, match=r"inputs\[1\].*does not require grad"):
            if through == "grad":
                hg.grad(y, [x, t])
            else:
                y.backward(inputs=[x, t])
    y.backward()
    assert x.grad.item() == 5.0


@pytest.mark.parametrize("through", ["grad", "backward"])
@pytest.mark.parametrize("inputs", [3, "x", np.ones(2), [1], [None], {1: 2}], ids=repr)
def test_inputs_that_are_no_tensors(through, inputs):
    x = leaf(2.0)
    with pytest.raises(TypeError, match="must be a Tensor"):
        if through == "grad":
            hg.grad(x * 2, inputs)
        else:
            (x * 2).backward(inputs=inputs)


@pytest.mark.parametrize("through", ["grad", "backward"])
def test_no_inputs(through):
    x = leaf(2.0)
    with pytest.raises(ValueError, match="inputs is empty"):
        if through == "grad":
            hg.grad(x * 2, [])
        else:
            (x * 2).backward(inputs=[])


def test_outputs_that_need_no_grad_or_a_gradient():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="does not require grad"):
        hg.grad(hg.tensor(1.0), x)
    with pytest.raises(RuntimeError, match="one element"):
        hg.grad(x * 2, x)
    with pytest.raises(ValueError, match=r"invalid gradient at index 0.*\(3,\).*\(2,\)"):
        hg.grad(x * 2, x, hg.ones((3,)))
    with pytest.raises(ValueError, match="gradients for"):
        hg.grad([x * 2, x * 3], x, [hg.ones((2,))])


def test_an_error_in_a_hook_leaves_nothing():
    x = leaf(2.0)
    y = x * 3
    handle = y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hg.grad(y, x, retain_graph=True)
    assert hg.is_grad_enabled()
    assert y.grad is None
    handle.remove()
    assert hg.grad(y, x)[0].item() == 3.0


def test_a_result_that_is_not_needed_any_more_in_the_middle():
    """Pruned through a chain with a dead branch at each step."""
    x = leaf(1.0, np.float64)
    noise = leaf(1.0, np.float64)
    calls = []
    y = x
    for _ in range(50):
        side = noise * 2
        side.register_hook(lambda g: calls.append("side"))
        y = y * 1.5 + side * 0
    (g,) = hg.grad(y, x)
    assert g.item() == 1.5**50
    assert calls == []


def test_grad_of_many_random_graphs():
    """Every gradient of a linear graph with small integers, by counting weighted paths."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        size = 20
        weights = np.zeros((size, size))
        tensors = [leaf(1.0, np.float64), leaf(1.0, np.float64)]
        for k in range(2, size):
            i, j = rng.integers(0, k, 2)
            a, b = rng.integers(-2, 3, 2)
            tensors.append(tensors[i] * float(a) + tensors[j] * float(b))
            weights[k, i] += a
            weights[k, j] += b
        # totals[k] = d out / d tensor k; reached[k]: out depends on it at all
        out = size - 1
        totals, reached = np.zeros(size), np.zeros(size, bool)
        totals[out], reached[out] = 1, True
        edges = {k: t.grad_fn for k, t in enumerate(tensors) if k > 1}
        assert all(edges.values())
        parents = [np.nonzero(weights[k])[0] for k in range(size)]
        for k in range(out, -1, -1):
            totals[:k] += totals[k] * weights[k, :k]
        inputs = rng.permutation(size)[:5]
        results = hg.grad(tensors[out], [tensors[k] for k in inputs], allow_unused=True)
        for k, g in zip(inputs, results, strict=True):
            assert (0.0 if g is None else g.item()) == totals[k], (k, parents)
