"""Mixed dtypes follow NumPy 2's promotion, and a gradient has its tensor's dtype and shape, always."""

import numeric
import numpy as np
import pytest

import hookgrad as hg

OTHERS = [bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64, np.float32, np.float64]


def largest(row):
    return max(row.examples, key=lambda e: sum(int(np.prod(s)) for s in e.shapes))


def operands(example, position, dtype, other):
    """A leaf's array of fractions at `position`, and one of small integers in the other dtype; never equal."""
    rng = example.generator()
    leaf = (rng.integers(0, 3, size=example.shapes[position]) + rng.uniform(0.3, 0.7, example.shapes[position])).astype(
        dtype
    )
    data = rng.integers(1, 4, size=example.shapes[1 - position]).astype(other)
    return leaf, data


@pytest.mark.parametrize("other", OTHERS, ids=lambda t: np.dtype(t).name)
def test_promotion(mixing_row, dtype, other):
    example = largest(mixing_row)
    for position in (0, 1):
        leaf, data = operands(example, position, dtype, other)
        arrays = [leaf, data] if position == 0 else [data, leaf]
        expected = example.expected(*arrays)
        weights = example.weights(expected)
        wide = [a.astype(np.float64) for a in arrays]
        gradient = numeric.gradient_by_differences(example.expected, wide, weights)[position]

        x = hg.tensor(leaf, requires_grad=True)
        for data_operand in (hg.tensor(data), data):
            x.clear_grad()
            y = example.compute(*((x, data_operand) if position == 0 else (data_operand, x)))
            assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
            if mixing_row.inexact:
                np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5 if expected.dtype == np.float32 else 1e-13)
            else:
                np.testing.assert_array_equal(y.numpy(), expected)
            y.backward(hg.asarray(weights))
            assert (x.grad.dtype, x.grad.shape) == (x.dtype, x.shape)
            np.testing.assert_allclose(x.grad.numpy(), gradient, **numeric.CLOSE[np.dtype(np.float32)])


@pytest.mark.parametrize("position", [0, 1])
def test_two_leaves_of_two_dtypes(mixing_row, position):
    """Through create_graph too: the casts are part of the graph."""
    example = largest(mixing_row)
    leaf, data = operands(example, position, np.float32, np.float64)
    arrays = [leaf, data] if position == 0 else [data, leaf]
    expected = example.expected(*arrays)
    weights = example.weights(expected)
    wide = numeric.gradient_by_differences(
        lambda *xs: example.expected(*xs), [a.astype(np.float64) for a in arrays], weights
    )
    for create_graph in (False, True):
        leaves = numeric.leaves(arrays)
        found = hg.grad(example.compute(*leaves), leaves, grad_outputs=hg.asarray(weights), create_graph=create_graph)
        for g, leaf, e in zip(found, leaves, wide, strict=True):
            assert g.dtype == leaf.dtype
            np.testing.assert_allclose(g.numpy(), e, **numeric.CLOSE[np.dtype(np.float32)])


SCALARS = [2, True, 2.5, np.float32(2.5), np.float64(2.5), np.int8(2), np.int64(2), np.bool_(True)]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("position", [0, 1])
def test_scalars_promote_as_in_numpy(broadcasting_row, dtype, scalar, position):
    """Python's never widen; NumPy's have a dtype of their own."""
    example = next(e for e in broadcasting_row.examples if () in e.shapes)
    for leaf in (np.asarray(0.7, dtype), np.asarray([0.7, 1.3, 1.9], dtype)):
        expected = example.expected(leaf, scalar) if position == 0 else example.expected(scalar, leaf)
        if not isinstance(scalar, np.generic):
            expected = expected.astype(dtype)  # np.dot and np.clip make arrays of Python's numbers first
        x = hg.tensor(leaf, requires_grad=True)
        y = example.compute(x, scalar) if position == 0 else example.compute(scalar, x)
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-15)
        y.backward(hg.ones(y.shape, y.dtype))
        assert (x.grad.dtype, x.grad.shape) == (x.dtype, x.shape)


def test_ints_times_a_float32_leaf():
    """An integer array widens the result as in NumPy, and the gradient is float32 all the same."""
    f = hg.tensor([0.5, 0.5], requires_grad=True)
    y = np.array([1, 2]) * f
    assert y.dtype == np.float64
    y.sum().backward()
    assert f.grad.dtype == np.float32
    assert f.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", ["float32", "float64"])
def test_astype_casts_the_gradient_back(source, target):
    for create_graph in (False, True):
        x = hg.tensor(np.array([0.1, 0.2], source), requires_grad=True)
        y = hg.astype(x, target)
        assert y.dtype == target
        assert (y is x) == (source == target)
        (g,) = hg.grad(y, x, grad_outputs=hg.tensor(np.array([0.3, 1 / 3], target)), create_graph=create_graph)
        assert g.dtype == source
        np.testing.assert_array_equal(g.numpy(), np.array([0.3, 1 / 3], target).astype(source))


def test_astype_to_data_cuts_the_graph():
    x = hg.tensor([1.5, -2.5], requires_grad=True)
    for dtype, values in (("int64", [1, -2]), ("bool", [True, True])):
        y = x.astype(dtype)
        assert (y.dtype, y.requires_grad, y.tolist()) == (dtype, False, values)


@pytest.mark.parametrize("unusable", ["float16", "complex64", "S3", "O", "M8[s]"])
def test_astype_refuses_what_is_no_tensor_dtype(unusable):
    with pytest.raises(TypeError, match=r"astype.*float32"):
        hg.astype(hg.tensor([1.0]), unusable)
