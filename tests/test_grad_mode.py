"""What is recorded: the contexts, in the program, in hooks, and in threads."""

import threading

import numpy as np
import pytest

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def records():
    """Whether an operation is recorded now; also checked against is_grad_enabled."""
    recorded = (leaf(1.0) * 2).requires_grad
    assert hg.is_grad_enabled() is recorded
    return recorded


# Contexts -------------------------------------------------------------------------------------------------------------


def test_on_by_default():
    assert records()


def test_no_grad():
    x = leaf([1.0, 2.0])
    with hg.no_grad():
        assert not records()
        y = x * 2
        assert not y.requires_grad
        assert y.is_leaf
        assert y.grad_fn is None
        x += 1  # a leaf may be changed
    assert records()
    assert x.tolist() == [2.0, 3.0]
    assert x.requires_grad
    (x * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_leaf_made_under_no_grad_can_require_grad():
    with hg.no_grad():
        x = leaf(1.0)
        x.register_hook(lambda g: g * 5)
    (x * 2).backward()
    assert x.grad.item() == 10.0


def test_nesting():
    with hg.no_grad():
        assert not records()
        with hg.enable_grad():
            assert records()
            with hg.no_grad():
                assert not records()
            assert records()
            with hg.set_grad_enabled(False):
                assert not records()
                with hg.set_grad_enabled(True):
                    assert records()
                assert not records()
            assert records()
        assert not records()
    assert records()


@pytest.mark.parametrize("context", [hg.no_grad, hg.enable_grad, lambda: hg.set_grad_enabled(False)])
@pytest.mark.parametrize("outer", [True, False])
def test_restored_after_an_error(context, outer):
    with hg.set_grad_enabled(outer):
        with pytest.raises(KeyError), context():
            raise KeyError
        assert records() is outer
    assert records()


def test_one_object_entered_repeatedly_and_nested():
    off, on = hg.no_grad(), hg.enable_grad()
    for _ in range(2):
        with off:
            assert not records()
            with on, off:
                assert not records()
                with on:
                    assert records()
                assert not records()
            assert not records()
        assert records()


def test_set_grad_enabled_acts_at_once():
    hg.set_grad_enabled(False)
    try:
        assert not records()
    finally:
        hg.set_grad_enabled(True)
    assert records()


@pytest.mark.parametrize("mode", [0, 1, None, "yes", np.True_, np.False_])
def test_set_grad_enabled_takes_any_truth_value(mode):
    with hg.set_grad_enabled(mode):
        assert records() is bool(mode)
    assert records()


# Decorators -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorator", [hg.no_grad, hg.no_grad()], ids=["bare", "called"])
def test_no_grad_as_a_decorator(decorator):
    @decorator
    def function(a, *, b=3):
        """Its words."""
        assert not records()
        return a + b

    assert records()
    assert function(4, b=5) == 9
    assert records()
    assert function.__name__ == "function"
    assert function.__doc__ == "Its words."


@pytest.mark.parametrize("decorator", [hg.enable_grad, hg.enable_grad(), hg.set_grad_enabled(True)])
def test_enabling_decorators(decorator):
    @decorator
    def function():
        return records()

    with hg.no_grad():
        assert function()
        assert not records()
    assert records()


def test_set_grad_enabled_as_a_decorator_sets_the_calls_alone():
    @hg.set_grad_enabled(False)
    def function():
        return records()

    assert records()
    assert not function()
    assert records()


def test_a_decorated_function_that_raises_or_recurses():
    @hg.no_grad
    def function(depth):
        assert not records()
        if depth == 0:
            raise KeyError
        with hg.enable_grad():
            function(depth - 1)

    with pytest.raises(KeyError):
        function(3)
    assert records()


def test_decorated_methods():
    class Model:
        @hg.no_grad()
        def predict(self, x):
            return (x * 2).requires_grad, self

    model = Model()
    assert model.predict(leaf(1.0)) == (False, model)


def test_what_cannot_be_decorated():
    def generator():
        yield records()

    for decorator in (hg.no_grad, hg.no_grad(), hg.enable_grad()):
        with pytest.raises(TypeError, match="generator"):
            decorator(generator)
        with pytest.raises(TypeError, match="expected a function"):
            decorator(3)
    assert records()


def test_a_context_in_a_generator_holds_while_it_is_open():
    def generator():
        with hg.no_grad():
            yield records()

    steps = generator()
    assert next(steps) is False
    assert next(steps, "end") == "end"
    assert records()


# In hooks -------------------------------------------------------------------------------------------------------------

KINDS = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_recording_is_off_in_hooks(kind, around):
    x = leaf(1.0)
    y = x * 2
    seen = []
    getattr(x, kind)(lambda *args: seen.append(records()))
    if kind == "register_hook":
        y.register_hook(lambda g: seen.append(records()))
    with hg.set_grad_enabled(around):
        y.backward()
        assert records() is around
    assert seen in ([False], [False, False])


def test_recording_is_off_in_queued_callbacks():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: hg.autograd.queue_callback(lambda: seen.append(records())))
    x.backward()
    assert seen == [False]


def test_recording_is_off_in_hooks_of_grad():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(records()))
    hg.grad(y, x)
    assert seen == [False]
    assert records()


@pytest.mark.parametrize("kind", KINDS[:3])
def test_recording_is_on_in_hooks_under_create_graph(kind):
    x = leaf(1.0)
    y = x * x
    seen = []
    getattr(x, kind)(lambda *args: seen.append(records()))
    y.register_hook(lambda g: seen.append(records()))
    with hg.no_grad():
        y.backward(create_graph=True)
        assert not records()
    assert seen == [True, True]


def test_enable_grad_in_a_hook():
    x, w = leaf(1.0), leaf(5.0)
    seen = []

    def hook(g):
        with hg.enable_grad():
            result = g * w
            seen.append((result.requires_grad, records()))
        seen.append(records())
        return result

    x.register_hook(hook)
    (x * 2).backward()
    assert seen == [(True, True), False]
    assert x.grad.item() == 10.0
    assert not x.grad.requires_grad  # what the hook recorded is its own affair
    assert w.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mode_set_in_a_hook_does_not_leak(kind, create_graph):
    for mode in (True, False):
        x = leaf(1.0)
        y = x * x
        seen = []
        getattr(x, kind)(lambda *args, mode=mode: hg.set_grad_enabled(mode) and None)
        getattr(x, kind)(lambda *args, seen=seen: seen.append(records()))
        with hg.set_grad_enabled(not mode):
            y.backward(create_graph=create_graph)
            assert records() is (not mode)
        assert records()
        if kind != "_register_backward_hook":
            assert seen == [create_graph]  # nor to the next hook


def test_a_mode_set_in_an_interior_hook_does_not_change_what_is_recorded():
    x = leaf(2.0, np.float64)
    y = x * x
    y.register_hook(lambda g: hg.set_grad_enabled(False) and None)
    (first,) = hg.grad(y * y, x, create_graph=True)
    assert first.requires_grad
    (second,) = hg.grad(first, x)
    assert (first.item(), second.item()) == (32.0, 48.0)


def test_a_leaf_may_be_changed_in_a_hook():
    x, w = leaf(1.0), leaf([1.0, 2.0])

    def hook(t):
        w.__iadd__(10)

    x.register_post_accumulate_grad_hook(hook)
    (x * 2).backward()
    assert w.tolist() == [11.0, 12.0]
    with pytest.raises(RuntimeError, match=r"leaf.*no_grad"):
        w += 1


# Threads --------------------------------------------------------------------------------------------------------------


def in_thread(function):
    """The function's result, in another thread."""
    box = []

    def target():
        try:
            box.append(function())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def test_the_mode_is_each_threads_own():
    with hg.no_grad():
        assert in_thread(records)
        assert not records()

    def off():
        hg.set_grad_enabled(False)
        return records()

    assert not in_thread(off)
    assert records()


def test_a_thread_started_in_a_hook_records():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append((records(), in_thread(records))))
    x.backward()
    assert seen == [(False, True)]


def test_a_backward_in_a_thread_started_in_a_hook():
    x = leaf(2.0)
    y = x * x

    def hook(g):
        (inner,) = in_thread(lambda: hg.grad(x * x * x, x))
        return g * inner

    y.register_hook(hook)
    y.backward()
    assert x.grad.item() == 12.0 * 4.0


def test_queue_callback_belongs_to_the_thread():
    x = leaf(1.0)
    errors = []

    def hook(g):
        with pytest.raises(RuntimeError, match="this thread") as caught:
            in_thread(lambda: hg.autograd.queue_callback(print))
        errors.append(caught.value)

    x.register_hook(hook)
    x.backward()
    assert len(errors) == 1
