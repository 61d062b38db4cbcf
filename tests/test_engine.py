"""The traversal: diamonds, fans, roots, order, freed graphs, and what is asked of a gradient."""

import gc
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hookgrad as hg

SCRIPTS = Path(__file__).with_name("scripts")


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


# Shapes of graphs -----------------------------------------------------------------------------------------------------


def test_diamond():
    x = leaf([1.0, 2.0])
    a = x * 2
    (a * a + a * 3).sum().backward()  # 4 x^2 + 6 x
    assert x.grad.tolist() == [14.0, 22.0]


def test_a_ladder_of_diamonds_is_walked_once():
    # 2**60 paths lead from the end to x
    x = leaf(1.0, np.float64)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_a_ladder_of_diamonds_with_two_sides():
    x = leaf(1.0, np.float64)
    y = x
    for _ in range(30):
        y = y * 1 + y * 2
    y.backward()
    assert x.grad.item() == 3.0**30


@pytest.mark.parametrize("count", [100, 1000])
def test_fan_out(count):
    x = leaf([1.0, 2.0], np.float64)
    parts = [x * k for k in range(count)]
    hg.stack(parts).sum().backward()
    assert x.grad.tolist() == [count * (count - 1) / 2] * 2


def test_fan_in():
    leaves = [leaf(float(k)) for k in range(100)]
    total = leaves[0] * 0
    for k, x in enumerate(leaves):
        total = total + x * k
    total.backward()
    assert [x.grad.item() for x in leaves] == list(range(100))


def test_the_same_tensor_twice_in_one_operation():
    for function, expected in (
        (lambda x: x + x, 2.0),
        (lambda x: x - x, 0.0),
        (lambda x: x * x, 6.0),
        (lambda x: x / x, 0.0),
        (lambda x: hg.maximum(x, x), 1.0),
        (lambda x: x**x, 27 * (np.log(3.0) + 1)),
    ):
        x = leaf(3.0, np.float64)
        function(x).backward()
        np.testing.assert_allclose(x.grad.item(), expected, rtol=1e-12)


def test_one_leaf_in_every_place_of_an_operation():
    x = leaf([1.0, 2.0])
    hg.concatenate([x, x, x * 2, x]).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    m = leaf([[1.0, 2.0], [3.0, 4.0]])
    (m @ m).sum().backward()
    assert m.grad.tolist() == [[7.0, 11.0], [9.0, 13.0]]


def test_parts_without_gradient():
    x, c = leaf([1.0, 2.0]), hg.tensor([5.0, 5.0])
    hg.stack([c, x, c, c, x * 2, c]).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert c.grad is None


def test_a_dead_end_does_not_hold_up_the_rest():
    x = leaf(2.0)
    y = x * 3
    y * 10  # recorded, and dropped
    unused = y * 100
    (y * y).backward()
    assert x.grad.item() == 36.0
    assert unused.grad is None


# The order of the traversal -------------------------------------------------------------------------------------------


def test_latest_created_first_and_leaves_at_once():
    log = []

    def noted(name, t):
        t.register_hook(lambda g: log.append(name))
        return t

    x, y = noted("x", leaf(1.0)), noted("y", leaf(1.0))
    a = noted("a", x * 2)
    b = noted("b", y * 3)
    c = noted("c", x * 4)
    s = noted("s", a + b)
    out = noted("out", s + c)
    out.backward()
    assert log == ["out", "s", "c", "b", "y", "a", "x"]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_order_of_any_graph(data):
    """Among the tensors whose consumers have all run: leaves first, then the latest-created."""
    log = []
    tensors, inputs = [], {}
    for k in range(data.draw(st.integers(2, 14))):
        if k < 2 or data.draw(st.integers(0, 3)) == 0:
            t, inputs[k] = leaf(1.0), []
        else:
            i, j = data.draw(st.integers(0, k - 1)), data.draw(st.integers(0, k - 1))
            t, inputs[k] = tensors[i] * tensors[j], [i, j]
        t.register_hook(lambda g, k=k: log.append(k))
        tensors.append(t)
    root = len(tensors) - 1
    # the model
    reached, stack = set(), [root]
    while stack:
        k = stack.pop()
        if k not in reached:
            reached.add(k)
            stack.extend(inputs[k])
    consumers = {k: sum(inputs[c].count(k) for c in reached) for k in reached}
    ready, expected = [root], []
    while ready:
        k = max(ready, key=lambda k: (not inputs[k], k))
        ready.remove(k)
        expected.append(k)
        for i in inputs[k]:
            consumers[i] -= 1
            if consumers[i] == 0:
                ready.append(i)
    tensors[root].backward()
    assert log == expected


def test_the_order_does_not_depend_on_the_collector_or_on_names():
    def run(names, collect):
        log = []
        x = leaf(1.0)
        parts = {}
        for name in names:
            parts[name] = x * 2
            parts[name].register_hook(lambda g, name=name: log.append(name))
        if collect:
            gc.collect()
        total = hg.stack(list(parts.values())).sum()
        total.backward()
        return log

    assert run("abcd", False) == run("abcd", True) == ["d", "c", "b", "a"]
    assert run("dcba", False) == ["a", "b", "c", "d"]


# Retained and freed graphs --------------------------------------------------------------------------------------------


def test_retain_graph():
    x = leaf([1.0, 2.0])
    out = (x * x).sum()
    for k in range(1, 4):
        out.backward(retain_graph=True)
        assert x.grad.tolist() == [2.0 * k, 4.0 * k]
    out.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        out.backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_a_freed_graph_says_what_to_do():
    x = leaf([1.0, 2.0])
    y = x.tanh()
    y.sum().backward()
    for again in (
        lambda: y.sum().backward(),
        lambda: y.sum().backward(retain_graph=True),
        lambda: hg.grad(y.sum(), x),
        lambda: (y * x).sum().backward(),
    ):
        with pytest.raises(RuntimeError, match=r"second time.*freed.*retain_graph=True") as caught:
            again()
        assert "tanh" in str(caught.value)
    assert y.sum().item() == pytest.approx(np.tanh([1.0, 2.0]).sum())


def test_grad_frees_the_graph_too_and_retains_under_create_graph():
    x = leaf(2.0)
    y = x * x
    hg.grad(y, x)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    z = x * x
    hg.grad(z, x, create_graph=True)
    z.backward()
    assert x.grad.item() == 4.0
    z = x * x
    hg.grad(z, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        z.backward()


def test_parts_that_two_graphs_share():
    x = leaf(2.0)
    y = x * x
    a, b = y * 3, y * 5
    a.backward(retain_graph=True)
    b.backward()
    assert x.grad.item() == 4 * 8.0
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        a.backward()


def test_a_freed_graph_drops_what_it_saved():
    saved = np.array([3.0, 4.0], np.float32)
    x = leaf([1.0, 2.0])
    y = x * hg.from_numpy(saved)
    out = y.sum()
    before = sys.getrefcount(saved)
    out.backward(retain_graph=True)
    assert sys.getrefcount(saved) == before
    out.backward()
    assert sys.getrefcount(saved) < before


# Roots ----------------------------------------------------------------------------------------------------------------


def test_several_roots():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a, b = x * w, x * 2
    hg.autograd.backward([a, b.sum()], [hg.tensor([10.0, 100.0]), None])
    assert x.grad.tolist() == [32.0, 402.0]
    assert w.grad.tolist() == [10.0, 200.0]


def test_a_root_that_another_root_depends_on():
    x = leaf(3.0)
    y = x * 2
    z = y * y  # dz/dy = 12
    log = []
    y.register_hook(lambda g: log.append(g.item()))
    for roots in ([z, y], [y, z]):
        x.clear_grad()
        hg.autograd.backward(roots, [hg.tensor(1.0), hg.tensor(5.0)][:: 1 if roots[0] is z else -1], retain_graph=True)
        assert x.grad.item() == 34.0
        assert y.grad.item() == 17.0
    assert log == [17.0, 17.0]


def test_one_root_twice():
    x = leaf(3.0)
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append(g.item()))
    hg.autograd.backward([y, y], [hg.tensor(1.0), hg.tensor(10.0)])
    assert x.grad.item() == 22.0
    assert y.grad.item() == 11.0
    assert log == [11.0]


def test_leaves_as_roots():
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    hg.autograd.backward([x, w, x], [hg.tensor([1.0, 2.0]), None, hg.tensor([10.0, 20.0])])
    assert x.grad.tolist() == [11.0, 22.0]
    assert w.grad.item() == 1.0
    w.backward()
    assert w.grad.item() == 2.0


def test_a_leaf_and_what_depends_on_it_as_roots():
    x = leaf(3.0)
    hg.autograd.backward([x, x * x], [hg.tensor(100.0), None])
    assert x.grad.item() == 106.0


def test_no_roots():
    hg.autograd.backward([])


# The gradient of the root ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_one_element_needs_no_gradient(shape):
    x = hg.ones(shape, requires_grad=True)
    (x * 3).backward()
    assert x.grad.shape == shape
    assert x.grad.item() == 3.0


@pytest.mark.parametrize("shape", [(2,), (1, 3), (0,)])
def test_other_shapes_need_one(shape):
    x = hg.ones(shape, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"one element.*sum") as caught:
        (x * 3).backward()
    assert str(shape) in str(caught.value)


GRADIENTS = {
    "tensor": lambda: hg.tensor([1.0, 10.0]),
    "array": lambda: np.array([1.0, 10.0], np.float32),
    "list": lambda: [1.0, 10.0],
    "tuple": lambda: (1.0, 10.0),
    "list of integers": lambda: [1, 10],
    "float64 array": lambda: np.array([1.0, 10.0]),
    "strided array": lambda: np.array([1.0, 0.0, 10.0, 0.0], np.float32)[::2],
    "big-endian array": lambda: np.array([1.0, 10.0], ">f4"),
    "tensor that requires grad": lambda: leaf([1.0, 10.0]),
    "interior tensor": lambda: leaf([0.5, 5.0]) * 2,
}


@pytest.mark.parametrize("make", GRADIENTS.values(), ids=GRADIENTS.keys())
@pytest.mark.parametrize("through", ["method", "function", "grad"])
def test_kinds_of_gradients(make, through):
    x = leaf([1.0, 2.0])
    y = x * 3
    given = make()
    if through == "method":
        y.backward(given)
        result = x.grad
    elif through == "function":
        hg.autograd.backward([y], [given])
        result = x.grad
    else:
        (result,) = hg.grad([y], [x], [given])
    assert result.tolist() == [3.0, 30.0]
    assert result.dtype == np.float32
    assert not result.requires_grad


@pytest.mark.parametrize("number", [5, 5.0, np.float32(5), np.float64(5)])
def test_numbers_as_gradients(number):
    x = leaf(2.0)
    (x * 3).backward(number)
    assert x.grad.item() == 15.0
    y = leaf([2.0])
    (y * 3).backward([number])
    assert y.grad.tolist() == [15.0]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 2)])
def test_a_gradient_of_another_shape(shape):
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="invalid gradient at index 0") as caught:
        (x * 3).backward(hg.ones(shape))
    assert str(shape) in str(caught.value)
    assert "(2,)" in str(caught.value)
    with pytest.raises(ValueError, match="invalid gradient at index 1"):
        hg.autograd.backward([x * 3, x * 3], [hg.ones((2,)), hg.ones(shape)])
    assert x.grad is None


@pytest.mark.parametrize("wrong", ["ab", {}, object(), [None, 1.0], ["a", "b"], np.array([1j, 2j])], ids=repr)
def test_something_that_is_no_gradient(wrong):
    x = leaf([1.0, 2.0])
    with pytest.raises((TypeError, ValueError)):
        (x * 3).backward(wrong)
    assert x.grad is None


def test_the_wrong_number_of_gradients():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"1 gradient.*2 outputs"):
        hg.autograd.backward([x * 2, x * 3], [hg.ones((2,))])
    with pytest.raises(ValueError, match=r"3 gradient.*2 outputs"):
        hg.autograd.backward([x * 2, x * 3], [hg.ones((2,))] * 3)


def test_roots_that_require_no_grad():
    x = leaf(1.0)
    with hg.no_grad():
        y = x * 2
    for t in (y, hg.tensor(1.0), hg.tensor(1), x.detach()):
        with pytest.raises(RuntimeError, match="does not require grad"):
            t.backward()
    with pytest.raises(RuntimeError, match=r"output\[1\].*does not require grad"):
        hg.autograd.backward([x * 2, y])
    assert x.grad is None


@pytest.mark.parametrize("wrong", [3, "x", None, np.ones(2)], ids=repr)
def test_roots_that_are_no_tensors(wrong):
    with pytest.raises(TypeError, match="must be a Tensor"):
        hg.autograd.backward(wrong)
    with pytest.raises(TypeError, match=r"tensors\[1\]"):
        hg.autograd.backward([leaf(1.0), wrong])


def test_the_root_gradient_is_read_once_and_left_alone():
    x = leaf([1.0, 2.0], np.float64)
    v = hg.tensor(np.array([1.0, 10.0]))
    y = x
    for k in range(5):
        y = -(y * 2) / 4 + y - k
    y.backward(v, retain_graph=True)
    assert v.tolist() == [1.0, 10.0]
    assert x.grad.tolist() == [0.5**5, 10 * 0.5**5]
    y.backward(v)
    assert v.tolist() == [1.0, 10.0]


# Modes, sizes, dtypes -------------------------------------------------------------------------------------------------


def test_backward_under_no_grad():
    x = leaf(2.0)
    y = x * x
    with hg.no_grad():
        y.backward()
    assert x.grad.item() == 4.0


def test_empty_tensors():
    x = hg.ones((0, 3), requires_grad=True)
    calls = []
    x.register_hook(lambda g: calls.append(g.shape))
    (x * 2).sum().backward()
    assert x.grad.shape == (0, 3)
    assert calls == [(0, 3)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_have_their_tensors_dtype(dtype):
    x = leaf([1.0, 2.0], dtype)
    y = x * 2
    (y * 3).sum().backward()
    assert x.grad.dtype == y.grad.dtype == dtype


def test_two_dtypes_in_one_graph():
    x, w = leaf([1.0, 2.0], np.float32), leaf([3.0, 4.0], np.float64)
    (x * w).sum().backward()
    assert x.grad.dtype == np.float32
    assert w.grad.dtype == np.float64
    assert x.grad.tolist() == [3.0, 4.0]
    assert w.grad.tolist() == [1.0, 2.0]


def test_gradients_that_are_not_finite_pass_without_a_warning():
    x = leaf([0.0, 1.0])
    (1 / x).sum().backward()
    assert x.grad.tolist() == [-np.inf, -1.0]


def test_grad_fn_and_next_functions():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    z = y + 1
    assert x.grad_fn is None
    assert z.grad_fn.next_functions[0] is y.grad_fn
    assert len(y.grad_fn.next_functions) == 2
    assert "Multiply" in y.grad_fn.name()
    assert z.grad_fn.sequence > y.grad_fn.sequence
    assert y.is_leaf is False
    assert x.is_leaf is True


def test_the_graph_is_not_changed_by_a_backward():
    x = leaf(2.0)
    y = x * x
    z = y * 3
    node = z.grad_fn.next_functions[0]
    z.backward()
    assert z.grad_fn.next_functions[0] is node
    assert node is y.grad_fn


def test_many_random_graphs_of_sums_and_scalings():
    """Linear graphs with small integers: the gradient is a path count, exact in float64."""
    rng = random.Random(3)
    for _ in range(100):
        x = leaf(1.0, np.float64)
        tensors, weights = [x], [1]
        for _ in range(30):
            i, j = rng.randrange(len(tensors)), rng.randrange(len(tensors))
            k = rng.randint(-2, 2)
            tensors.append(tensors[i] + tensors[j] * k)
            weights.append(weights[i] + weights[j] * k)
        rng.shuffle(order := list(range(1, 31)))
        roots = order[: rng.randint(1, 4)]
        hg.autograd.backward([tensors[r] for r in roots])
        assert x.grad.item() == sum(weights[r] for r in roots)


@pytest.mark.parametrize(
    "case",
    ["run", "retained", "dropped", "branches", "lists", "hooks", "closures", "failed", "create_graph", "held", "grads"],
)
def test_a_chain_of_a_million_nodes(case):
    """Neither backward nor deallocation recurses; the script runs it on a small stack."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPTS / "deep_graphs.py", case],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
