"""Who keeps what alive: with the cyclic collector off, a graph is freed the moment it is dropped.

A node cannot be referenced weakly, so an array that only the node has saved stands for it (`Saved`).
"""

import gc
import itertools
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import hookgrad as hg

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """What the other tests left is none of these tests' business, and would make each collection slow."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


class Saved:
    """Multiplies by an array that nothing but the recorded node holds."""

    def __init__(self):
        self.alive = []

    def __call__(self, x):
        array = np.full(x.shape, 2, x.dtype)
        self.alive.append(weakref.ref(array))
        return x * hg.from_numpy(array)

    @property
    def nodes(self):
        """How many of the nodes are alive and have what they saved."""
        return sum(ref() is not None for ref in self.alive)


class Hook:
    """A hook that can be weakly referenced."""

    def __init__(self, function=lambda *args: None):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)


# Freed at once --------------------------------------------------------------------------------------------------------


def test_dropping_a_graph_that_was_never_run():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(save(save(x)))
    out = weakref.ref(y)
    assert save.nodes == 3
    del y
    assert out() is None
    assert save.nodes == 0
    assert sys.getrefcount(x) == 2


def test_dropping_a_graph_after_backward():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(save(x))
    y.sum().backward()
    assert save.nodes == 0  # backward drops what was saved
    refs = [weakref.ref(y), weakref.ref(y.grad)]
    del y
    assert [ref() for ref in refs] == [None, None]


def test_dropping_a_retained_graph():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(save(x))
    out = y.sum()
    for _ in range(3):
        out.backward(retain_graph=True)
    assert save.nodes == 2
    del out, y
    assert save.nodes == 0


def test_a_part_that_is_still_needed_stays():
    save = Saved()
    x = leaf([1.0, 2.0])
    a = save(x)
    b = save(a)
    c = save(a)
    del a
    assert save.nodes == 3
    del b
    assert save.nodes == 2
    c.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_graph_does_not_keep_its_tensors():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * 3
    ref = weakref.ref(y)
    del y
    assert ref() is None
    x_ref = weakref.ref(x)
    del x
    assert x_ref() is None
    z.sum().backward()


def test_arrays_of_dropped_tensors_go_where_no_derivative_needs_them():
    x = leaf([1.0, 2.0])
    y = x + 1
    array = weakref.ref(y.numpy().base)
    z = y + 1
    del y
    assert array() is None
    z.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_many_inputs():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = hg.stack([save(x) for _ in range(10)])
    out = hg.concatenate([y, y, y]).sum()
    del y
    assert save.nodes == 10
    out.backward(retain_graph=True)
    del out
    assert save.nodes == 0


def test_hooks_go_with_the_graph():
    save = Saved()
    x = leaf([1.0, 2.0])
    hooks = [Hook(), Hook()]
    refs = [weakref.ref(hook) for hook in hooks]
    y = save(x)
    y.register_hook(hooks[0])
    z = save(y)
    z.register_hook(hooks[1])
    out = z.sum()
    del y, z, hooks
    out.backward(retain_graph=True)
    assert all(ref() is not None for ref in refs)
    del out
    assert [ref() for ref in refs] == [None, None]
    assert save.nodes == 0


def test_hooks_go_with_their_leaf():
    kinds = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]
    hooks = [Hook() for _ in kinds]
    refs = [weakref.ref(hook) for hook in hooks]
    x = leaf([1.0, 2.0])
    for kind, hook in zip(kinds, hooks, strict=True):
        getattr(x, kind)(hook)
    del hook, hooks
    x.sum().backward()
    refs += [weakref.ref(x), weakref.ref(x.grad)]
    assert all(ref() is not None for ref in refs)
    del x
    assert [ref() for ref in refs] == [None] * 6


def test_a_graph_keeps_the_hooks_of_a_leaf_that_is_gone():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    hook = Hook()
    ref = weakref.ref(hook)
    x.register_hook(hook)
    out = (x * w).sum()
    del x, hook
    assert ref() is not None
    out.backward()
    del out
    assert ref() is None


def test_a_hook_that_holds_other_tensors_makes_no_cycle():
    save = Saved()
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = save(x)
    y.register_hook(lambda g, w=w, x=x: g * 2)
    refs = [weakref.ref(y), weakref.ref(w)]
    y.sum().backward(retain_graph=True)
    del y
    assert refs[0]() is None
    assert save.nodes == 0
    del w
    assert refs[1]() is None


def test_a_stored_gradient_keeps_nothing_alive():
    save = Saved()
    x = leaf([1.0, 2.0])
    stored = []
    y = save(x)
    y.register_hook(stored.append)
    z = save(y)
    z.register_hook(stored.append)
    z.sum().backward(retain_graph=True)
    assert len(stored) == 2
    for g in stored:
        assert g.grad_fn is None
        assert not g.requires_grad
        assert g.is_leaf
    refs = [weakref.ref(y), weakref.ref(z)]
    del y, z
    assert save.nodes == 0
    assert [ref() for ref in refs] == [None, None]
    assert stored[1].tolist() == [2.0, 2.0]


def test_gradients_die_with_the_hook_that_got_them():
    x = leaf([1.0, 2.0])
    refs = []
    y = x * 2
    y.register_hook(lambda g: refs.append(weakref.ref(g)))
    x.register_hook(lambda g: refs.append(weakref.ref(g)))
    (y * 3).sum().backward()
    assert [ref() for ref in refs] == [None, None]


def test_a_failed_backward_keeps_nothing():
    save = Saved()
    x = leaf([1.0, 2.0])
    hook = Hook(lambda g: 1 / 0)
    refs = [weakref.ref(hook)]
    x.register_hook(hook)
    y = save(save(x))
    refs.append(weakref.ref(y))
    out = y.sum()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            out.backward(retain_graph=True)
        caught.value.__traceback__ = None  # frames hold what they hold: that is Python's
        del caught
    assert x.grad is None
    del out, y
    assert save.nodes == 0
    assert refs[1]() is None
    del x, hook
    assert refs[0]() is None


def test_an_exception_keeps_no_graph_once_its_traceback_is_gone():
    save = Saved()

    def train():
        x = leaf([1.0, 2.0])
        y = save(x)
        y.register_hook(lambda g: 1 / 0)
        y.sum().backward()

    try:
        train()
    except ZeroDivisionError as error:
        kept = error.with_traceback(None)
    assert save.nodes == 0
    assert "hook 1 of 1" in kept.__notes__[0]


def test_interior_grads_of_a_failed_backward_are_dropped():
    x = leaf([1.0, 2.0])
    y = x * 2
    grads = []

    def hook(g):
        grads.append(weakref.ref(y.grad))
        raise KeyError

    y.register_hook(hook)
    with pytest.raises(KeyError) as caught:
        (y * 3).sum().backward()
    caught.value.__traceback__ = None
    del caught
    assert y.grad is None
    assert grads[0]() is None


@pytest.mark.parametrize("how", ["grad", "backward"])
def test_double_backward(how):
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x) ** 3
    y.register_hook(lambda g: g * g)
    if how == "grad":
        (first,) = hg.grad(y.sum(), x, create_graph=True)
    else:
        y.sum().backward(create_graph=True)
        first = x.grad
    (second,) = hg.grad(first.sum(), x, create_graph=True)
    refs = [weakref.ref(t) for t in (y, first, second)]
    assert save.nodes == 1
    del y, first, second
    x.clear_grad()
    assert [ref() for ref in refs] == [None] * 3
    assert save.nodes == 0
    assert sys.getrefcount(x) == 2


def test_a_leaf_with_a_differentiable_grad_is_no_cycle():
    save = Saved()
    x = leaf([1.0, 2.0])
    (save(x) ** 3).sum().backward(create_graph=True)
    assert save.nodes == 1
    assert x.grad.requires_grad
    ref = weakref.ref(x)
    del x
    assert ref() is None
    assert save.nodes == 0


def test_an_interior_tensor_with_a_differentiable_grad_is_no_cycle():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    (y**3).sum().backward(create_graph=True)
    assert y.grad.requires_grad
    ref = weakref.ref(y)
    x.clear_grad()
    del y
    assert ref() is None
    assert save.nodes == 0


def test_fifty_differentiable_backwards_leave_nothing():
    save = Saved()
    x = leaf([1.0, 2.0])
    for _ in range(50):
        y = save(x) ** 3
        y.register_hook(lambda g: g * 2)
        out = weakref.ref(y)
        y.sum().backward(create_graph=True)
        del y
        assert out() is None
        x.clear_grad()
        assert save.nodes == 0


def test_removed_hooks_and_their_handles():
    x = leaf([1.0, 2.0])
    y = x * 2
    hook = Hook()
    ref = weakref.ref(hook)
    handle = y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    del hook
    handle.remove()
    assert ref() is None
    out = weakref.ref(y)
    del y
    assert out() is None


def test_a_hook_removed_while_it_runs_lives_until_it_is_done():
    x = leaf([1.0, 2.0])
    log = []

    class Once:
        def __call__(self, g):
            log.append(handle.remove())
            log.append(ref() is self)

    hook = Once()
    ref = weakref.ref(hook)
    handle = x.register_hook(hook)
    del hook
    x.sum().backward()
    assert log == [True, True]
    assert ref() is None


def test_replaced_and_cleared_grads_go_at_once():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.sum().backward(retain_graph=True)
    first, leaf_grad = weakref.ref(y.grad), weakref.ref(x.grad)
    y.sum().backward()
    assert first() is None
    assert leaf_grad() is not None
    x.clear_grad()
    assert leaf_grad() is None


def test_nested_backwards():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    held = {"out": save(y).sum()}
    depth = []

    def hook(g):
        depth.append(1)
        if len(depth) < 4:
            held["out"].backward(retain_graph=True)

    y.register_hook(hook)
    held["out"].backward(retain_graph=True)
    assert len(depth) == 4
    ref = weakref.ref(y)
    held.clear()
    del y
    assert ref() is None
    assert save.nodes == 0


def test_a_queued_callback_is_dropped_after_it_ran():
    x = leaf([1.0, 2.0])
    callback = Hook(lambda: None)
    ref = weakref.ref(callback)
    box = [callback]
    x.register_hook(lambda g: hg.autograd.queue_callback(box.pop()))
    del callback
    x.sum().backward()
    assert ref() is None


def test_a_queued_callback_of_a_failed_backward_is_dropped():
    x = leaf([1.0, 2.0])
    box = [Hook(lambda: None)]
    ref = weakref.ref(box[0])

    def hook(g):
        hg.autograd.queue_callback(box.pop())
        raise KeyError

    x.register_hook(hook)
    with pytest.raises(KeyError) as caught:
        x.sum().backward()
    caught.value.__traceback__ = None
    del caught
    assert ref() is None


def test_cutting_a_tensor_from_its_graph_frees_the_graph():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    y.register_hook(Hook())
    y.stop_gradient = True
    assert save.nodes == 0
    assert y.tolist() == [2.0, 4.0]


def test_the_tensors_that_a_backward_was_called_with_are_not_kept():
    x = leaf([1.0, 2.0])
    y = x * 2
    v = hg.tensor([1.0, 10.0])
    ref = weakref.ref(v)
    y.backward(v, retain_graph=True)
    hg.grad(y, x, v)
    del v
    assert ref() is None


# Who dies first -------------------------------------------------------------------------------------------------------


def test_a_handle_removes_a_hook_that_holds_all_the_rest():
    """Handle, map, hook and tensor die in one go, whatever holds whatever."""
    save = Saved()
    x = leaf([1.0, 2.0])
    for extra in range(3):
        y = save(x)
        handles = [y.register_hook(Hook()) for _ in range(extra)]
        handle = y.register_hook(lambda g, y=y, handles=handles: None)
        ref = weakref.ref(y)
        del y, handles
        assert ref() is not None
        assert handle.remove() is True
        assert ref() is None
        assert save.nodes == 0
        assert handle.remove() is False
    handle = x.register_inplace_hook(lambda g, x=x: None)
    ref = weakref.ref(x)
    del x
    handle.remove()
    assert ref() is None


def test_a_hook_that_owns_its_handle():
    x = leaf([1.0, 2.0])
    box = []
    hook = Hook(lambda g: box.append(hook.handle.remove()))
    hook.handle = x.register_hook(hook)
    ref = weakref.ref(hook.handle)
    x.sum().backward()
    assert box == [True]
    del hook.handle
    assert ref() is None
    x.sum().backward()
    assert box == [True]


def test_handles_before_and_after_their_hooks():
    x = leaf([1.0, 2.0])
    calls = []
    for k in range(6):
        handle = x.register_hook(lambda g, k=k: calls.append(k))
        if k % 2:
            handle.remove()
        del handle
    with x.register_hook(lambda g: calls.append("inside")):
        x.sum().backward()
    assert calls == [0, 2, 4, "inside"]
    last = x.register_hook(lambda g: None)
    del x
    assert last.remove() is False


def test_hooks_that_drop_tensor_graph_handles_and_themselves_while_they_run():
    save = Saved()
    x = leaf([1.0, 2.0])
    held = {}
    log = []

    def drop(g):
        held.clear()
        gc.collect()
        log.append(g.tolist())

    held["y"] = save(x)
    held["handles"] = [held["y"].register_hook(drop), held["y"].register_hook(lambda g: log.append("second"))]
    held["own"] = [held["y"].register_hook(drop)]
    out = held["y"] * 3
    out.backward(hg.tensor([1.0, 1.0]))
    assert log == [[3.0, 3.0], "second", [3.0, 3.0]]
    assert x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("kind", ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook"])
def test_a_leafs_hook_that_drops_the_leaf(kind):
    held = {"x": leaf([1.0, 2.0])}
    log = []

    def drop(_):
        held.clear()
        gc.collect()
        log.append("dropped")

    getattr(held["x"], kind)(drop)
    getattr(held["x"], kind)(lambda _: log.append("next"))
    held["x"]._register_backward_hook(lambda: log.append("final"))
    ref = weakref.ref(held["x"])
    (held["x"] * 2).sum().backward()
    assert log[:2] == ["dropped", "next"]
    assert ref() is None


def test_the_memory_of_a_dead_tensor_is_not_handed_out_while_somebody_looks_at_it():
    """Small arrays may be used again: never one that a view, a buffer or a weak reference still knows."""
    x = leaf([1.0, 2.0, 3.0, 4.0])
    views = []
    for how in (
        lambda t: t.numpy(),
        lambda t: t.numpy()[1:],
        lambda t: memoryview(t.numpy()),
        lambda t: np.asarray(t),
        lambda t: t.detach(),
        lambda t: t[1:].detach(),
        lambda t: t.detach().numpy(),
    ):
        y = x * 2
        view = how(y)
        views.append((view, np.array(view)))
        y = y + 1
        (y * y).sum().backward()
        views.append((x.grad, np.array(x.grad)))
        x.clear_grad()
    for _ in range(200):  # whatever is free is used again now
        y = x * 7
        (y * y).sum().backward()
    x.clear_grad()
    for view, copy in views:
        np.testing.assert_array_equal(np.array(view), copy)


def test_arrays_given_to_tensors_are_left_alone():
    arrays = [np.array([1.0, 2.0, 3.0], np.float32) for _ in range(100)]
    copies = [array.copy() for array in arrays]
    refs = [weakref.ref(array) for array in arrays[50:]]
    tensors = [hg.from_numpy(array) for array in arrays]
    del arrays[50:], tensors[:50]
    assert all(ref() is not None for ref in refs)
    del tensors
    assert all(ref() is None for ref in refs)
    x = leaf([1.0, 2.0, 3.0])
    for _ in range(200):
        (x * 7).sum().backward()
    for array, copy in zip(arrays, copies, strict=False):
        np.testing.assert_array_equal(array, copy)


# Cycles that the user makes -------------------------------------------------------------------------------------------


def test_a_hook_that_holds_its_own_leaf_is_collected():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g, x=x: None)
    x.register_post_accumulate_grad_hook(Hook(lambda t, x=x: None))
    x.sum().backward()
    ref = weakref.ref(x)
    del x
    assert ref() is not None  # a cycle: this is what the collector is for
    gc.collect()
    assert ref() is None


def test_a_hook_that_holds_its_own_interior_tensor_is_collected():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    y.register_hook(lambda g, y=y: None)
    y.sum().backward(retain_graph=True)
    ref = weakref.ref(y)
    del y
    assert (ref() is not None, save.nodes) == (True, 1)
    gc.collect()
    assert (ref(), save.nodes) == (None, 0)


def test_a_hook_that_holds_a_tensor_downstream_is_collected():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    z = hg.stack([y, save(y), save(x)])
    y.register_hook(lambda g, z=z: None)
    z.sum().backward(retain_graph=True)
    refs = [weakref.ref(y), weakref.ref(z)]
    del y, z
    assert save.nodes == 3
    gc.collect()
    assert save.nodes == 0
    assert [ref() for ref in refs] == [None, None]


def test_a_cycle_through_a_dropped_tensor_and_its_handle_is_collected():
    save = Saved()
    x = leaf([1.0, 2.0])
    y = save(x)
    handles = []
    handles.append(y.register_hook(lambda g, handles=handles, y=y: None))
    out = y * 1
    del y
    out.sum().backward(retain_graph=True)
    del out
    gc.collect()
    assert save.nodes == 0
    assert handles[0].remove() is False


@pytest.mark.parametrize("length", [1, 2, 3])
def test_grads_in_a_circle_are_refused(length):
    tensors = [hg.tensor([1.0]) for _ in range(length)]
    for t, g in itertools.pairwise(tensors):
        t.grad = g
    with pytest.raises(RuntimeError, match="its own gradient"):
        tensors[-1].grad = tensors[0]
    assert tensors[-1].grad is None


def test_a_differentiable_backward_with_the_root_as_its_own_gradient_is_no_cycle():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.backward(y, create_graph=True)
    assert y.grad.tolist() == [2.0, 4.0]
    assert x.grad.tolist() == [4.0, 8.0]
    refs = [weakref.ref(y), weakref.ref(x)]
    del y, x
    assert [ref() for ref in refs] == [None, None]


def test_hooks_on_a_differentiable_gradient_that_hold_it_are_collected():
    save = Saved()
    x = leaf([1.0, 2.0])
    (save(x) ** 3).sum().backward(create_graph=True)
    g = x.grad
    g.register_hook(lambda gg, g=g, x=x: None)
    refs = [weakref.ref(x), weakref.ref(g)]
    del x, g
    gc.collect()
    assert save.nodes == 0
    assert [ref() for ref in refs] == [None, None]


def test_collecting_in_the_middle_of_a_backward():
    save = Saved()
    x = leaf([1.0, 2.0])
    held = {"y": save(x)}
    held["z"] = save(held["y"])
    collected = []

    def clear(g, held=held):
        held.clear()
        collected.append(gc.collect())

    held["z"].register_hook(clear)
    held["y"].register_hook(lambda g: collected.append(gc.collect()))
    out = held["z"].sum()
    out.backward()
    assert x.grad.tolist() == [4.0, 4.0]
    assert len(collected) == 2
    del out
    gc.collect()
    assert save.nodes == 0


def test_a_finalizer_that_runs_a_backward():
    """Dropping a graph may run any code, also code that uses the library."""
    x = leaf([1.0, 2.0])

    class Last:
        def __call__(self, g):
            return None

        def __del__(self):
            (x * 5).sum().backward()

    y = x * 2
    y.register_hook(Last())
    z = y * 3
    del y
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    del z
    assert x.grad.tolist() == [11.0, 11.0]


@pytest.mark.parametrize(
    "case",
    [
        "helpers_outlive_a_cycle",
        "collection_while_a_gradient_is_dropped",
        "backward_while_a_failed_one_is_undone",
    ],
)
def test_the_collector_at_the_worst_moments(case):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPTS / "collector.py", case],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONMALLOC": "debug"},
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
