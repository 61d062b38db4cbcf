"""The table of operations: one row an operation, with NumPy's function, domains and shapes.

The tests of this folder run on every row: forward against NumPy, gradient against finite differences, higher orders
likewise, broadcasting, empty and 0-d tensors, memory layouts, dtypes. A new operation needs a row and nothing else.
"""

import functools
import inspect
import operator
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import hookgrad as hg

# Domains: values at which an operation is smooth, at least 1e-2 away from its kinks and poles. ------------------------


def real(rng, shape):
    return rng.normal(size=shape)


def positive(rng, shape):
    return rng.uniform(0.5, 2.0, size=shape)


def above_minus_one(rng, shape):
    return rng.uniform(-0.5, 2.0, size=shape)


def nonzero(rng, shape):
    return rng.uniform(0.5, 2.0, size=shape) * rng.choice([-1.0, 1.0], size=shape)


def distinct(rng, shape):
    """No two elements are equal."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size // 2) * 0.25 + 0.1


def on_grid(rng, shape):
    """Never equal to an element of `off_grid`."""
    return rng.integers(-4, 5, size=shape) * 0.5


def off_grid(rng, shape):
    return rng.integers(-4, 4, size=shape) * 0.5 + 0.25


# Rows -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One operation.

    Attributes
    ----------
    name : str
        Where users find it in hookgrad: ``add``, ``nn.functional.relu``, ``Tensor.T``.
    numpy : callable
        The same on arrays: NumPy's function, or a formula where NumPy has none.
    domains : tuple of callable
        One for each input that has a gradient.
    shapes : sequence of tuples of shapes, or of (tuple of shapes, keyword arguments)
        The examples.
    call : callable, optional
        How to call it on tensors, where it is not ``hg.<name>(*tensors, **kwargs)``.
    label : str
        Tells rows of one name apart.
    inexact : str
        Why the forward is close to the reference but not equal in every bit.
    mixes : bool
        It has two operands, whose dtypes promote.
    kink_at_ties : bool
        It has no derivative where elements are equal.
    """

    name: str
    numpy: Callable
    domains: tuple
    shapes: tuple
    call: Callable | None = None
    label: str = ""
    inexact: str = ""
    mixes: bool = False
    kink_at_ties: bool = False

    def __str__(self):
        return f"{self.name}-{self.label}" if self.label else self.name

    @property
    def function(self):
        """On tensors."""
        return self.call or operator.attrgetter(self.name)(hg)

    @property
    def broadcasts(self):
        """Whether it takes a tensor without axes beside one of any shape."""
        return any(() in e.shapes and len(set(e.shapes)) > 1 and "axis" not in e.kwargs for e in self.examples)

    @property
    def examples(self):
        return [
            Example(self, *given) if len(given) == 2 and isinstance(given[1], dict) else Example(self, given)
            for given in self.shapes
        ]


@dataclass(frozen=True)
class Example:
    """A row at certain shapes and keyword arguments."""

    row: Row
    shapes: tuple
    kwargs: dict = field(default_factory=dict)

    def __str__(self):
        words = [str(self.row), "x".join(map(str, self.shapes))]
        words += [f"{key}={_short(value)}" for key, value in self.kwargs.items()]
        return "-".join(words).replace(" ", "")

    def generator(self):
        """Random numbers that are the same in every run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def arrays(self, dtype):
        rng = self.generator()
        return [
            np.asarray(domain(rng, shape), dtype=dtype)
            for domain, shape in zip(self.row.domains, self.shapes, strict=True)
        ]

    def weights(self, like):
        """An incoming gradient for an output."""
        return np.asarray(np.random.default_rng(1).normal(size=like.shape), dtype=like.dtype)

    def compute(self, *tensors):
        return self.row.function(*tensors, **self.kwargs)

    def expected(self, *arrays):
        with np.errstate(all="ignore"):
            return np.asarray(self.row.numpy(*arrays, **self.kwargs))


def for_every_example(test):
    """A test of an example as one of a row, which runs for all its examples and names the one that fails."""

    @functools.wraps(test)
    def of_row(row, **kwargs):
        for example in row.examples:
            try:
                test(example, **kwargs)
            except BaseException as error:
                error.add_note(f"in the example {example}")
                raise

    signature = inspect.signature(test)
    row = inspect.Parameter("row", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    of_row.__signature__ = signature.replace(parameters=[row, *list(signature.parameters.values())[1:]])
    return of_row


def _short(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.tolist() if value.size <= 6 else value.shape}"
    if isinstance(value, tuple):
        return "(" + ",".join(map(_short, value)) + ")"
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts)
    return str(value)


# Examples that rows share ---------------------------------------------------------------------------------------------

ONE = (((),), ((3,),), ((1,),), ((2, 3),), ((2, 1, 3),), ((0,),), ((0, 3),))

TWO = (
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (2, 3)),
    ((), (3,)),
    ((3,), ()),
    ((1,), ()),
    ((3,), (1,)),
    ((1,), (3,)),
    ((3, 1), (1, 4)),
    ((1, 4), (3, 1)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 3), (2, 1)),
    ((2, 3, 4), (3, 1)),
    ((4,), (2, 3, 4)),
    ((2, 1, 4), (3, 1)),
    ((1, 1, 1), (3,)),
    ((0,), (0,)),
    ((0,), ()),
    ((1,), (0,)),
    ((0, 3), (3,)),
    ((2, 1), (0,)),
)

REDUCED = (
    (((),), {}),
    (((),), {"keepdims": True}),
    (((5,),), {}),
    (((5,),), {"axis": 0}),
    (((5,),), {"axis": -1, "keepdims": True}),
    (((1, 4),), {"axis": 0}),
    (((4, 1),), {"axis": 0}),
    (((4, 1),), {"axis": 1}),
    (((2, 3),), {"keepdims": True}),
    (((2, 3, 4),), {}),
    (((2, 3, 4),), {"axis": 0}),
    (((2, 3, 4),), {"axis": 1}),
    (((2, 3, 4),), {"axis": -1}),
    (((2, 3, 4),), {"axis": -3, "keepdims": True}),
    (((2, 3, 4),), {"axis": (0, 1)}),
    (((2, 3, 4),), {"axis": (1, 2), "keepdims": True}),
    (((2, 3, 4),), {"axis": (0, -1)}),
    (((2, 3, 4),), {"axis": (-1, 0), "keepdims": True}),
    (((2, 3, 4),), {"axis": (0, 1, 2)}),
    (((3, 0),), {"axis": 0}),
)

#: Over no elements, or over one each: not for what has no value or no derivative there.
REDUCED_TO_NEUTRAL = (
    (((2, 3),), {"axis": ()}),
    (((0,),), {}),
    (((0, 3),), {"axis": 0}),
    (((3, 0),), {"axis": 1, "keepdims": True}),
    (((3, 0),), {"axis": (0, 1)}),
)

PRODUCTS = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 3), (3, 1)),
    ((1, 1), (1, 1)),
    ((1, 1), (1, 3)),
    ((3, 1), (1, 3)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
)


# NumPy has no such function -------------------------------------------------------------------------------------------


def numpy_sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True)) if x.size else x
    return e / e.sum(axis=axis, keepdims=True)


def numpy_log_softmax(x, axis=-1):
    return np.log(numpy_softmax(x, axis))


def numpy_cross_entropy(logits, labels):
    return -np.mean(numpy_log_softmax(logits)[np.arange(len(logits)), labels])


def numpy_logsumexp(x, axis=None, keepdims=False):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def numpy_clip(x, min=None, max=None):  # the words min and max are NumPy 2.1's
    return np.clip(x, min, max)


NO_SUCH_FUNCTION = "NumPy has no such function: a formula in NumPy, rounded elsewhere"


# The table ------------------------------------------------------------------------------------------------------------


def _unary(name, domain, numpy=None, **words):
    return Row(name, numpy or getattr(np, name), (domain,), ONE, **words)


def _binary(name, first, second, **words):
    return Row(name, getattr(np, name), (first, second), TWO, mixes=True, **words)


def _reduction(name, domain=real, more=(), numpy=None, neutral=True, **words):
    shapes = REDUCED + (REDUCED_TO_NEUTRAL if neutral else ()) + tuple(more)
    return Row(name, numpy or getattr(np, name), (domain,), shapes, **words)


def _with_number(name, number, domain, side):
    """An operation of a tensor and a Python number, which has no gradient and takes the tensor's dtype."""
    first = side == "left"
    return Row(
        name,
        lambda x: getattr(np, name)(number, x) if first else getattr(np, name)(x, number),
        (domain,),
        (((),), ((2, 3),), ((0,),)),
        call=lambda x: getattr(hg, name)(number, x) if first else getattr(hg, name)(x, number),
        label=f"{number!r} on the {side}",
        inexact="x**2, x**0.5 and x**-1 run the loops of square, sqrt and reciprocal" if name == "power" else "",
    )


_MASK = np.array([[True, False, True], [False, False, True]])

INDEXED = tuple(
    ((shape,), {"index": index})
    for shape, index in (
        ((), ()),
        ((), ...),
        ((), None),
        ((5,), 2),
        ((5,), -1),
        ((5,), np.int64(3)),
        ((5,), slice(1, 4)),
        ((5,), slice(None, None, -1)),
        ((5,), slice(4, 0, -2)),
        ((5,), slice(3, 3)),
        ((5,), slice(-100, 100)),
        ((5,), None),
        ((5,), [0, 3]),
        ((5,), []),
        ((5,), np.array([], dtype=np.intp)),
        ((5,), np.array([1, 1, 1, -4])),
        ((5,), np.array([[0, 4], [4, 4]])),
        ((5,), np.array([0, 2], dtype=np.uint8)),
        ((5,), np.array([True, False, True, True, False])),
        ((5,), [True, False, True, True, False]),
        ((5,), np.zeros(5, bool)),
        ((2, 3), ()),
        ((2, 3), ...),
        ((2, 3), 1),
        ((2, 3), (1, 2)),
        ((2, 3), (1, ...)),
        ((2, 3), (..., 0)),
        ((2, 3), (slice(None), -1)),
        ((2, 3), (slice(None, None, -1), slice(None, None, 2))),
        ((2, 3), (None, slice(None), None, 1)),
        ((2, 3), (..., None)),
        ((2, 3), (slice(0, 0), slice(None))),
        ((2, 3), (np.array([0, 0, 1]), np.array([2, 2, 0]))),
        ((2, 3), (np.array([[0], [1]]), np.array([0, 0, 2]))),
        ((2, 3), (slice(None), np.array([2, 0, 2]))),
        ((2, 3), (slice(None), [0, 0])),
        ((2, 3), (np.array([0, 1]), slice(1, None))),
        ((2, 3), (0, np.array([2, 2]))),
        ((2, 3), (np.array([1, 1]), None, 0)),
        ((2, 3), _MASK),
        ((2, 3), (_MASK,)),
        ((2, 3), (slice(None), np.array([True, False, True]))),
        ((2, 3), (np.array([False, True]), np.array([0, 0]))),
        ((2, 3), True),
        ((2, 3), np.array(1)),
        ((2, 3, 4), (np.array([0, 1]), slice(None), np.array([3, 3]))),
        ((2, 3, 4), (..., np.array([1, 1]), slice(2))),
        ((2, 3, 4), (slice(None), _MASK[0], 0)),
        ((2, 3, 4), _MASK),
        ((0, 3), slice(None)),
        ((0, 3), (slice(None), 1)),
        ((0, 3), (slice(None), [1, 1])),
    )
)

_CONDITION = np.array([[True], [False], [True]])

ROWS = [
    # One operand.
    _unary("negative", real),
    _unary("absolute", nonzero),
    _unary("exp", real),
    _unary("log", positive),
    _unary("log1p", above_minus_one),
    _unary("expm1", real),
    _unary("sqrt", positive),
    _unary("square", real),
    _unary("reciprocal", nonzero),
    _unary("sin", real),
    _unary("cos", real),
    _unary("tanh", real),
    _unary("sigmoid", real, numpy_sigmoid, inexact=NO_SUCH_FUNCTION),
    _unary("relu", nonzero, lambda x: np.maximum(x, 0)),
    _unary("copy", real),
    _unary("Tensor.__pos__", real, np.positive),
    _unary("Tensor.__neg__", real, np.negative),
    _unary("Tensor.__abs__", nonzero, np.absolute),
    # Two operands.
    _binary("add", real, real),
    _binary("subtract", real, real),
    _binary("multiply", real, real),
    _binary("divide", real, nonzero),
    _binary("power", positive, real),
    _binary("maximum", on_grid, off_grid),
    _binary("minimum", on_grid, off_grid),
    # The quotients lie between -1/2 and 1/2, and none is 0: away from the jumps.
    _binary("remainder", off_grid, lambda rng, shape: 5 + rng.random(shape)),
    *[_with_number(name, 2.5, real, side) for name in ("add", "subtract", "multiply") for side in ("left", "right")],
    *[_with_number(name, 3, real, side) for name in ("add", "subtract", "multiply") for side in ("left", "right")],
    *[_with_number(name, 0.1, off_grid, side) for name in ("maximum", "minimum") for side in ("left", "right")],
    *[_with_number("divide", number, nonzero, side) for number in (2.5, 3) for side in ("left", "right")],
    *[_with_number("power", number, positive, "right") for number in (0, 0.5, 1, -1, 2, 2.0, 3, -2.5)],
    *[_with_number("power", number, real, "left") for number in (1, 2, 0.7)],
    replace(_with_number("power", 3, nonzero, "right"), label="3 on the right of negatives"),
    Row(
        "where",
        lambda x, y, condition: np.where(condition, x, y),
        (real, real),
        (
            (((3, 4), (3, 4)), {"condition": np.arange(12).reshape(3, 4) % 3 == 0}),
            (((1, 4), ()), {"condition": _CONDITION}),
            (((), (3, 4)), {"condition": _CONDITION}),
            (((3, 1), (4,)), {"condition": True}),
            (((4,), (2, 3, 1)), {"condition": _CONDITION}),
            (((), ()), {"condition": False}),
            (((3,), (1,)), {"condition": np.array([0, 2, -1])}),
            (((0,), (1,)), {"condition": np.zeros(0, bool)}),
            (((3, 1), ()), {"condition": np.zeros((3, 0), bool)}),
        ),
        call=lambda x, y, condition: hg.where(condition, x, y),
        mixes=True,
    ),
    Row(
        "clip",
        numpy_clip,
        (off_grid,),
        (
            (((),), {"min": -1.0, "max": 1.0}),
            (((3, 4),), {"min": -1.0, "max": 1.0}),
            (((3, 4),), {"min": -1.0}),
            (((3, 4),), {"max": 1}),
            (((3, 4),), {"min": np.array([[-1.0], [0.0], [1.0]], np.float32), "max": 1.0}),
            (((4,),), {"min": np.array([[-1.0], [0.0]], np.float32), "max": np.array([0.5, 0, 1, 1], np.float32)}),
            (((0,),), {"min": 0.0, "max": 1.0}),
        ),
        label="by constants",
    ),
    Row(
        "clip",
        numpy_clip,
        (off_grid, lambda rng, shape: on_grid(rng, shape) - 0.1, lambda rng, shape: on_grid(rng, shape) + 0.1),
        (
            ((3, 4), (3, 4), (3, 4)),
            ((3, 4), (), ()),
            ((4,), (3, 1), (2, 1, 1)),
            ((), (3,), (2, 1)),
            ((0,), (1,), ()),
        ),
        label="by tensors",
    ),
    Row(
        "clip",
        lambda x, low: np.clip(x, low, None),
        (off_grid, on_grid),
        TWO,
        label="from below",
        call=lambda x, low: hg.clip(x, min=low),
        mixes=True,
    ),
    Row(
        "clip",
        lambda x, high: np.clip(x, None, high),
        (off_grid, on_grid),
        TWO,
        label="from above",
        call=lambda x, high: hg.clip(x, max=high),
        mixes=True,
    ),
    Row(
        "astype",
        lambda x, dtype: x.astype(dtype),
        (real,),
        tuple((s, {"dtype": "float64"}) for s in ONE),
        call=lambda x, dtype: hg.astype(x, dtype),
        label="to float64",
    ),
    # Reductions.
    _reduction("sum", more=[(((2, 3),), {"axis": 0, "dtype": np.float64})]),
    _reduction("mean", neutral=False, more=[(((2, 3),), {"dtype": np.float64})]),
    _reduction("prod", nonzero, more=[(((2, 3),), {"axis": 1, "dtype": np.float64})]),
    _reduction("max", distinct, neutral=False, kink_at_ties=True, more=[(((2, 3),), {"axis": ()})]),
    _reduction("min", distinct, neutral=False, kink_at_ties=True, more=[(((2, 3),), {"axis": ()})]),
    _reduction(
        "logsumexp", numpy=numpy_logsumexp, neutral=False, inexact=NO_SUCH_FUNCTION, more=[(((2, 3),), {"axis": ()})]
    ),
    _reduction(
        "var",
        neutral=False,
        more=[
            (((2, 3),), {"axis": ()}),
            (((4,),), {"ddof": 1}),
            (((2, 3, 4),), {"axis": (0, 2), "ddof": 1, "keepdims": True}),
            (((2, 3, 4),), {"axis": 1, "ddof": 0.5}),
            (((4, 2),), {"axis": 0, "correction": 1}),
            (((2, 3),), {"axis": 1, "dtype": np.float64}),
        ],
    ),
    Row(
        "std",
        np.std,
        (distinct,),
        (
            (((5,),), {}),
            (((2, 3),), {"keepdims": True}),
            (((2, 3, 4),), {}),
            (((2, 3, 4),), {"axis": 0}),
            (((2, 3, 4),), {"axis": -1}),
            (((2, 3, 4),), {"axis": (0, -1)}),
            (((2, 3, 4),), {"axis": (0, 1), "keepdims": True}),
            (((4,),), {"ddof": 1}),
            (((2, 3, 4),), {"axis": 1, "ddof": 0.5, "keepdims": True}),
            (((4, 2),), {"axis": 0, "correction": 1}),
            (((2, 3),), {"axis": 1, "dtype": np.float64}),
            (((3, 0),), {"axis": 0}),
        ),
        kink_at_ties=True,
    ),
    Row(
        "cumsum",
        np.cumsum,
        (real,),
        (
            (((),), {}),
            (((5,),), {}),
            (((5,),), {"axis": -1}),
            (((2, 3),), {}),
            (((2, 3),), {"axis": 0}),
            (((2, 3, 4),), {"axis": 1}),
            (((2, 3, 4),), {"axis": -1}),
            (((0,),), {}),
            (((0, 3),), {"axis": 0}),
            (((0, 3),), {"axis": 1}),
            (((2, 3),), {"axis": 0, "dtype": np.float64}),
        ),
    ),
    # Products.
    Row(
        "matmul",
        np.matmul,
        (real, real),
        (
            *PRODUCTS,
            ((5, 2, 3), (5, 3, 4)),
            ((5, 2, 3), (3, 4)),
            ((2, 3), (5, 3, 4)),
            ((3,), (5, 3, 4)),
            ((5, 2, 3), (3,)),
            ((2, 1, 2, 3), (3, 3, 2)),
            ((1, 2, 3), (5, 3, 2)),
            ((5, 2, 3), (1, 3, 2)),
            ((2, 1, 3), (1, 3, 1)),
            ((0, 2, 3), (3, 4)),
            ((2, 2, 0), (0, 3)),
        ),
        mixes=True,
    ),
    Row(
        "dot",
        np.dot,
        (real, real),
        (
            *PRODUCTS,
            ((), ()),
            ((), (3,)),
            ((2, 3), ()),
            ((2, 2, 3), (3,)),
            ((2, 2, 3), (3, 2)),
            ((3,), (2, 3, 4)),
            ((2, 3), (2, 3, 4)),
            ((2, 1, 3), (2, 3, 2)),
            ((0, 3), (2, 3, 2)),
        ),
        mixes=True,
        inexact="np.dot calls BLAS in other pieces than matmul",
    ),
    # Shape.
    Row(
        "reshape",
        lambda x, shape: np.reshape(x, shape),
        (real,),
        (
            (((),), {"shape": (1, 1)}),
            (((6,),), {"shape": (2, 3)}),
            (((2, 3),), {"shape": (3, -1)}),
            (((2, 3),), {"shape": 6}),
            (((2, 3),), {"shape": -1}),
            (((1,),), {"shape": ()}),
            (((0, 3),), {"shape": (3, 0, 2)}),
        ),
        call=lambda x, shape: hg.reshape(x, shape),
    ),
    Row(
        "transpose",
        lambda x, axes=None: np.transpose(x, axes),
        (real,),
        (
            (((),), {}),
            (((3,),), {}),
            (((2, 3),), {}),
            (((2, 3, 4),), {}),
            (((2, 3, 4),), {"axes": (1, 2, 0)}),
            (((2, 3, 4),), {"axes": (-1, 0, 1)}),
            (((0, 3),), {"axes": (1, 0)}),
        ),
        call=lambda x, axes=None: hg.transpose(x, axes),
    ),
    Row("Tensor.T", np.transpose, (real,), ONE, call=lambda x: x.T),
    Row(
        "Tensor.mT",
        lambda x: np.swapaxes(x, -1, -2),
        (real,),
        (((2, 3),), ((2, 3, 4),), ((0, 2, 3),)),
        call=lambda x: x.mT,
    ),
    Row(
        "squeeze",
        np.squeeze,
        (real,),
        (
            (((),), {}),
            (((1, 1),), {}),
            (((1, 3, 1),), {}),
            (((1, 3, 1),), {"axis": 0}),
            (((1, 3, 1),), {"axis": -1}),
            (((1, 3, 1),), {"axis": (0, 2)}),
            (((1, 3, 1),), {"axis": ()}),
            (((0, 1),), {}),
        ),
    ),
    Row(
        "expand_dims",
        np.expand_dims,
        (real,),
        (
            (((),), {"axis": 0}),
            (((3,),), {"axis": 1}),
            (((2, 3),), {"axis": -1}),
            (((2, 3),), {"axis": (0, 2)}),
            (((2, 3),), {"axis": (-1, 0)}),
            (((0,),), {"axis": 0}),
        ),
    ),
    Row(
        "broadcast_to",
        lambda x, shape: np.broadcast_to(x, shape),
        (real,),
        (
            (((),), {"shape": (2, 3)}),
            (((),), {"shape": ()}),
            (((3,),), {"shape": (2, 3)}),
            (((3,),), {"shape": 3}),
            (((2, 1),), {"shape": (2, 3)}),
            (((2, 1, 1),), {"shape": (4, 2, 1, 3)}),
            (((1,),), {"shape": (0,)}),
            (((0, 1),), {"shape": (2, 0, 3)}),
        ),
        call=lambda x, shape: hg.broadcast_to(x, shape),
    ),
    Row(
        "concatenate",
        lambda *xs, axis=0: np.concatenate(xs, axis=axis),
        (real, real),
        (
            ((2,), (3,)),
            ((0,), (3,)),
            (((2, 3), (4, 3)), {"axis": 0}),
            (((2, 3), (2, 1)), {"axis": -1}),
            (((2, 3), (2, 0)), {"axis": 1}),
            (((2, 3), (4,)), {"axis": None}),
            (((), (4,)), {"axis": None}),
        ),
        call=lambda *xs, axis=0: hg.concatenate(xs, axis=axis),
        mixes=True,
    ),
    Row(
        "concatenate",
        lambda *xs: np.concatenate(xs),
        (real,) * 4,
        (((2,), (1,), (0,), (3,)), ((2, 2),) * 4),
        call=lambda *xs: hg.concatenate(list(xs)),
        label="of four",
    ),
    Row(
        "concatenate",
        lambda x: np.concatenate([x]),
        (real,),
        (((3,),), ((2, 3),)),
        call=lambda x: hg.concatenate((x,)),
        label="of one",
    ),
    Row(
        "stack",
        lambda *xs, axis=0: np.stack(xs, axis=axis),
        (real, real),
        (
            ((), ()),
            ((3,), (3,)),
            (((2, 3), (2, 3)), {"axis": 1}),
            (((2, 3), (2, 3)), {"axis": -1}),
            (((2, 3), (2, 3)), {"axis": -3}),
            (((0,), (0,)), {"axis": 1}),
        ),
        call=lambda *xs, axis=0: hg.stack(xs, axis=axis),
        mixes=True,
    ),
    Row(
        "stack",
        lambda *xs: np.stack(xs),
        (real,) * 3,
        (((2,), (2,), (2,)),),
        call=lambda *xs: hg.stack(list(xs)),
        label="of three",
    ),
    Row("Tensor.__getitem__", lambda x, index: x[index], (real,), INDEXED, call=lambda x, index: x[index]),
    # Networks.
    *[
        Row(
            name,
            numpy_softmax if name.endswith(".softmax") or name == "softmax" else numpy_log_softmax,
            (real,),
            (
                ((4,),),
                ((2, 3),),
                (((2, 3),), {"axis": 0}),
                (((2, 3, 4),), {"axis": 1}),
                (((2, 3, 4),), {"axis": -1}),
                (((1,),), {}),
                (((0, 3),), {}),
                (((3, 0),), {}),
            ),
            inexact=NO_SUCH_FUNCTION,
        )
        for name in ("softmax", "nn.functional.softmax", "nn.functional.log_softmax")
    ],
    Row(
        "nn.functional.cross_entropy",
        numpy_cross_entropy,
        (real,),
        (
            (((4, 3),), {"labels": np.array([0, 2, 2, 1])}),
            (((4, 3),), {"labels": np.array([1, 1, 0, 1], dtype=np.uint8)}),
            (((2, 3),), {"labels": [2, 0]}),
            (((1, 5),), {"labels": np.array([4])}),
            (((3, 1),), {"labels": np.array([0, 0, 0])}),
        ),
        inexact=NO_SUCH_FUNCTION,
    ),
    Row(
        "nn.functional.mse_loss",
        lambda p, t: np.mean((p - t) ** 2),
        (real, real),
        (((), ()), ((3,), (3,)), ((2, 3), (2, 3))),
        mixes=True,
    ),
]

_BY_NAME = {str(row): row for row in ROWS}
ROWS += [replace(_BY_NAME[name], name=f"nn.functional.{name}") for name in ("relu", "sigmoid", "tanh")] + [
    replace(_BY_NAME["absolute"], name="abs")
]

EXAMPLES = [example for row in ROWS for example in row.examples]


# Functions without a derivative: they give data, and record nothing. --------------------------------------------------

DATA_ROWS = [
    *[
        Row(name, getattr(np, name), (on_grid, on_grid), TWO, mixes=True)
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    ],
    Row("floor_divide", np.floor_divide, (on_grid, off_grid), TWO, mixes=True),
    *[
        Row(
            name,
            getattr(np, name),
            (lambda rng, shape: on_grid(rng, shape) * (rng.random(shape) > 0.6),),
            REDUCED + REDUCED_TO_NEUTRAL,
        )
        for name in ("any", "all")
    ],
]

#: Public callables that compute nothing from float tensors: they make them, differentiate, or are for integers alone.
NOT_OPERATIONS = {
    "arange",
    "asarray",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "enable_grad",
    "eye",
    "from_numpy",
    "full",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "ones",
    "ones_like",
    "set_grad_enabled",
    "tensor",
    "to_tensor",
    "zeros",
    "zeros_like",
}
