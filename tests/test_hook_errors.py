"""Errors: at registration, out of hooks, and what they leave behind."""

import functools
import inspect
import re
import signal
import sys

import numpy as np
import pytest

import hookgrad as hg

KINDS = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]
REDUCE = KINDS[1:3]


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def line_here():
    """The line of the caller."""
    return inspect.currentframe().f_back.f_lineno


def note_of(error):
    (note,) = error.__notes__
    return note


# At registration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hook", [None, 3, "hook", [print], hg.ones((2,))], ids=lambda hook: type(hook).__name__)
def test_a_hook_must_be_callable(kind, hook):
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match=rf"{kind}.*{type(hook).__name__}.*callable"):
        getattr(x, kind)(hook)
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", REDUCE + KINDS[3:])
def test_leaf_kinds_on_an_interior_tensor(kind):
    y = leaf([1.0, 2.0]) * 2
    with pytest.raises(ValueError, match=rf"{kind}.*lea(f|ves).*multiply.*register_hook"):
        getattr(y, kind)(lambda *args: None)
    y.backward(hg.ones((2,)))


def made_under_no_grad():
    x = leaf([1.0, 2.0])
    with hg.no_grad():
        return x * 2


NO_GRAD = {
    "constant": lambda: hg.tensor([1.0, 2.0]),
    "made from constants": lambda: hg.tensor([1.0, 2.0]) * 2,
    "integers": lambda: hg.tensor([1, 2]),
    "bools": lambda: hg.tensor([True, False]),
    "made under no_grad": made_under_no_grad,
    "detached": lambda: (leaf([1.0, 2.0]) * 2).detach(),
    "a comparison": lambda: leaf([1.0, 2.0]) > 1,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", NO_GRAD.values(), ids=NO_GRAD.keys())
def test_a_tensor_that_needs_no_grad(make, kind):
    t = make()
    with pytest.raises(ValueError if kind == "_register_backward_hook" else RuntimeError) as caught:
        getattr(t, kind)(lambda *args: None)
    message = str(caught.value)
    if kind != "_register_backward_hook":
        assert "Cannot register hook on a tensor that stop gradient" in message
    assert kind in message
    if t.dtype.kind in "ib":
        assert str(t.dtype) in message
        assert "float32" in message
    else:
        assert "requires_grad=True" in message or "stop_gradient = False" in message


def test_the_error_says_why_a_tensor_needs_no_grad():
    """A constant, an integer and a result of no_grad have three different cures."""
    messages = {}
    for name in ("constant", "integers", "made under no_grad"):
        with pytest.raises(RuntimeError) as caught:
            NO_GRAD[name]().register_hook(print)
        messages[name] = str(caught.value)
    assert "int64" in messages["integers"]
    assert "constant" in messages["constant"]
    assert "no_grad" not in messages["constant"]
    assert "no_grad" in messages["made under no_grad"]
    assert "constant" not in messages["made under no_grad"]


def test_where_recording_is_off_now_the_error_says_so():
    with hg.no_grad():
        y = leaf(1.0) * 2
        with pytest.raises(RuntimeError, match="no_grad"):
            y.register_hook(print)


def test_the_cure_for_a_constant():
    x = hg.tensor([1.0, 2.0])
    x.stop_gradient = False
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_integers_cannot_require_grad():
    with pytest.raises(RuntimeError, match=r"int64.*float32"):
        hg.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="int64"):
        hg.to_tensor([1, 2], stop_gradient=False)
    with pytest.raises(RuntimeError, match="bool"):
        hg.tensor([True], requires_grad=True)
    x = hg.tensor([1, 2])
    with pytest.raises(RuntimeError, match="int64"):
        x.requires_grad = True
    with pytest.raises(RuntimeError, match="int64"):
        x.stop_gradient = False


def test_integers_times_a_leaf():
    f = leaf([0.5, 0.5])
    seen = []
    f.register_hook(lambda g: seen.append(g.dtype))
    (hg.tensor([1, 2], dtype=np.int32) * f).sum().backward()
    assert seen == [np.float32]
    assert f.grad.dtype == np.float32
    assert f.grad.tolist() == [1.0, 2.0]


# The note on an exception ---------------------------------------------------------------------------------------------


def failing(grad):
    raise ArithmeticError("from the hook")


def test_the_second_of_three_hooks():
    x = leaf([[1.0, 2.0, 3.0]], name="weights")
    x.register_hook(lambda g: g)
    x.register_hook(failing)
    line = line_here() - 1
    x.register_hook(lambda g: g)
    with pytest.raises(ArithmeticError, match="from the hook") as caught:
        (x * 3).sum().backward()
    note = note_of(caught.value)
    assert "hook 2 of 3" in note
    assert "failing" in note
    assert f"{__file__}:{line}" in note
    assert "'weights'" in note
    assert "(1, 3)" in note
    assert "leaf" in note


@pytest.mark.parametrize("alive", [True, False])
def test_an_interior_tensor_in_the_note(alive):
    x = leaf([1.0, 2.0])
    y = x.tanh()
    y.register_hook(failing)
    line = line_here() - 1
    out = (y * 3).sum()
    if not alive:
        del y
    with pytest.raises(ArithmeticError) as caught:
        out.backward()
    note = note_of(caught.value)
    for word in ("hook 1 of 1", "failing", f"{__file__}:{line}", "(2,)", "tanh"):
        assert word in note


@pytest.mark.parametrize("kind", KINDS)
def test_the_note_for_each_kind(kind):
    x = leaf([1.0, 2.0], name="w")

    def bad_hook(*args):
        raise ArithmeticError("from the hook")

    getattr(x, kind)(lambda *args: None)
    getattr(x, kind)(bad_hook)
    line = line_here() - 1
    with pytest.raises(ArithmeticError) as caught:
        x.sum().backward()
    note = note_of(caught.value)
    for word in ("hook 2 of 2", "bad_hook", f"{__file__}:{line}", "'w'", "(2,)", "leaf"):
        assert word in note


def test_inplace_and_post_accumulate_hooks_are_counted_together():
    x = leaf(1.0)
    x.register_hook(lambda g: None)
    x.register_inplace_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda t: None)
    x.register_inplace_hook(failing)
    with pytest.raises(ArithmeticError) as caught:
        x.backward()
    assert "hook 3 of 3" in note_of(caught.value)


def test_the_line_is_that_of_the_call_that_registered():
    x = leaf(1.0)

    def register():
        return x.register_hook(failing)

    line = line_here() - 2
    register()
    with pytest.raises(ArithmeticError) as caught:
        x.backward()
    assert f"{__file__}:{line}" in note_of(caught.value)


def test_the_line_in_a_file_of_another_name():
    x = leaf(1.0)
    code = compile("\n" * 41 + "x.register_hook(failing)", "elsewhere/training.py", "exec")
    exec(code, {"x": x, "failing": failing, "__name__": "training"})
    with pytest.raises(ArithmeticError) as caught:
        x.backward()
    assert "elsewhere/training.py:42" in note_of(caught.value)


def test_registration_where_the_module_has_no_name():
    x = leaf(1.0)
    for names in ({"x": x, "failing": failing}, {"x": x, "failing": failing, "__name__": None}):
        exec(compile("handle = x.register_hook(failing)", "nameless.py", "exec"), names)
        with pytest.raises(ArithmeticError) as caught:
            x.backward()
        assert "nameless.py:1" in note_of(caught.value)
        assert names["handle"].remove()


class Model:
    def method(self, grad):
        raise ArithmeticError("from the hook")

    __call__ = method

    def __repr__(self):
        return "<the model>"


NAMES = {
    "function": (failing, "failing"),
    "method": (Model().method, "Model.method"),
    "callable object": (Model(), "<the model>"),
    "partial": (functools.partial(failing), "functools.partial"),
    "lambda": (lambda g: 1 / 0, "<lambda>"),
    "builtin": (int, "int"),
    "wrapped": (functools.wraps(failing)(lambda g: 1 / 0), "failing"),
}


@pytest.mark.parametrize(("hook", "name"), NAMES.values(), ids=NAMES.keys())
def test_the_name_of_a_hook(hook, name):
    x = leaf([1.0, 2.0])
    x.register_hook(hook)
    with pytest.raises((ArithmeticError, ValueError)) as caught:
        x.sum().backward()
    assert name in note_of(caught.value)


def test_a_partial():
    x = leaf(1.0)
    handle = x.register_hook(functools.partial(lambda k, g: k * g, 4))
    (3 * x).backward()
    assert x.grad.item() == 12.0
    handle.remove()
    hook = functools.partial(failing)
    x.register_hook(hook)
    with pytest.raises(ArithmeticError, match="from the hook") as caught:
        (3 * x).backward()
    assert repr(hook) in note_of(caught.value)


class Nameless:
    def __call__(self, grad):
        raise ArithmeticError("from the hook")

    def __repr__(self):
        raise ValueError("no repr")


def test_the_first_error_is_kept_where_the_hook_cannot_be_named():
    x = leaf(1.0)
    x.register_hook(Nameless())
    with pytest.raises(ArithmeticError, match="from the hook"):
        x.backward()
    assert x.grad is None
    assert hg.is_grad_enabled()


# The exception itself -------------------------------------------------------------------------------------------------


class WithoutNotes(Exception):
    def add_note(self, note):
        raise NotImplementedError("takes no notes")


class NotesOfAnotherType(Exception):
    def __init__(self):
        self.__notes__ = "not a list"


class Interrupt(BaseException):
    pass


EXCEPTIONS = [
    TypeError("t"),
    ValueError("v"),
    RuntimeError("r"),
    KeyError("k"),
    StopIteration("s"),
    MemoryError(),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    Interrupt("i"),
    WithoutNotes("w"),
    NotesOfAnotherType(),
    ExceptionGroup("several", [ValueError(1), TypeError(2)]),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_the_very_same_exception_reaches_the_caller(error, kind):
    x = leaf([1.0, 2.0])
    if isinstance(getattr(error, "__notes__", None), list):
        error.__notes__.clear()  # one object for all kinds

    def hook(*args):
        raise error

    getattr(x, kind)(hook)
    with pytest.raises(BaseException) as caught:
        x.sum().backward()
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    frames = [frame.f_code for frame, _ in walk(caught.value.__traceback__)]
    assert hook.__code__ in frames
    if not isinstance(error, (WithoutNotes, NotesOfAnotherType)):
        assert "hook 1 of 1" in note_of(error)
    assert hg.is_grad_enabled()


def walk(traceback):
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def test_notes_and_cause_of_the_exception_are_kept():
    x = leaf(1.0)

    def hook(g):
        try:
            raise KeyError("cause")
        except KeyError as cause:
            error = ValueError("effect")
            error.add_note("mine")
            raise error from cause

    x.register_hook(hook)
    with pytest.raises(ValueError, match="effect") as caught:
        x.backward()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__notes__[0] == "mine"
    assert "hook 1 of 1" in caught.value.__notes__[1]
    assert len(caught.value.__notes__) == 2


def test_an_error_out_of_a_nested_backward_has_a_note_for_each_level():
    x, w = leaf(1.0, name="outer"), leaf(1.0, name="inner")
    w.register_hook(failing)

    def hook(g):
        with hg.enable_grad():
            (w * 2).backward()

    x.register_hook(hook)
    with pytest.raises(ArithmeticError) as caught:
        x.backward()
    inner, outer = caught.value.__notes__
    assert "'inner'" in inner
    assert "failing" in inner
    assert "'outer'" in outer
    assert "hook" in outer


# Nothing is left half-set ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("create_graph", [True, False])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_the_mode_is_restored(kind, create_graph, mode):
    x = leaf(1.0)
    y = x * 2

    def hook(_):
        hg.set_grad_enabled(not mode)
        raise KeyError("stop")

    getattr(x, kind)(hook)
    with hg.set_grad_enabled(mode):
        with pytest.raises(KeyError):
            y.backward(create_graph=create_graph)
        assert hg.is_grad_enabled() is mode
    assert hg.is_grad_enabled()


def test_interior_grads_are_restored():
    x = leaf([1.0, 2.0])
    a = x * 2
    b = a * 3
    b.sum().backward(retain_graph=True)
    before = a.grad
    c = x * 5
    out = (b * 10 + c).sum()
    handle = x.register_hook(failing)
    with pytest.raises(ArithmeticError):
        out.backward(retain_graph=True)
    assert a.grad is before
    assert a.grad.tolist() == [3.0, 3.0]
    assert b.grad.tolist() == [1.0, 1.0]
    assert c.grad is None
    assert out.grad is None
    assert x.grad.tolist() == [6.0, 6.0]
    handle.remove()
    out.backward()
    assert a.grad.tolist() == [30.0, 30.0]
    assert b.grad.tolist() == [10.0, 10.0]
    assert c.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [71.0, 71.0]


def test_a_leaf_with_reduce_hooks_is_written_at_once():
    x, w = leaf(1.0), leaf(2.0)
    seen = []
    w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    x.register_hook(failing)
    y = x * 3
    with pytest.raises(ArithmeticError):
        (y * w).backward()
    assert seen == [3.0]
    assert w.grad.item() == 3.0
    assert x.grad is None


def test_an_error_in_a_reduce_hook_comes_after_its_leaf_was_written():
    x, w = leaf(1.0), leaf(2.0)
    w.register_inplace_hook(failing)
    y = x * 3
    with pytest.raises(ArithmeticError):
        (y * w).backward()
    assert w.grad.item() == 3.0
    assert x.grad is None


def chain(count):
    """count leaves, and count tensors in which the k-th leaf meets what came before.

    out = (((l0 * 2) * l1) * l2) ...; the backward reaches the last leaf first.
    """
    leaves = [leaf([k + 2.0, 1.0]) for k in range(count)]
    interior = [leaves[0] * 2]
    for other in leaves[1:]:
        interior.append(interior[-1] * other)
    return leaves, interior


def gradients(count):
    """d sum(out) / d leaf, by the product rule."""
    values = np.array([[k + 2.0, 1.0] for k in range(count)])
    return [2 * np.prod(np.delete(values, k, axis=0), axis=0) for k in range(count)]


COUNT = 5


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("earlier", ["none", "looked at", "not looked at"])
@pytest.mark.parametrize("position", range(2 * COUNT))
def test_all_or_nothing_wherever_it_fails(position, earlier, sort, create_graph):
    """The k-th tensor's hook fails: no .grad of any tensor has changed, and the next backward is right."""
    leaves, interior = chain(COUNT)
    before = [None] * (2 * COUNT)
    if earlier != "none":
        for t in leaves:
            (t * 100).sum().backward()
        for t in interior:
            t.backward(hg.tensor([7.0, 7.0]), retain_graph=True, inputs=[t])
        if earlier == "looked at":
            before = [t.grad for t in leaves + interior]
    values = [None if t.grad is None else t.grad.tolist() for t in leaves + interior]
    t = (leaves + interior)[position]
    handle = t.register_hook(failing)
    out = interior[-1].sum()
    with hg.autograd.sort_sum_gradient(sort):
        with pytest.raises(ArithmeticError):
            out.backward(retain_graph=True, create_graph=create_graph)
        for t, grad, value in zip(leaves + interior, before, values, strict=True):
            assert (None if t.grad is None else t.grad.tolist()) == value
            assert grad is None or t.grad is grad
        assert out.grad is None
        assert hg.is_grad_enabled()
        with pytest.raises(RuntimeError, match="no backward is running"):
            hg.autograd.queue_callback(print)
        handle.remove()
        out.backward(retain_graph=True, create_graph=create_graph)
    for t, expected in zip(leaves, gradients(COUNT), strict=True):
        np.testing.assert_array_equal(t.grad.numpy(), expected + (0 if earlier == "none" else 100))


@pytest.mark.parametrize("position", range(2 * COUNT))
def test_grad_fails_without_a_trace(position):
    leaves, interior = chain(COUNT)
    t = (leaves + interior)[position]
    handle = t.register_hook(failing)
    out = interior[-1].sum()
    with pytest.raises(ArithmeticError):
        hg.grad(out, leaves + interior, retain_graph=True, run_leaf_hooks=True)
    assert all(t.grad is None for t in leaves + interior)
    handle.remove()
    results = hg.grad(out, leaves)
    for result, expected in zip(results, gradients(COUNT), strict=True):
        np.testing.assert_array_equal(result.numpy(), expected)


def test_all_or_nothing_where_a_derivative_fails():
    """A saved tensor that was changed stops the backward in the middle of it."""
    leaves, interior = chain(4)
    out = interior[-1].sum()
    with hg.no_grad():
        leaves[1] *= 2
    with pytest.raises(RuntimeError, match="changed in place"):
        out.backward()
    assert all(t.grad is None for t in leaves + interior)
    assert hg.is_grad_enabled()


def test_all_or_nothing_where_a_part_of_the_graph_is_freed():
    x, w = leaf(2.0), leaf(3.0)
    y = x * x
    y.backward()
    out = y * w
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        out.backward()
    assert x.grad.item() == 4.0
    assert w.grad is None


def test_all_or_nothing_where_a_result_is_refused():
    leaves, interior = chain(4)
    interior[1].register_hook(lambda g: "no gradient")
    with pytest.raises(TypeError, match="str"):
        interior[-1].sum().backward()
    assert all(t.grad is None for t in leaves + interior)


def test_the_same_graph_after_a_failure_without_retain_graph():
    """It is either still there, and then the result is right, or the error says what to do."""
    leaves, interior = chain(4)
    handle = interior[1].register_hook(failing)
    with pytest.raises(ArithmeticError):
        interior[-1].sum().backward()
    handle.remove()
    try:
        interior[-1].sum().backward()
    except RuntimeError as error:
        assert "retain_graph=True" in str(error)
        assert all(t.grad is None for t in leaves)
    else:
        for t, expected in zip(leaves, gradients(4), strict=True):
            np.testing.assert_array_equal(t.grad.numpy(), expected)


def test_many_failures_then_a_right_backward():
    x = leaf([1.0, 2.0], np.float64)
    handle = x.register_hook(failing)
    y = (x * 3).tanh()
    out = (y * y + y).sum()
    for _ in range(50):
        with pytest.raises(ArithmeticError):
            out.backward(retain_graph=True)
    handle.remove()
    out.backward()
    t = np.tanh(np.array([3.0, 6.0]))
    np.testing.assert_allclose(x.grad.numpy(), (2 * t + 1) * 3 * (1 - t**2), rtol=1e-9)


def test_a_failing_final_callback_leaves_nothing_running():
    x = leaf(1.0)
    handle = x._register_backward_hook(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        x.backward()
    with pytest.raises(RuntimeError, match="no backward is running"):
        hg.autograd.queue_callback(print)
    handle.remove()
    x.backward()
    assert x.grad.item() == 2.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_long_backward_can_be_interrupted():
    x = leaf([1.0, 2.0])
    y = x
    for _ in range(500_000):
        y = y * 1.0

    def ring(number, frame):
        raise Interrupt("the timer")

    out = y.sum()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Interrupt, match="the timer"):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            out.backward()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert x.grad is None
    assert hg.is_grad_enabled()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_hook_that_hits_the_recursion_limit():
    x = leaf(1.0)

    def deep(g):
        return deep(g)

    handle = x.register_hook(deep)
    with pytest.raises(RecursionError):
        x.backward()
    assert x.grad is None
    handle.remove()
    x.backward()
    assert x.grad.item() == 1.0


def test_the_note_is_no_part_of_the_message():
    x = leaf(1.0)
    x.register_hook(failing)
    with pytest.raises(ArithmeticError) as caught:
        x.backward()
    assert str(caught.value) == "from the hook"
    assert re.fullmatch(r"raised in hook 1 of 1.*", note_of(caught.value))
    assert sys.exc_info() == (None, None, None)
