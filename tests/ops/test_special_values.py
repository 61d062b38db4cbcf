"""Infinities, NaN, zeros of either sign and numbers at the ends of the range: NumPy's values, and no warning."""

import numeric
import numpy as np
import pytest
from op_table import for_every_example

import hookgrad as hg

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38, 3e38, -3e38, 710.0, -750.0, 0.5]


def special(example, dtype):
    rng = example.generator()
    return [np.asarray(rng.choice(SPECIAL, size=shape), dtype) for shape in example.shapes]


@for_every_example
def test_special_values(example, dtype):
    """A caller may have NumPy raise at floating-point errors: that is about the caller's own arithmetic."""
    arrays = special(example, dtype)
    expected = example.expected(*arrays)
    with np.errstate(all="raise"):
        leaves = numeric.leaves(arrays)
        y = example.compute(*leaves)
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        if not example.row.inexact:
            np.testing.assert_array_equal(y.numpy(), expected)
        for weights in (np.ones(y.shape, y.dtype), np.full(y.shape, np.inf, y.dtype), np.zeros(y.shape, y.dtype)):
            for create_graph in (False, True):
                c = hg.tensor(weights, requires_grad=create_graph)
                found = hg.grad(y, leaves, grad_outputs=c, create_graph=create_graph, retain_graph=True)
                for g, leaf in zip(found, leaves, strict=True):
                    assert (g.dtype, g.shape) == (leaf.dtype, leaf.shape)


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan])
def test_what_was_not_selected_gets_an_exact_zero(weight):
    """Whatever the incoming gradient: a product with 0 would make NaN of it."""
    selections = {
        "where": lambda x: hg.where([True, False, False], x, 9.0),
        "where, second": lambda x: hg.where([False, True, True], 9.0, x),
        "relu": lambda x: hg.relu(x - 1.5),
        "clip": lambda x: hg.clip(x, 0.0, 2.5),
        "clip from below": lambda x: hg.clip(x, 1.5, 9.0),
        "maximum": lambda x: hg.maximum(x, 1.5),
        "minimum": lambda x: hg.minimum(x, 1.5),
        "index": lambda x: x[:1],
        "mask": lambda x: x[np.array([False, True, False])],
        "max": lambda x: hg.max(x),
        "min": lambda x: hg.min(x, axis=0, keepdims=True),
    }
    taken = {
        "where": [1, 0, 0],
        "where, second": [1, 0, 0],
        "relu": [1, 0, 1],
        "clip": [1, 1, 0],
        "clip from below": [1, 0, 1],
        "maximum": [1, 0, 1],
        "minimum": [0, 1, 0],
        "index": [1, 0, 0],
        "mask": [0, 1, 0],
        "max": [0, 0, 1],
        "min": [0, 1, 0],
    }
    for name, select in selections.items():
        for create_graph in (False, True):
            x = hg.tensor([2.0, 1.0, 3.0], requires_grad=True)
            y = select(x)
            weights = hg.full(y.shape, weight)
            (g,) = hg.grad(y, x, grad_outputs=weights, create_graph=create_graph)
            mask = np.array(taken[name], bool)
            assert (g.numpy()[~mask] == 0).all(), name
            np.testing.assert_array_equal(g.numpy()[mask], np.full(mask.sum(), weight, np.float32), err_msg=name)
