"""The ordered map of hooks, the handle that registering returns, and copies of tensors with hooks."""

import copy
import gc
import pickle
import random
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hookgrad as hg

KINDS = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def nothing(*args):
    return None


class Hook:
    """A hook that can be weakly referenced."""

    def __call__(self, *args):
        return None


# Ids and order --------------------------------------------------------------------------------------------------------


def test_ids_are_ascending_and_never_used_twice():
    ids = []
    for _ in range(20):
        x = leaf(1.0)
        y = x * 2
        for t in (x, y, x):
            handle = t.register_hook(nothing)
            ids.append(handle.id)
            handle.remove()
        ids += [getattr(x, kind)(nothing).id for kind in KINDS]
    assert all(isinstance(id, int) for id in ids)
    assert ids == sorted(set(ids))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**30)), max_size=60), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_map_against_a_dict(program, interior):
    """Registering (twice as likely as removing), removing any handle ever given out, running."""
    x = leaf(1.0, np.float64)
    t = x * 1 if interior else x
    handles, model, log = [], {}, []
    last_id = -1
    for action, argument in program:
        if action < 2:
            k = len(handles)
            handle = t.register_hook(lambda g, k=k: log.append(k))
            assert handle.id > last_id
            last_id = handle.id
            handles.append(handle)
            model[handle.id] = k
        elif action == 2 and handles:
            handle = handles[argument % len(handles)]
            assert handle.remove() is (model.pop(handle.id, None) is not None)
        else:
            log.clear()
            t.backward(retain_graph=True)
            assert log == list(model.values())


@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_hooks_removed_in_any_order(kind):
    x = leaf(1.0)
    shuffled = random.Random(7)
    log, model = [], {}
    handles = {}
    for k in range(500):
        handles[k] = getattr(x, kind)(lambda *args, k=k: log.append(k))
        model[k] = None
    order = list(handles)
    shuffled.shuffle(order)
    for k in order[:300]:
        assert handles.pop(k).remove() is True
        del model[k]
    x.backward()
    assert log == list(model)
    for k in range(500, 700):  # new ones go to the end, never into the gaps
        handles[k] = getattr(x, kind)(lambda *args, k=k: log.append(k))
        model[k] = None
    log.clear()
    x.backward()
    assert log == list(model)
    for handle in handles.values():
        assert handle.remove() is True
        assert handle.remove() is False
    log.clear()
    x.backward()
    assert log == []


@pytest.mark.parametrize("kind", KINDS)
def test_removal_takes_constant_memory(kind):
    """Work that grows with the number of hooks would build something that grows with it."""

    def peak_of_one_removal(count):
        x = leaf(1.0)
        handles = [getattr(x, kind)(nothing) for _ in range(count)]
        x.backward()
        handles[count // 2].remove()
        x.backward()
        tracemalloc.start()
        try:
            handles[count // 3].remove()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_of_one_removal(10)
    assert peak_of_one_removal(20_000) <= peak_of_one_removal(10) + 1000


def test_kinds_do_not_mix():
    x = leaf(1.0)
    log = []
    handles = [getattr(x, kind)(lambda *args, kind=kind: log.append(kind)) for kind in reversed(KINDS)]
    x.backward()
    assert log == ["register_hook", "register_post_accumulate_grad_hook", "register_inplace_hook"] + KINDS[3:]
    for handle, kind in zip(handles, reversed(KINDS), strict=True):
        log.clear()
        assert handle.remove() is True
        x.backward()
        assert kind not in log
    assert log == []


def test_a_hook_is_dropped_as_soon_as_it_is_removed():
    gc.disable()
    try:
        for kind in KINDS:
            x = leaf(1.0)
            hook = Hook()
            alive = weakref.ref(hook)
            handle = getattr(x, kind)(hook)
            x.backward()
            del hook
            assert alive() is not None
            handle.remove()
            assert alive() is None
    finally:
        gc.enable()


# The handle -----------------------------------------------------------------------------------------------------------


def test_names():
    handle = leaf(1.0).register_hook(nothing)
    assert type(handle) is hg.HookRemoveHelper
    assert hg.HookRemoveHelper is hg.hooks.HookRemoveHelper


@pytest.mark.parametrize("kind", KINDS)
def test_remove_is_true_once(kind):
    x = leaf(1.0)
    calls = []
    handle = getattr(x, kind)(lambda *args: calls.append(1))
    x.backward()
    assert handle.remove() is True
    assert handle.remove() is False
    assert handle.remove() is False
    x.backward()
    assert calls == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_as_a_context_manager(kind):
    x = leaf(1.0)
    calls = []
    with getattr(x, kind)(lambda *args: calls.append(1)) as handle:
        assert type(handle) is hg.HookRemoveHelper
        x.backward()
        assert calls == [1]
    x.backward()
    assert calls == [1]
    assert handle.remove() is False


def test_the_context_manager_removes_after_an_error_and_passes_it_on():
    x = leaf(1.0)
    error = ValueError("inside")
    with pytest.raises(ValueError, match="inside") as caught, x.register_hook(lambda g: g * 2):
        raise error
    assert caught.value is error
    x.backward()
    assert x.grad.item() == 1.0


def test_removing_inside_the_context():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 2) as handle:
        assert handle.remove() is True
        x.backward()
    assert x.grad.item() == 1.0


def test_dropping_the_handle_keeps_the_hook():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 2)
    gc.collect()
    x.backward()
    assert x.grad.item() == 2.0


def test_a_handle_keeps_neither_tensor_nor_hook_nor_graph():
    gc.disable()
    try:
        saved = np.array([3.0, 4.0], np.float32)
        hook = Hook()
        x = leaf([1.0, 2.0])
        y = x * hg.from_numpy(saved)
        handles = [y.register_hook(hook), x.register_hook(hook), x.register_inplace_hook(hook)]
        alive = [weakref.ref(t) for t in (x, y, saved, hook)]
        del x, y, saved, hook
        assert [ref() for ref in alive] == [None] * 4
        assert [handle.remove() for handle in handles] == [False] * 3
    finally:
        gc.enable()


def test_a_handle_outlives_its_tensor():
    handle = leaf(1.0).register_hook(nothing)
    assert handle.remove() is False
    with leaf(1.0).register_hook(nothing) as inside:
        pass
    assert inside.remove() is False


def test_handles_can_be_weakly_referenced_and_shown():
    x = leaf(1.0)
    handle = x.register_hook(nothing)
    assert weakref.ref(handle)() is handle
    assert str(handle.id) in repr(handle)
    assert hash(handle) == hash(handle)


def test_removing_on_a_graph_already_built():
    x = leaf([1.0, 1.0])
    y = x * 2
    calls = []
    handle = y.register_hook(lambda g: calls.append(1) or g * 100)
    out = y.sum()
    handle.remove()
    out.backward()
    assert calls == []
    assert x.grad.tolist() == [2.0, 2.0]


# Copies ---------------------------------------------------------------------------------------------------------------

COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy in a list": lambda x: copy.deepcopy([x, x])[1],
    "pickle in a dict": lambda x: pickle.loads(pickle.dumps({"x": x}))["x"],
}


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_no_hooks_and_says_so_once(kind, how):
    x = leaf([1.0, 2.0], name="w")
    calls = []
    getattr(x, kind)(lambda *args: calls.append(1))
    getattr(x, kind)(lambda *args: calls.append(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        c = how(x)
    assert len(caught) == 1
    assert issubclass(caught[0].category, UserWarning)
    assert "2 hooks" in str(caught[0].message)
    assert c is not x
    assert c.tolist() == [1.0, 2.0]
    assert c.dtype == x.dtype
    assert c.name == "w"
    assert c.requires_grad
    assert c.is_leaf
    (c * 3).sum().backward()
    assert calls == []
    assert c.grad.tolist() == [3.0, 3.0]
    assert x.grad is None
    (x * 3).sum().backward()
    assert calls == [1, 2]


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES.keys())
def test_a_copy_of_a_tensor_without_hooks_warns_of_nothing(how):
    x = leaf([1.0, 2.0])
    handle = x.register_hook(nothing)
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = how(x)
    c.numpy()
    with hg.no_grad():
        c *= 2
    assert x.tolist() == [1.0, 2.0]


def test_a_deepcopy_has_a_grad_of_its_own():
    x = leaf([1.0, 2.0])
    (x * 3).sum().backward()
    c = copy.deepcopy(x)
    c.grad *= 2
    assert c.grad.tolist() == [6.0, 6.0]
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("how", ["deepcopy", "copy", "pickle"])
def test_an_interior_tensor_cannot_be_copied_with_its_graph(how):
    y = leaf([1.0, 2.0]) * 2
    with pytest.raises(RuntimeError, match="detach"):
        COPIES[how](y)
    assert COPIES[how](y.detach()).tolist() == [2.0, 4.0]
