"""Forward: NumPy's values, dtype and shape, for both dtypes and any memory layout."""

import numeric
import numpy as np
import pytest
from op_table import NO_SUCH_FUNCTION, for_every_example

import hookgrad as hg


def assert_forward(row, y, expected, detail=""):
    assert isinstance(y, hg.Tensor)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape), detail
    if row.inexact:
        close = {"rtol": 1e-5, "atol": 1e-6} if expected.dtype == np.float32 else {"rtol": 1e-13, "atol": 1e-14}
        np.testing.assert_allclose(y.numpy(), expected, **close, err_msg=detail)
    else:
        np.testing.assert_array_equal(y.numpy(), expected, err_msg=detail)


@for_every_example
def test_equals_numpy(example, dtype):
    arrays = example.arrays(dtype)
    assert_forward(example.row, example.compute(*map(hg.tensor, arrays)), example.expected(*arrays))


@pytest.mark.parametrize("layout", numeric.LAYOUTS)
def test_equals_numpy_in_any_layout(row, layout, dtype):
    for example in row.examples:
        arrays = [numeric.laid_out(a, layout) for a in example.arrays(dtype)]
        y = example.compute(*map(hg.asarray, arrays))
        assert_forward(row, y, example.expected(*arrays), str(example))


def test_takes_arrays_and_records_nothing_for_them(function_row):
    for example in function_row.examples:
        arrays = example.arrays(np.float64)
        y = example.compute(*arrays)
        assert_forward(function_row, y, example.expected(*arrays), str(example))
        assert y.requires_grad is False
        assert y.is_leaf
        assert y.grad_fn is None


@for_every_example
def test_records_for_a_leaf_and_not_under_no_grad(example):
    leaves = numeric.leaves(example.arrays(np.float32))
    y = example.compute(*leaves)
    assert y.requires_grad
    assert y is leaves[0] or not y.is_leaf
    with hg.no_grad():
        y = example.compute(*leaves)
        assert y is leaves[0] or not y.requires_grad


@for_every_example
def test_leaves_its_inputs_as_they_were(example, dtype):
    arrays = example.arrays(dtype)
    before = [a.copy() for a in arrays]
    leaves = numeric.leaves(arrays)
    y = example.compute(*leaves)
    forward = y.numpy().copy()
    weights = example.weights(forward)
    y.backward(hg.asarray(weights))
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(y.numpy(), forward)
    np.testing.assert_array_equal(weights, example.weights(forward))


@pytest.mark.parametrize("kind", [np.bool_, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_integers_are_data(row, kind):
    """Integers and bools give what NumPy gives, errors too, without a gradient; float64 where it gives float16."""
    example = max(row.examples, key=lambda e: sum(np.prod(s, dtype=int) for s in e.shapes))
    arrays = [np.abs(a * 3).astype(np.int64).astype(kind) | kind(1) for a in example.arrays(np.float64)]
    wide = [a.astype(np.float64) for a in arrays]
    tensors = [hg.tensor(a) for a in arrays]
    if row.inexact == NO_SUCH_FUNCTION or "relu" in row.name or "mse_loss" in row.name:
        y = example.compute(*tensors)
        assert not y.requires_grad
        np.testing.assert_allclose(y.numpy(), example.expected(*wide), rtol=1e-6)
        return
    try:
        expected = example.expected(*arrays)
    except (TypeError, ValueError, OverflowError) as error:  # negative bools, integers to negative powers
        if row.name == "Tensor.__pos__":
            return  # NumPy has no loop for bools, and hookgrad copies
        with pytest.raises(type(error)):
            example.compute(*tensors)
        return
    if expected.dtype == np.float16:
        expected = example.expected(*wide)
    y = example.compute(*tensors)
    assert (y.dtype, y.shape, y.requires_grad) == (expected.dtype, expected.shape, False)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-12)


def test_data_functions_equal_numpy(data_row, dtype):
    for example in data_row.examples:
        arrays = example.arrays(dtype)
        expected = example.expected(*arrays)
        for tensors in (map(hg.tensor, arrays), numeric.leaves(arrays), arrays):
            y = example.compute(*tensors)
            assert (y.dtype, y.shape, y.requires_grad) == (expected.dtype, expected.shape, False), str(example)
            np.testing.assert_array_equal(y.numpy(), expected, err_msg=str(example))
