"""Hooks that register and remove hooks while a backward runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


@pytest.fixture(params=["leaf", "interior"])
def hooked(request):
    """(the tensor to hook, a function that runs a backward through it)"""
    x = leaf([1.0, 2.0])
    t = x if request.param == "leaf" else x * 1
    return t, lambda: (t * 2).sum().backward(retain_graph=True)


# Removing -------------------------------------------------------------------------------------------------------------


def test_a_hook_that_removes_itself_runs_once(hooked):
    t, run = hooked
    log = []
    handle = t.register_hook(lambda g: log.append("once" if handle.remove() else "again"))
    t.register_hook(lambda g: log.append("always"))
    run()
    run()
    assert log == ["once", "always", "always"]


def test_a_removed_later_hook_does_not_run_any_more(hooked):
    t, run = hooked
    log = []
    t.register_hook(lambda g: log.append(("first", later.remove())))
    later = t.register_hook(lambda g: log.append("later"))
    t.register_hook(lambda g: log.append("last"))
    run()
    assert log == [("first", True), "last"]


def test_the_result_of_a_removed_earlier_hook_stays(hooked):
    t, run = hooked
    log = []
    earlier = t.register_hook(lambda g: g * 10)
    t.register_hook(lambda g: log.append((earlier.remove(), g.tolist())))
    run()
    run()
    assert log == [(True, [20.0, 20.0]), (False, [2.0, 2.0])]


def test_removing_all_hooks_from_the_first(hooked):
    t, run = hooked
    log = []
    handles = []
    handles += [t.register_hook(lambda g: log.append([h.remove() for h in handles]))]
    handles += [t.register_hook(lambda g: log.append("no")) for _ in range(20)]
    run()
    run()
    assert log == [[True] * 21]


def test_a_hook_removed_on_a_tensor_that_comes_later_in_the_backward():
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    calls = []
    handles = [
        x.register_hook(lambda g: calls.append("x")),
        x.register_inplace_hook(lambda g: calls.append("x in place")),
        x.register_post_accumulate_grad_hook(lambda t: calls.append("x post")),
        y.register_hook(lambda g: calls.append("y")),
    ]
    z.register_hook(lambda g: calls.append([h.remove() for h in handles]))
    z.backward()
    assert calls == [[True] * 4]
    assert x.grad.item() == 6.0


def test_a_hook_removed_on_a_tensor_that_came_earlier_in_the_backward():
    x = leaf(1.0)
    y = x * 2
    log = []
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: log.append(handle.remove()))
    y.backward(retain_graph=True)
    assert x.grad.item() == 20.0
    y.backward()
    assert x.grad.item() == 22.0
    assert log == [True, False]


@pytest.mark.parametrize("by", ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook"])
def test_reduce_hooks_removed_by_a_hook_of_the_same_leaf(by):
    x = leaf(1.0)
    log = []
    handles = []
    getattr(x, by)(lambda _: log.append([h.remove() for h in handles]))
    handles.append(x.register_inplace_hook(lambda g: log.append("in place")))
    handles.append(x.register_post_accumulate_grad_hook(lambda t: log.append("post")))
    x.backward()
    x.backward()
    assert log == [[True, True], [False, False]]
    assert x.grad.item() == 2.0


def test_a_final_callback_removed_before_its_turn_does_not_run():
    x, w = leaf(1.0), leaf(1.0)
    log = []
    of_w = w._register_backward_hook(lambda: log.append("w"))
    of_x = x._register_backward_hook(lambda: log.append("x"))
    # w is reached first; its callback is removed after that, in the hook of x
    x.register_hook(lambda g: log.append(of_w.remove()) or log.append(of_x.remove()))
    y = x * 2
    (y * w).backward()
    assert log == [True, True]


def test_a_final_callback_removed_by_an_earlier_callback():
    x = leaf(1.0)
    log = []
    x._register_backward_hook(lambda: log.append(("first", second.remove())))
    second = x._register_backward_hook(lambda: log.append("second"))
    x._register_backward_hook(lambda: log.append("third"))
    x.backward()
    assert log == [("first", True), "third"]


def test_a_hook_may_drop_all_that_the_program_holds():
    x = leaf([1.0, 2.0])
    held = {}
    log = []
    held["y"] = x * 2
    held["z"] = held["y"] * 3
    held["out"] = held["z"].sum()
    held["y"].register_hook(lambda g: log.append(g.tolist()))
    held["z"].register_hook(lambda g: held.clear())
    held.pop("out").backward()
    assert held == {}
    assert log == [[3.0, 3.0]]
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_hook_may_drop_the_leaf_it_is_on():
    held = {"x": leaf([1.0, 2.0])}
    w = leaf([3.0, 4.0])
    log = []
    held["x"].register_hook(lambda g: held.clear())
    held["x"].register_hook(lambda g: log.append(g.tolist()))
    (held["x"] * w).sum().backward()
    assert log == [[3.0, 4.0]]
    assert w.grad.tolist() == [1.0, 2.0]


# Adding ---------------------------------------------------------------------------------------------------------------


def test_a_hook_added_while_the_tensors_hooks_run_waits(hooked):
    t, run = hooked
    log = []
    added = []

    def first(g):
        if not added:
            added.append(t.register_hook(lambda g: log.append("added")))
        log.append("first")

    t.register_hook(first)
    t.register_hook(lambda g: log.append("second"))
    run()
    assert log == ["first", "second"]
    run()
    assert log[2:] == ["first", "second", "added"]


def test_a_hook_that_adds_one_every_time_is_no_endless_loop(hooked):
    t, run = hooked
    calls = []

    def hook(g):
        calls.append(1)
        t.register_hook(hook)

    t.register_hook(hook)
    for backward in range(4):
        calls.clear()
        run()
        assert len(calls) == 2**backward


def test_a_hook_added_to_a_tensor_that_comes_later_runs_in_this_backward():
    x = leaf(1.0)
    y = x * 2
    log = []
    added = []
    y.register_hook(lambda g: added.append(x.register_hook(lambda g: log.append(g.item()) or g * 10)))
    y.backward()
    assert log == [2.0]
    assert x.grad.item() == 20.0


def test_the_first_hook_of_a_tensor_may_come_during_the_backward():
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    added = []
    z.register_hook(lambda g: added.append(y.register_hook(lambda g: g * 10)))
    z.backward()
    assert x.grad.item() == 60.0


@pytest.mark.parametrize("by", ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("kind", ["register_inplace_hook", "register_post_accumulate_grad_hook"])
def test_a_reduce_hook_added_by_a_hook_of_the_same_leaf_waits(by, kind):
    x = leaf(1.0)
    log = []
    added = []

    def adder(_):
        if not added:
            added.append(getattr(x, kind)(lambda _: log.append("added")))

    getattr(x, by)(adder)
    x.backward()
    assert log == []
    x.backward()
    assert log == ["added"]


def test_a_final_hook_added_by_a_hook_of_the_same_leaf_waits():
    x = leaf(1.0)
    log = []
    added = []

    def adder(g):
        if not added:
            added.append(x._register_backward_hook(lambda: log.append("added")))

    x.register_hook(adder)
    x.backward()
    assert log == []
    x.backward()
    assert log == ["added"]


def test_removed_and_added_again_waits(hooked):
    t, run = hooked
    log = []

    def note(g):
        log.append("note")

    handles = []

    def swap(g):
        handles[-1].remove()
        handles.append(t.register_hook(note))

    t.register_hook(swap)
    handles.append(t.register_hook(note))
    run()
    assert log == []
    run()
    assert log == []  # swapped again before it could run
    handles[-1].remove()
    assert len({h.id for h in handles}) == 3


# Both, against a model ------------------------------------------------------------------------------------------------


actions = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(0, 11)),
        st.tuples(st.just("add"), st.just(0)),
    ),
    max_size=3,
)


@given(script=st.lists(actions, min_size=1, max_size=8), interior=st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_program_of_additions_and_removals(script, interior):
    """Hook k carries out script[k] each time that it runs; a dict in Python is the model."""
    x = leaf(1.0)
    t = x * 1 if interior else x
    handles, log = [], []

    def add():
        k = len(handles)

        def hook(g):
            log.append(k)
            act(script[k % len(script)])

        handles.append(t.register_hook(hook))

    def act(steps):
        for what, j in steps:
            if what == "add" and len(handles) < 12:
                add()
            elif what == "remove" and j < len(handles):
                handles[j].remove()

    for _ in script:
        add()

    model = dict.fromkeys(range(len(script)))
    count = len(script)
    for _ in range(3):
        expected = []
        for k in list(model):
            if k not in model:
                continue
            expected.append(k)
            for what, j in script[k % len(script)]:
                if what == "add" and count < 12:
                    model[count] = None
                    count += 1
                elif what == "remove":
                    model.pop(j, None)
        log.clear()
        (t * 2).backward(retain_graph=True)
        assert log == expected
