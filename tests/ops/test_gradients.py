"""Gradients against finite differences of NumPy's functions, and derivatives of higher order."""

import numeric
import numpy as np
import pytest
from op_table import for_every_example

import hookgrad as hg


def gradients(example, arrays, *, create_graph=False, weights=None):
    """hookgrad's gradients for the arrays, with recorded or with plain derivatives."""
    leaves = numeric.leaves(arrays)
    y = example.compute(*leaves)
    weights = example.weights(y.numpy()) if weights is None else weights
    found = hg.grad(y, leaves, grad_outputs=hg.asarray(weights), create_graph=create_graph)
    for g, leaf in zip(found, leaves, strict=True):
        assert isinstance(g, hg.Tensor)
        assert (g.shape, g.dtype) == (leaf.shape, leaf.dtype)
    return [g.numpy() for g in found]


def by_differences(example, arrays):
    return numeric.gradient_by_differences(
        lambda *xs: example.expected(*xs), arrays, example.weights(example.expected(*arrays))
    )


def assert_gradients(found, expected, dtype, detail=""):
    for k, (g, e) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(g, e, **numeric.CLOSE[np.dtype(dtype)], err_msg=f"{detail} input {k}")


@for_every_example
def test_gradient(example, dtype):
    arrays = example.arrays(dtype)
    assert_gradients(gradients(example, arrays), by_differences(example, arrays), dtype)


@for_every_example
def test_recorded_gradient_is_the_plain_one(example, dtype):
    """The same derivative, run on tensors for create_graph and on arrays without."""
    arrays = example.arrays(dtype)
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-13, "atol": 1e-14}
    plain = gradients(example, arrays)
    recorded = gradients(example, arrays, create_graph=True)
    for p, r in zip(plain, recorded, strict=True):
        np.testing.assert_allclose(r, p, **close)


@pytest.mark.parametrize("layout", numeric.LAYOUTS)
def test_gradient_in_any_layout(row, layout):
    for example in row.examples:
        if row.kink_at_ties and layout == "zero stride":
            continue
        arrays = [numeric.laid_out(a, layout) for a in example.arrays(np.float64)]
        expected = by_differences(example, arrays)
        for create_graph in (False, True):
            assert_gradients(gradients(example, arrays, create_graph=create_graph), expected, np.float64, str(example))


@pytest.mark.parametrize("layout", numeric.LAYOUTS)
def test_incoming_gradient_in_any_layout(row, layout):
    for example in row.examples:
        arrays = example.arrays(np.float64)
        weights = numeric.laid_out(example.weights(example.expected(*arrays)), layout)
        expected = numeric.gradient_by_differences(lambda *xs: example.expected(*xs), arrays, weights)  # noqa: B023
        for create_graph in (False, True):
            found = gradients(example, arrays, create_graph=create_graph, weights=weights)
            assert_gradients(found, expected, np.float64, str(example))


@pytest.mark.parametrize("order", [2, 3])
@for_every_example
def test_derivatives_of_higher_order(example, order):
    """The derivative of order n in random directions against differences of that of order n - 1, and so symmetric.

    The incoming gradient is one of the variables: the derivative of a derivative with respect to it counts too.
    """
    arrays = example.arrays(np.float64)
    arrays = [example.weights(example.expected(*arrays)), *arrays]
    rng = np.random.default_rng(order)
    directions = [[rng.normal(size=a.shape) for a in arrays] for _ in range(order - 1)]
    found = numeric.derivative(example.compute, arrays, directions)
    lower = []
    for step in (numeric.STEP, -numeric.STEP):
        moved = [a + step * u for a, u in zip(arrays, directions[-1], strict=True)]
        lower.append(numeric.derivative(example.compute, moved, directions[:-1]))
    for k, (g, after, before) in enumerate(zip(found, *lower, strict=True)):
        expected = (after - before) / (2 * numeric.STEP)
        scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-6 * scale, err_msg=f"variable {k}")


def test_one_tensor_as_every_operand(row):
    """x op x: the derivatives of both operands add up, and neither is spoiled by the other's."""
    for example in row.examples:
        if len(example.shapes) < 2 or len(set(example.shapes)) > 1 or row.name in ("maximum", "minimum", "clip"):
            continue
        if set(row.domains) == {row.domains[0]}:
            domain = row.domains[0]
        else:
            domain = next(d for d in row.domains if d.__name__ != "real")
        x = np.asarray(domain(example.generator(), example.shapes[0]))
        count = len(example.shapes)
        weights = example.weights(example.expected(*[x] * count))
        (expected,) = numeric.gradient_by_differences(
            lambda x: example.expected(*[x] * count),  # noqa: B023
            [x],
            weights,
        )
        for create_graph in (False, True):
            leaf = hg.tensor(x, requires_grad=True)
            y = example.compute(*[leaf] * count)
            (g,) = hg.grad(y, leaf, grad_outputs=hg.asarray(weights), create_graph=create_graph)
            assert_gradients([g.numpy()], [expected], np.float64, str(example))


@for_every_example
def test_gradients_share_no_memory(example):
    """Each leaf's .grad is its own: changing one in place changes no other, nor the caller's gradient."""
    arrays = example.arrays(np.float32)
    leaves = numeric.leaves(arrays)
    y = example.compute(*leaves)
    weights = example.weights(y.numpy())
    y.backward(hg.asarray(weights))
    memory = [leaf.grad.numpy() for leaf in leaves]
    for k, g in enumerate(memory):
        assert g.flags.writeable
        for other in [*memory[:k], weights, y.numpy(), *arrays]:
            assert not np.shares_memory(g, other)


@for_every_example
def test_backward_twice_through_a_retained_graph_doubles(example, dtype):
    """A first run leaves what the graph saved as it was."""
    arrays = example.arrays(dtype)
    once = gradients(example, arrays)
    leaves = numeric.leaves(arrays)
    y = example.compute(*leaves)
    weights = hg.asarray(example.weights(y.numpy()))
    y.backward(weights, retain_graph=True)
    y.backward(weights)
    for leaf, g in zip(leaves, once, strict=True):
        np.testing.assert_array_equal(leaf.grad.numpy(), 2 * g)


@pytest.mark.parametrize("needs", [0, 1])
def test_one_operand_alone_needs_a_gradient(mixing_row, needs):
    for example in mixing_row.examples:
        arrays = example.arrays(np.float64)
        expected = by_differences(example, arrays)[needs]
        leaf = hg.tensor(arrays[needs], requires_grad=True)
        for other in (hg.tensor(arrays[1 - needs]), arrays[1 - needs]):
            y = example.compute(*((leaf, other) if needs == 0 else (other, leaf)))
            (g,) = hg.grad(y, leaf, grad_outputs=hg.asarray(example.weights(y.numpy())))
            assert_gradients([g.numpy()], [expected], np.float64, str(example))
