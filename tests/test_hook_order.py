"""When hooks run: the steps of one backward, in their order."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def recorder(log, name):
    """A hook that notes what it sees and leaves the gradient as it is."""
    return lambda grad: log.append((name, grad.tolist()))


# 1. All contributions of one backward are summed; a hook runs once ----------------------------------------------------


@pytest.mark.parametrize("uses", [1, 2, 3, 100])
@pytest.mark.parametrize("interior", [False, True])
def test_a_hook_runs_once_on_the_sum(uses, interior):
    x = leaf([1.0, -2.0])
    t = x * 1 if interior else x
    log = []
    t.register_hook(recorder(log, "t"))
    total = t * 1
    for k in range(2, uses + 1):
        total = total + t * k
    total.sum().backward()
    expected = uses * (uses + 1) / 2
    assert log == [("t", [expected, expected])]
    assert x.grad.tolist() == [expected, expected]


def test_both_operands_are_one_tensor():
    x = leaf([3.0, 4.0])
    log = []
    x.register_hook(recorder(log, "x"))
    (x * x + x - x / x).sum().backward()  # 2x + 1 - (1/x - x/x^2)
    assert log == [("x", [7.0, 9.0])]


def test_squaring_hook_sees_the_sum_once():
    # (2g)^2 + (3g)^2 would be 13, if it ran for each contribution
    x = leaf(1.0)
    y = x + 1
    seen = []
    y.register_hook(lambda g: seen.append(g.item()) or g * g)
    (2 * y + 3 * y).backward()
    assert seen == [5.0]
    assert x.grad.item() == 25.0


def test_hooks_on_every_tensor_of_a_diamond():
    x = leaf(2.0)
    b1 = hg.relu(x)
    b2 = hg.relu(x)
    o = b1 + 0.5 * b2
    log = []
    for name, t in (("x", x), ("b1", b1), ("b2", b2), ("o", o)):
        t.register_hook(recorder(log, name))
    o.backward()
    assert sorted(log) == [("b1", 1.0), ("b2", 0.5), ("o", 1.0), ("x", 1.5)]
    assert log[0][0] == "o"
    assert log[-1][0] == "x"


def test_a_hook_is_not_run_where_backward_does_not_reach():
    x, y = leaf(1.0), leaf(1.0)
    calls = []
    for t in (x, y):
        t.register_hook(lambda g, t=t: calls.append(t))
        t.register_inplace_hook(lambda g, t=t: calls.append(t))
        t.register_post_accumulate_grad_hook(calls.append)
        t._register_backward_hook(lambda t=t: calls.append(t))
    z = x * y
    z.register_hook(lambda g: calls.append(z))
    (x * 3).backward()
    assert len(calls) == 4
    assert all(t is x for t in calls)
    assert y.grad is None
    assert z.grad is None


# 2. The raw sum becomes the .grad of a living interior tensor ---------------------------------------------------------


def test_interior_grad_is_the_raw_sum():
    x = leaf([1.0, 2.0])
    y = 3 * x
    y.register_hook(lambda g: 2 * g)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [6.0, 6.0]


def test_interior_grad_needs_no_hook_and_no_flag():
    x = leaf([1.0, 2.0])
    y = x * x
    z = y * 3
    s = z.sum()
    s.backward()
    assert s.grad.item() == 1.0
    assert z.grad.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [3.0, 3.0]
    assert y.grad.grad_fn is None
    assert not y.grad.requires_grad


def test_interior_grad_is_there_for_the_tensors_own_hooks():
    x = leaf([1.0, 2.0])
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(y.grad.tolist()) or g * 10)
    y.register_hook(lambda g: seen.append((g.tolist(), y.grad.tolist())))
    (y * 2).sum().backward()
    assert seen == [[2.0, 2.0], ([20.0, 20.0], [2.0, 2.0])]


def test_a_later_backward_replaces_interior_grads_and_adds_to_leaves():
    a = leaf([1.0, 2.0])
    b = a * 3
    out = b * 2
    out.backward([1.0, 1.0], retain_graph=True)
    first = b.grad
    assert first.tolist() == [2.0, 2.0]
    out.backward([10.0, 20.0])
    assert b.grad.tolist() == [20.0, 40.0]
    assert first.tolist() == [2.0, 2.0]
    assert a.grad.tolist() == [66.0, 126.0]


def test_a_backward_that_does_not_reach_an_interior_tensor_leaves_its_grad():
    x = leaf(1.0)
    y = x * 2
    (y * 3).backward()
    (x * 5).backward()
    assert y.grad.item() == 3.0
    assert x.grad.item() == 11.0


def test_a_slice_of_a_leaf_has_no_grad_of_its_own():
    base = leaf([0.0, 1.0, 2.0, 3.0])
    (base**2).sum().backward()
    view = base[-2:]
    assert view.grad is None
    assert base.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_retain_interior_grads_can_be_turned_off():
    x = leaf([1.0, 2.0])
    y = x * 2
    log = []
    y.register_hook(recorder(log, "y"))
    with hg.autograd.retain_interior_grads(False):
        (y * 3).sum().backward(retain_graph=True)
    assert y.grad is None
    assert log == [("y", [3.0, 3.0])]  # hooks run all the same
    assert x.grad.tolist() == [6.0, 6.0]
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5.0, 5.0]  # on again after the context


def test_retain_interior_grads_as_a_plain_call():
    x = leaf(1.0)
    y = x * 2
    hg.autograd.retain_interior_grads(False)
    try:
        (y * 3).backward()
        assert y.grad is None
    finally:
        hg.autograd.retain_interior_grads(True)
    z = x * 2
    (z * 3).backward()
    assert z.grad.item() == 3.0


def test_retain_interior_grads_off_leaves_an_earlier_grad():
    x = leaf(1.0)
    y = x * 2
    y.backward(5.0, retain_graph=True)
    with hg.autograd.retain_interior_grads(False):
        y.backward(7.0)
    assert y.grad.item() == 5.0


def test_retain_interior_grads_is_restored_after_an_error():
    x = leaf(1.0)
    with pytest.raises(KeyError), hg.autograd.retain_interior_grads(False):
        raise KeyError
    y = x * 2
    y.backward()
    assert y.grad.item() == 1.0


# 3. Hooks in the order of registration, each on the result of the one before ------------------------------------------


@pytest.mark.parametrize("interior", [False, True])
def test_order_of_registration_and_none_keeps(interior):
    x = leaf([1.0, 2.0])
    t = x * 1 if interior else x
    log = []
    t.register_hook(lambda g: log.append(g.tolist()) or g + 1)
    t.register_hook(lambda g: log.append(g.tolist()) or g * 2)
    t.register_hook(lambda g: log.append(g.tolist()))
    t.register_hook(lambda g: log.append(g.tolist()) or g - 3)
    (t * hg.tensor([5.0, 7.0])).sum().backward()
    assert log == [[5.0, 7.0], [6.0, 8.0], [12.0, 16.0], [12.0, 16.0]]
    assert x.grad.tolist() == [9.0, 13.0]


@given(st.lists(st.tuples(st.sampled_from(["add", "multiply", "none"]), st.integers(-3, 3)), max_size=12))
@settings(max_examples=50, deadline=None)
def test_hooks_compose_like_functions(program):
    x = leaf(2.0, np.float64)
    y = x * 3
    expected = 5.0
    for kind, k in program:
        if kind == "add":
            y.register_hook(lambda g, k=k: g + k)
            expected += k
        elif kind == "multiply":
            y.register_hook(lambda g, k=k: g * k)
            expected *= k
        else:
            y.register_hook(lambda g: None)
    (y * 5).backward()
    assert x.grad.item() == 3 * expected
    assert y.grad.item() == 5.0


def test_one_function_registered_twice_runs_twice():
    x = leaf(1.0)

    def double(g):
        return g * 2

    x.register_hook(double)
    x.register_hook(double)
    x.backward()
    assert x.grad.item() == 4.0


def test_one_function_on_two_tensors():
    x = leaf(1.0)
    y = x * 3

    def double(g):
        return g * 2

    x.register_hook(double)
    y.register_hook(double)
    y.backward()
    assert x.grad.item() == 12.0


# 4. An interior hook's result flows upstream --------------------------------------------------------------------------


def test_results_flow_upstream_through_several_tensors():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * 3
    y.register_hook(lambda g: g + 100)
    z.register_hook(lambda g: g * 10)
    z.sum().backward()
    assert z.grad.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [30.0, 30.0]
    assert x.grad.tolist() == [260.0, 260.0]


def test_a_zero_from_a_hook_stops_the_gradient():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.register_hook(hg.zeros_like)
    (y * 3 + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_root_has_hooks_too():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.backward([1.0, 2.0])
    assert y.grad.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [20.0, 40.0]


# 5. A leaf's hooked result is added to .grad --------------------------------------------------------------------------


def test_a_leafs_hook_sees_one_backward_and_its_result_accumulates():
    x = leaf([1.0, 2.0])
    log = []
    x.register_hook(lambda g: log.append(g.tolist()) or g * 10)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]
    (x * 4).sum().backward()
    assert x.grad.tolist() == [70.0, 70.0]
    assert log == [[3.0, 3.0], [4.0, 4.0]]


def test_accumulation_starts_from_a_grad_that_was_set():
    x = leaf([1.0, 2.0])
    x.grad = hg.tensor([100.0, 200.0])
    x.register_hook(lambda g: g * 10)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [130.0, 230.0]


def test_a_leaf_as_the_root():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g * 10)
    x.backward([1.0, 2.0])
    x.backward([3.0, 4.0])
    assert x.grad.tolist() == [40.0, 60.0]


# 6. In-place and post-accumulate hooks, in one order, on the accumulated .grad ----------------------------------------


def test_reduce_hooks_run_in_one_order_of_registration():
    x = leaf([1.0, 2.0])
    x.grad = hg.tensor([10.0, 20.0])
    log = []

    def triple(grad):
        log.append(("triple", grad.tolist()))
        grad *= 3

    def add_one(tensor):
        log.append(("post", tensor is x, tensor.grad.tolist()))
        tensor.grad += 1

    def halve(grad):
        log.append(("halve", grad.tolist()))
        grad *= 0.5

    x.register_inplace_hook(triple)
    x.register_post_accumulate_grad_hook(add_one)
    x.register_inplace_hook(halve)
    x.register_post_accumulate_grad_hook(lambda t: log.append(("last", t.grad.tolist())))
    x.register_hook(lambda g: log.append(("gradient", g.tolist())) or g * 2)  # registered last, runs first
    (x * 1).sum().backward()
    assert log == [
        ("gradient", [1.0, 1.0]),
        ("triple", [12.0, 22.0]),
        ("post", True, [36.0, 66.0]),
        ("halve", [37.0, 67.0]),
        ("last", [18.5, 33.5]),
    ]
    assert x.grad.tolist() == [18.5, 33.5]


def test_an_inplace_hook_changes_what_is_accumulated():
    x = leaf(1.0)

    def double(grad):
        grad *= 2

    x.register_inplace_hook(double)
    (x * 3).backward()
    assert x.grad.item() == 6.0
    (x * 3).backward()
    assert x.grad.item() == 18.0  # (6 + 3) * 2


def test_an_inplace_hook_gets_the_grad_itself():
    x = leaf([1.0, 2.0])
    same = []
    x.register_inplace_hook(lambda grad: same.append(grad is x.grad))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert same == [True, True]


def test_an_inplace_hook_may_return_its_argument():
    x = leaf([1.0, 2.0])

    def scale(grad):
        grad *= 2
        return grad

    x.register_inplace_hook(scale)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_writing_through_numpy_in_an_inplace_hook():
    x = leaf([3.0, -4.0])

    def clip(grad):
        a = grad.numpy()
        np.clip(a, -1, 1, out=a)

    x.register_inplace_hook(clip)
    (x * x).sum().backward()
    assert x.grad.tolist() == [1.0, -1.0]


def test_indexed_assignment_in_an_inplace_hook():
    x = leaf([3.0, -4.0])

    def mask(grad):
        grad[0] = 0

    x.register_inplace_hook(mask)
    (x * x).sum().backward()
    assert x.grad.tolist() == [0.0, -8.0]


def test_a_post_accumulate_hook_applies_an_update():
    v = leaf([0.0, 0.0, 0.0])
    got = []

    def descend(p):
        got.append(p is v)
        p -= 0.01 * p.grad

    v.register_post_accumulate_grad_hook(descend)
    v.backward([1.0, 2.0, 3.0])
    assert got == [True]
    np.testing.assert_array_equal(v.numpy(), -np.float32(0.01) * np.array([1, 2, 3], np.float32))
    assert v.requires_grad
    assert v.is_leaf


def test_a_post_accumulate_hook_may_clear_the_grad():
    w = leaf([1.0, 2.0])
    seen = []

    def step(t):
        seen.append(t.grad.tolist())
        t.clear_grad()

    w.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (w * 2).sum().backward()
        assert w.grad is None
    assert seen == [[2.0, 2.0]] * 3


def test_an_inplace_hook_after_the_grad_was_cleared_is_not_run():
    w = leaf([1.0, 2.0])
    calls = []
    w.register_post_accumulate_grad_hook(lambda t: t.clear_grad())
    w.register_inplace_hook(calls.append)
    (w * 2).sum().backward()
    assert calls == []
    assert w.grad is None


def test_a_post_accumulate_hook_runs_after_data_was_replaced():
    w = leaf([1.0, 2.0])
    seen = []
    w.register_post_accumulate_grad_hook(lambda t: seen.append((t.tolist(), t.grad.tolist())))
    w.data = np.array([3.0, 4.0], np.float32)
    (w * w).sum().backward()
    assert seen == [([3.0, 4.0], [6.0, 8.0])]


def test_reduce_hooks_of_one_leaf_run_before_upstream_leaves_of_older_nodes():
    # step 6 comes at once, when the leaf's own sum is complete, not at the end of the backward
    a, b = leaf(1.0), leaf(1.0)
    log = []
    a.register_post_accumulate_grad_hook(lambda t: log.append(("a", t.grad.item(), b.grad)))
    y = b * 2
    y.register_hook(lambda g: log.append("y"))
    (y * a).backward()
    assert log[0] == ("a", 2.0, None)
    assert log[1] == "y"


# 7. Final callbacks ---------------------------------------------------------------------------------------------------


def test_final_callbacks_come_after_everything():
    a, b = leaf(1.0), leaf(2.0)
    log = []

    def final(name):
        return lambda: log.append((name, a.grad.item(), b.grad.item()))

    a._register_backward_hook(final("a"))
    y = a * b
    y.register_hook(lambda g: hg.autograd.queue_callback(final("queued")))
    b.register_hook(lambda g: log.append("b's hook"))
    b.register_post_accumulate_grad_hook(lambda t: log.append("b's post"))
    y.backward()
    assert sorted(log[:2]) == ["b's hook", "b's post"]
    assert sorted(log[2:]) == [("a", 2.0, 1.0), ("queued", 2.0, 1.0)]


def test_a_final_hook_has_no_arguments_and_runs_once_a_backward():
    x = leaf(1.0)
    calls = []

    def final(*args, **kwargs):
        calls.append((args, kwargs))

    x._register_backward_hook(final)
    for _ in range(3):
        (x * 2 + x * 3 + x * x).backward()
    assert calls == [((), {})] * 3


def test_final_hooks_of_one_leaf_run_in_the_order_of_registration():
    x = leaf(1.0)
    log = []
    for k in range(5):
        x._register_backward_hook(lambda k=k: log.append(k))
    x.backward()
    assert log == [0, 1, 2, 3, 4]


def test_queued_callbacks_run_in_the_order_of_queueing():
    x = leaf(1.0)
    log = []

    def hook(g):
        for k in range(3):
            hg.autograd.queue_callback(lambda k=k: log.append(k))

    x.register_hook(hook)
    x.backward()
    assert log == [0, 1, 2]


def test_a_final_callback_sees_staged_grads_of_leaves_without_reduce_hooks():
    x = leaf(1.0)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(x.grad) or hg.autograd.queue_callback(lambda: seen.append(x.grad.item())))
    y.backward()
    assert seen == [None, 2.0]


def test_no_final_callbacks_after_a_failed_backward():
    x, w = leaf(1.0), leaf(1.0)
    calls = []
    w._register_backward_hook(lambda: calls.append("registered"))
    y = x * 2
    z = y * w
    z.register_hook(lambda g: hg.autograd.queue_callback(lambda: calls.append("queued")))

    def fail(g):
        raise ValueError("stop")

    handle = x.register_hook(fail)
    with pytest.raises(ValueError, match="stop"):
        z.backward()
    assert calls == []
    handle.remove()
    (w * 2).backward()  # nothing of the failed backward is left to run
    assert calls == ["registered"]


def test_a_callback_queued_in_a_nested_backward_runs_at_the_end_of_that_one():
    x, other = leaf(1.0), leaf(1.0)
    log = []
    other.register_hook(lambda g: hg.autograd.queue_callback(lambda: log.append("inner end")))

    def hook(g):
        hg.autograd.queue_callback(lambda: log.append("outer end"))
        with hg.enable_grad():
            (other * 2).backward()
        log.append("hook end")

    x.register_hook(hook)
    (x * 3).backward()
    assert log == ["inner end", "hook end", "outer end"]


def test_callbacks_of_grad_run_when_it_is_over():
    x = leaf(1.0)
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append("hook") or hg.autograd.queue_callback(lambda: log.append("end")))
    (g,) = hg.grad(y, x)
    assert log == ["hook", "end"]
    assert g.item() == 2.0


def test_a_final_callback_may_run_a_backward():
    x = leaf(1.0)
    y = x * 3
    first = []

    def final():
        if not first:
            first.append(x.grad.item())
            y.backward()

    x._register_backward_hook(final)
    y.backward(retain_graph=True)
    assert first == [3.0]
    assert x.grad.item() == 6.0


def test_an_error_in_a_final_callback_comes_after_the_grads_are_written():
    x = leaf(1.0)

    def final():
        raise KeyError("final")

    handle = x._register_backward_hook(final)
    with pytest.raises(KeyError, match="final"):
        (x * 3).backward()
    assert x.grad.item() == 3.0
    assert hg.is_grad_enabled()
    handle.remove()
    (x * 3).backward()
    assert x.grad.item() == 6.0


def test_queue_callback_outside_a_backward():
    with pytest.raises(RuntimeError, match="no backward is running"):
        hg.autograd.queue_callback(print)


def test_queue_callback_needs_a_callable():
    x = leaf(1.0)
    x.register_hook(lambda g: hg.autograd.queue_callback(3))
    with pytest.raises(TypeError, match=r"int.*callable"):
        x.backward()
    with pytest.raises(TypeError, match=r"str.*callable"):
        hg.autograd.queue_callback("callback")


# The hooks live as long as the graph ----------------------------------------------------------------------------------


def test_hooks_of_a_tensor_that_is_gone_still_run():
    x = leaf([1.0, 2.0])
    log = []

    def forward():
        y = x * 2
        y.register_hook(lambda g: log.append(g.tolist()) or g * 10)
        return y * 3

    out = forward()
    gc.collect()
    out.sum().backward()
    assert log == [[3.0, 3.0]]
    assert x.grad.tolist() == [60.0, 60.0]


def test_the_handle_of_a_tensor_that_is_gone_removes_its_hook():
    x = leaf(1.0)
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    out = y * 3
    del y
    assert handle.remove() is True
    assert handle.remove() is False
    out.backward()
    assert x.grad.item() == 6.0


def test_hooks_of_a_leaf_that_is_gone_still_run_and_others_are_right():
    x, w = leaf(1.0), leaf(5.0)
    log = []
    x.register_hook(recorder(log, "x"))
    out = x * w
    del x
    out.backward()
    assert log == [("x", 5.0)]
    assert w.grad.item() == 1.0


def test_a_hook_on_a_tensor_nobody_held():
    x = leaf(1.0)
    log = []
    out = x * 2
    (out * 3).register_hook(recorder(log, "gone with its node"))
    out.backward()
    assert log == []
    assert x.grad.item() == 2.0


def test_hooks_stay_with_the_graph_when_the_tensor_is_cut_from_it():
    x = leaf([1.0, 2.0])
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append(g.tolist()) or g * 10)
    before = y * 3
    y.stop_gradient = True
    assert y.is_leaf
    assert y.grad_fn is None
    with pytest.raises(RuntimeError, match="stop gradient"):
        y.register_hook(lambda g: None)
    assert not (y * 3).requires_grad
    before.sum().backward()
    assert log == [[3.0, 3.0]]
    assert x.grad.tolist() == [60.0, 60.0]
    assert y.grad is None


def test_stop_gradient_false_changes_nothing_on_an_interior_tensor():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    node = y.grad_fn
    y.stop_gradient = False
    y.requires_grad = True
    assert y.grad_fn is node
    y.backward()
    assert x.grad.item() == 20.0


def test_hooks_of_a_leaf_survive_freezing_and_unfreezing():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 10)
    x.requires_grad = False
    assert not (x * 2).requires_grad
    x.requires_grad = True
    (x * 2).backward()
    assert x.grad.item() == 20.0


def test_freezing_and_unfreezing_between_forward_and_backward():
    # as in PyTorch: the leaf is the same leaf
    x = leaf(1.0)
    y = x * 2
    x.requires_grad = False
    x.requires_grad = True
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0


def test_a_leaf_frozen_before_the_backward_gets_nothing():
    x, w = leaf(1.0), leaf(3.0)
    y = x * w
    x.requires_grad = False
    y.backward()
    assert x.grad is None
    assert w.grad.item() == 1.0
