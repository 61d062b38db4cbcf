"""Hooks that run backward() and grad() themselves: on the same graph, on others, several levels deep."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hookgrad as hg

SCRIPTS = Path(__file__).with_name("scripts")


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def once(function):
    """A hook that runs the function the first time, and nothing after."""
    calls = []

    def hook(*args):
        if not calls:
            calls.append(1)
            return function(*args)
        return None

    return hook


SORTS = pytest.mark.parametrize("sort", [False, True])


# Other graphs ---------------------------------------------------------------------------------------------------------


@SORTS
@pytest.mark.parametrize("interior", [False, True])
def test_a_hook_differentiates_a_function_of_its_gradient(interior, sort):
    x = leaf([1.0, 2.0])
    t = x * 1 if interior else x

    def hook(g):
        with hg.enable_grad():
            v = hg.tensor(g, requires_grad=True)
            (result,) = hg.grad((v**3).sum(), v)
        return result

    t.register_hook(hook)
    with hg.autograd.sort_sum_gradient(sort):
        (t * t).sum().backward()
    assert x.grad.tolist() == [12.0, 48.0]  # 3 (2x)^2
    assert t.grad is x.grad or t.grad.tolist() == [2.0, 4.0]


def test_grad_of_a_gradient_needs_recording():
    # a hook's gradient needs no grad, and recording is off in a hook; enable_grad turns it on
    v = leaf(np.ones(5)) ** 3
    errors, results = [], []

    def hook(g):
        try:
            hg.grad((g * g).sum(), g)
        except RuntimeError as error:
            errors.append(str(error))
        w = hg.tensor(g)
        w.requires_grad = True
        try:
            hg.grad((w * w).sum(), w)
        except RuntimeError as error:
            errors.append(str(error))
        with hg.enable_grad():
            results.extend(hg.grad((w * w).sum(), w))
        assert not g.requires_grad

    v.register_hook(hook)
    v.sum().backward()
    assert len(errors) == 2
    assert all("does not require grad" in error for error in errors)
    assert "no_grad" in errors[1]
    assert results[0].tolist() == [2.0] * 5


def test_a_gradient_cannot_be_made_to_require_grad_and_the_error_names_a_cure():
    x = leaf([1.0, 2.0])
    cured = []

    def hook(g):
        try:
            g.requires_grad = True
        except RuntimeError as error:
            assert "detach" in str(error) or "copy" in str(error)
            cure = g.detach() if "detach" in str(error) else g.copy()
            cure.requires_grad = True
            cured.append(cure.requires_grad)
        else:
            cured.append(g.requires_grad)

    x.register_hook(hook)
    x.sum().backward()
    assert cured == [True]


@pytest.mark.parametrize("kind", ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook"])
def test_another_graph_with_leaves_in_common(kind):
    x, w = leaf(2.0), leaf(3.0)
    other = x * w * w  # d/dx = 9, d/dw = 12
    getattr(x, kind)(once(lambda _: other.backward()))
    (x * x).backward()  # 4
    assert x.grad.item() == 13.0
    assert w.grad.item() == 12.0


def test_another_graph_from_a_final_callback():
    x, w = leaf(2.0), leaf(3.0)
    other = x * w
    x._register_backward_hook(once(other.backward))
    (x * x).backward()
    assert x.grad.item() == 7.0
    assert w.grad.item() == 2.0


# The same graph -------------------------------------------------------------------------------------------------------


@SORTS
@pytest.mark.parametrize("kind", ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook"])
def test_backward_on_the_same_retained_graph_from_a_leaf(kind, sort):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    out = (y * y).sum()  # d/dx = 2 x w^2
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    getattr(x, kind)(once(lambda _: out.backward(retain_graph=True)))
    with hg.autograd.sort_sum_gradient(sort):
        out.backward(retain_graph=True)
    assert x.grad.tolist() == [36.0, 128.0]
    assert w.grad.tolist() == [12.0, 64.0]
    assert seen == [[18.0, 64.0]] * 2  # once a backward
    assert y.grad.tolist() == [6.0, 16.0]


@SORTS
def test_backward_on_the_same_retained_graph_from_every_interior_tensor(sort):
    for position in range(4):
        x = leaf([1.0, 2.0], np.float64)
        a = x * 3
        b = a * a
        c = b + a
        out = c.sum()  # 9 x^2 + 3 x
        tensors = [a, b, c, out]
        tensors[position].register_hook(once(lambda g, out=out: out.backward(retain_graph=True)))
        with hg.autograd.sort_sum_gradient(sort):
            out.backward(retain_graph=True)
        assert x.grad.tolist() == [2 * 21.0, 2 * 39.0]
        assert a.grad.tolist() == [7.0, 13.0]
        assert out.grad.item() == 1.0


@SORTS
@pytest.mark.parametrize("depth", [1, 2, 5, 30])
def test_nested_several_levels(depth, sort):
    x, w = leaf(2.0, np.float64), leaf(5.0, np.float64)
    y = x * w
    z = y * y
    out = z + y * 3  # d/dx = 2 x w^2 + 3 w = 115, d/dw = 2 w x^2 + 3 x = 46
    level = [0]
    seen = []

    def hook(g):
        seen.append(g.item())
        if level[0] < depth:
            level[0] += 1
            out.backward(retain_graph=True)

    (y if depth % 2 else x).register_hook(hook)
    with hg.autograd.sort_sum_gradient(sort):
        out.backward(retain_graph=True)
    assert len(seen) == depth + 1
    assert set(seen) == ({23.0} if depth % 2 else {115.0})
    assert x.grad.item() == (depth + 1) * 115.0
    assert w.grad.item() == (depth + 1) * 46.0


@SORTS
def test_grad_on_the_same_retained_graph(sort):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    out = (y * y).sum()
    got = []
    y.register_hook(once(lambda g: got.extend(hg.grad(out, [x, w, y], retain_graph=True))))
    with hg.autograd.sort_sum_gradient(sort):
        out.backward(retain_graph=True)
    assert [g.tolist() for g in got] == [[18.0, 64.0], [6.0, 32.0], [6.0, 16.0]]
    assert x.grad.tolist() == [18.0, 64.0]
    assert w.grad.tolist() == [6.0, 32.0]


def test_a_nested_result_replaces_the_gradient():
    x = leaf([1.0, 2.0])
    y = x * x
    out = (y * y).sum()  # d/dy = 2 x^2, d/dx = 4 x^3

    def hook(g):
        handle.remove()
        (inner,) = hg.grad(out, x, retain_graph=True)
        return g + inner

    handle = y.register_hook(hook)
    out.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.numpy(), [(2 + 4) * 2, (8 + 32) * 4])


def test_grad_inside_grad():
    x = leaf(2.0, np.float64)
    y = x**2
    z = y**2
    levels = []

    def hook(g):
        if len(levels) < 4:
            levels.append(g.item())
            (inner,) = hg.grad(z, x, retain_graph=True)
            assert inner.item() == 32.0

    y.register_hook(hook)
    (g,) = hg.grad(z, x, retain_graph=True)
    assert g.item() == 32.0  # 4 x^3
    assert levels == [8.0] * 4
    assert x.grad is None


def test_backward_inside_grad_and_the_reverse():
    x = leaf(3.0)
    y = x * 2
    out = y * y  # d/dx = 8 x = 24
    y.register_hook(once(lambda g: out.backward(retain_graph=True)))
    (g,) = hg.grad(out, x, retain_graph=True)
    assert (g.item(), x.grad.item()) == (24.0, 24.0)
    got = []
    y.register_hook(once(lambda g: got.extend(hg.grad(out, y, retain_graph=True))))
    out.backward(retain_graph=True)
    assert (got[0].item(), x.grad.item()) == (12.0, 48.0)


def test_nested_backward_of_a_part_of_the_graph():
    x, w = leaf(2.0), leaf(3.0)
    a = x * x
    b = a * w
    out = b * b  # d/db = 2 b = 24; d/da = 72, d/dw = 96, d/dx = 288
    out.register_hook(once(lambda g: a.backward(retain_graph=True)))
    out.backward()
    assert x.grad.item() == 288.0 + 4.0
    assert w.grad.item() == 96.0
    assert a.grad.item() == 72.0


def test_a_graph_made_in_the_hook_on_top_of_the_running_one():
    x = leaf(2.0)
    y = x * x
    out = y * 3  # 12

    def hook(g):
        with hg.enable_grad():
            (y * 10).backward(retain_graph=True)  # 40, through the node that waits to be run

    y.register_hook(once(hook))
    out.backward()
    assert x.grad.item() == 52.0


def test_an_interior_tensor_as_a_nested_root():
    x = leaf([1.0, 2.0])
    y = x * 3
    log = []

    def hook(g):
        log.append(g.tolist())
        if len(log) < 3:
            y.backward(g * 10, retain_graph=True)

    y.register_hook(hook)
    (y * 2).sum().backward()
    assert log == [[2.0, 2.0], [20.0, 20.0], [200.0, 200.0]]
    assert x.grad.tolist() == [666.0, 666.0]


@pytest.mark.parametrize("position", range(3))
def test_without_retain_graph_the_result_is_right_or_the_error_is_clear(position):
    """The nested backward frees what the outer one still needs, unless that is past it."""
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    out = y * y  # d/dx = 2 x w^2 = 36
    tensors = [x, y, out]
    tensors[position].register_hook(once(lambda g: out.backward()))
    try:
        out.backward(retain_graph=True)
    except RuntimeError as error:
        assert "retain_graph=True" in str(error)
        assert x.grad.item() == 36.0  # the nested backward's alone
    else:
        assert x.grad.item() == 72.0
    x.clear_grad()
    (x * w).backward()
    assert x.grad.item() == 3.0


def test_a_nested_backward_may_free_a_graph_that_the_outer_one_is_done_with():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    out = y * 5
    # all that the outer backward needed of y is behind it when a leaf's hook runs
    x.register_post_accumulate_grad_hook(once(lambda t: y.backward()))
    out.backward(retain_graph=True)
    assert x.grad.item() == 15.0 + 3.0
    assert w.grad.item() == 10.0 + 2.0


# create_graph ---------------------------------------------------------------------------------------------------------


def test_a_nested_double_backward():
    x = leaf(2.0, np.float64)
    y = x * 1
    out = y**4
    got = []

    def hook(g):
        (first,) = hg.grad(out, x, create_graph=True)
        (second,) = hg.grad(first, x, create_graph=True)
        (third,) = hg.grad(second, x, retain_graph=True)
        got.extend([first.item(), second.item(), third.item(), hg.is_grad_enabled()])

    y.register_hook(once(hook))
    out.backward(retain_graph=True)
    assert got == [32.0, 48.0, 48.0, False]
    assert x.grad.item() == 32.0


def test_a_nested_plain_backward_under_create_graph():
    x = leaf(2.0, np.float64)
    y = x * 1
    out = y**3
    modes = []

    def hook(g):
        out.backward(retain_graph=True)
        modes.append(hg.is_grad_enabled())

    y.register_hook(once(hook))
    (first,) = hg.grad(out, x, create_graph=True)
    assert modes == [True]  # restored to the outer one's
    assert first.item() == 12.0
    assert x.grad.item() == 12.0
    (second,) = hg.grad(first, x)
    assert second.item() == 12.0


# Failures -------------------------------------------------------------------------------------------------------------


@SORTS
@pytest.mark.parametrize("position", range(3))
def test_a_failed_nested_backward_leaves_the_outer_one_right(position, sort):
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    out = y * y
    tensors = [w, y, out]
    depth = []

    def hook(g):
        if depth:
            raise KeyError("nested")
        depth.append(1)
        with pytest.raises(KeyError, match="nested"):
            out.backward(retain_graph=True)
        assert not hg.is_grad_enabled()
        hg.autograd.queue_callback(lambda: depth.append("outer's end"))

    tensors[position].register_hook(hook)
    with hg.autograd.sort_sum_gradient(sort):
        out.backward(retain_graph=True)
    assert depth == [1, "outer's end"]
    assert x.grad.item() == 36.0
    assert w.grad.item() == 24.0
    assert y.grad.item() == 12.0


def test_a_failure_three_levels_down_fails_all_of_them():
    x, w = leaf(2.0, name="x"), leaf(3.0)
    y = x * w
    out = y * y
    depth = []

    def hook(g):
        depth.append(1)
        if len(depth) == 3:
            raise KeyError("innermost")
        out.backward(retain_graph=True)

    handle = y.register_hook(hook)
    with pytest.raises(KeyError, match="innermost") as caught:
        out.backward(retain_graph=True)
    assert len(caught.value.__notes__) == 3
    assert x.grad is None
    assert w.grad is None
    assert y.grad is None
    handle.remove()
    out.backward()
    assert x.grad.item() == 36.0


def test_an_outer_failure_keeps_what_a_nested_backward_did():
    x, w = leaf(2.0), leaf(3.0)
    y = x * x

    def hook(g):
        with hg.enable_grad():
            (w * 5).backward()
        raise KeyError("outer")

    y.register_hook(hook)
    with pytest.raises(KeyError):
        (y * w).backward()
    assert w.grad.item() == 5.0
    assert x.grad is None


def test_registration_in_a_nested_backward():
    x = leaf(1.0)
    y = x * 2
    log = []

    def hook(g):
        log.append("outer")
        y.register_hook(lambda g: log.append("added"))
        y.backward(retain_graph=True)  # its own backward runs the hook that was just added

    y.register_hook(once(hook))
    y.backward()
    assert log == ["outer", "added"]
    assert x.grad.item() == 4.0


@pytest.mark.parametrize("kind", ["gradient", "in place", "post", "final"])
def test_endless_recursion_ends_in_a_recursion_error(kind):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPTS / "endless_recursion.py", kind],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "RecursionError, then [2.0, 2.0]\n"), done.stderr[-2000:]
