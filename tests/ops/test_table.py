"""The table has a row for everything that hookgrad computes, and its rows reach every derivative."""

import operator

import numeric
import numpy as np
from op_table import DATA_ROWS, EXAMPLES, NOT_OPERATIONS, ROWS

import hookgrad as hg


def public_callables(module, prefix=""):
    return {
        prefix + name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, type)
    }


def test_every_public_function_has_a_row():
    public = public_callables(hg) | public_callables(hg.nn.functional, "nn.functional.")
    public -= NOT_OPERATIONS
    assert public - {row.name for row in ROWS + DATA_ROWS} == set()


def test_every_row_is_public():
    for row in ROWS + DATA_ROWS:
        assert operator.attrgetter(row.name)(hg) is not None
    assert all(callable(getattr(hg, name)) for name in NOT_OPERATIONS)


def test_every_public_function_of_one_name_with_a_method_is_that_method():
    """Methods need no rows of their own: they are the functions of the table."""
    shared = public_callables(hg) & {name for name in vars(hg.Tensor) if callable(getattr(hg.Tensor, name))}
    assert shared >= {"sum", "exp", "matmul", "reshape"}
    for name in shared - {"grad"}:
        assert getattr(hg.Tensor, name) is getattr(hg, name), name


def leaf_classes(cls):
    """The classes below cls that nobody subclasses: each a derivative, written once."""
    below = cls.__subclasses__()
    return [cls] if not below else [leaf for sub in below for leaf in leaf_classes(sub)]


def recorded_names(tensors):
    """The names of all nodes in the graph of some tensors, in lower case."""
    names, seen, waiting = set(), set(), [t.grad_fn for t in tensors]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        names.add(node.name().removesuffix("Backward").lower())
        waiting.extend(node.next_functions)
    return names


#: Classes whose instances are named by what they pick.
SHARED = {"extremum": {"maximum", "minimum"}, "reduceextremum": {"max", "min"}}


def test_every_derivative_is_reached_by_a_row():
    reached = set()
    for example in EXAMPLES:
        arrays = example.arrays(np.float32)
        leaves = numeric.leaves(arrays)
        y = example.compute(*leaves)
        weights = hg.asarray(example.weights(y.numpy()))
        weights.requires_grad = True
        reached |= recorded_names([y, *hg.grad(y, leaves, grad_outputs=weights, create_graph=True)])
    classes = {cls.__name__.lower() for cls in leaf_classes(hg._core.grad_node.Op)}
    expected = set().union(*(SHARED.get(name, {name}) for name in classes))
    assert len(expected) > 40
    assert expected - reached == set(), "operations of the core that no row of the table reaches"
    assert reached - expected - {"accumulategrad"} == set()


def test_examples_are_told_apart():
    names = [str(example) for example in EXAMPLES]
    assert len(set(names)) == len(names)
