"""Property: the kernels give NumPy's own results, bit for bit, for any shape, memory layout, axes and dtype."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

import hookgrad as hg

# Deterministic, so that a run says the same as the last; raise max_examples to look for more.
searched = settings(max_examples=50, deadline=None, derandomize=True)

DTYPES = st.sampled_from([np.float32, np.float64])
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38])

# Lengths beside the corners of loops: SIMD widths, unrolling by 8, blocks of 128 in pairwise sums.
LENGTHS = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 33])

UNARY = "negative absolute exp log log1p expm1 sqrt square reciprocal sin cos tanh".split()
BINARY = "add subtract multiply divide power maximum minimum".split()


def same_bits(found, expected):
    """Equal values, equal signs of zeros, NaN where NaN (of any payload)."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def quiet(function, *args, **kwargs):
    with np.errstate(all="ignore"):
        return function(*args, **kwargs)


@st.composite
def laid_out(draw, shape, dtype, special=True, positive=False):
    """An array of a shape, as a view with permuted axes and with steps of any sign and size, zero included."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 1, 2, 3, -1, -2, 0])) for _ in shape]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = [1 if steps[axis] == 0 else shape[axis] * abs(steps[axis]) for axis in order]
    values = rng.normal(size=lengths)
    if positive:
        values = np.abs(values) + 0.1
    if special and draw(st.booleans()):
        values = np.where(rng.random(lengths) < 0.2, rng.choice(SPECIAL, size=lengths), values)
    values = quiet(values.astype, dtype)
    view = values.transpose(np.argsort(order)) if len(shape) else values
    view = view[tuple(slice(None) if step == 0 else slice(None, None, step) for step in steps)]
    return np.broadcast_to(view, shape)


@st.composite
def arrays(draw, min_dims=0, **kwargs):
    shape = tuple(draw(st.lists(LENGTHS, min_size=min_dims, max_size=3)))
    assume(np.prod(shape) < 20_000)
    return draw(laid_out(shape, draw(DTYPES), **kwargs))


@st.composite
def operands(draw, **kwargs):
    """Two arrays that broadcast."""
    dtype = draw(DTYPES)
    shapes = draw(mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=4, min_side=0, max_side=9))
    return [draw(laid_out(shape, dtype, **kwargs)) for shape in shapes.input_shapes]


@pytest.mark.parametrize("name", UNARY)
@searched
@given(a=arrays())
def test_one_operand(name, a):
    expected = quiet(getattr(np, name), a)
    same_bits(getattr(hg, name)(hg.asarray(a)).numpy(), expected)


@pytest.mark.parametrize("name", BINARY)
@searched
@given(pair=operands())
def test_two_operands(name, pair):
    expected = quiet(getattr(np, name), *pair)
    same_bits(getattr(hg, name)(*map(hg.asarray, pair)).numpy(), expected)


@pytest.mark.parametrize("name", [name for name in BINARY if name != "power"])
@searched
@given(a=arrays(), number=st.one_of(st.integers(-5, 5), st.floats(width=32, allow_nan=False)), left=st.booleans())
def test_a_number_and_an_array(name, a, number, left):
    given_to = (number, a) if left else (a, number)
    expected = quiet(getattr(np, name), *given_to)
    tensors = (number, hg.asarray(a)) if left else (hg.asarray(a), number)
    same_bits(getattr(hg, name)(*tensors).numpy(), expected)


@searched
@given(a=arrays(), exponent=st.sampled_from([-1, 0, 0.5, 1, 2, 3, -2, 2.0, -1.0, 1.5]))
def test_power_operator(a, exponent):
    """``**`` has NumPy's short cuts for some numbers, and its results."""
    if a.ndim == 0:
        a = a[None]  # of NumPy's scalars the power is Python's business
    same_bits((hg.asarray(a) ** exponent).numpy(), quiet(lambda: a**exponent))


@st.composite
def reductions(draw):
    a = draw(arrays(special=False))
    axes = draw(st.none() | st.sets(st.integers(-a.ndim, a.ndim - 1)).map(tuple)) if a.ndim else None
    if axes is not None:
        assume(len({axis % a.ndim for axis in axes}) == len(axes))
    return a, axes, draw(st.booleans())


def noise(size, dtype):
    """Numbers around 1, whose sums and products depend on the order."""
    return np.random.default_rng(size).normal(1, 0.1, size).astype(dtype)


def same_reduction(name, found, expected, a):
    """Equal bits; but before 2.3 NumPy cut sums and products of many elements into pieces of 8192."""
    if name in ("max", "min") or a.size <= 8192 or np.lib.NumpyVersion(np.__version__) >= "2.3.0":
        same_bits(found, expected)
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5 if a.dtype == np.float32 else 1e-13, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean"])
@searched
@given(drawn=reductions())
@example(drawn=(noise(1000, np.float32).reshape(1000, 1), (0,), False))
@example(drawn=(noise(1000, np.float32).reshape(1, 1000, 1), (1, 2), True))
@example(drawn=(noise(5000, np.float32).reshape(50, 100), None, False))
@example(drawn=(noise(5000, np.float32).reshape(50, 100).T, (0,), False))
@example(drawn=(noise(5000, np.float32).reshape(50, 100).T, None, False))
@example(drawn=(noise(40_000, np.float32).reshape(200, 200), (1,), False))
@example(drawn=(noise(40_000, np.float32).reshape(200, 200), (0,), True))
@example(drawn=(noise(40_000, np.float64).reshape(10, 200, 20), (0, 1), False))
@example(drawn=(noise(40_000, np.float64).reshape(10, 200, 20), (0, 2), False))
def test_reductions(name, drawn):
    a, axes, keepdims = drawn
    count = a.size if axes is None else int(np.prod([a.shape[axis] for axis in axes]))
    assume(count > 0 or name in ("sum", "prod"))
    expected = np.asarray(quiet(getattr(np, name), a, axis=axes, keepdims=keepdims))
    same_reduction(name, getattr(hg, name)(hg.asarray(a), axis=axes, keepdims=keepdims).numpy(), expected, a)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@searched
@given(a=arrays(min_dims=1), data=st.data())
def test_reductions_of_special_values(name, a, data):
    axis = data.draw(st.integers(0, a.ndim - 1))
    assume(a.shape[axis] > 0)
    expected = np.asarray(quiet(getattr(np, name), a, axis=axis))
    same_bits(getattr(hg, name)(hg.asarray(a), axis=axis).numpy(), expected)


@searched
@given(a=arrays(min_dims=1), data=st.data())
def test_cumsum(a, data):
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1))
    same_bits(hg.cumsum(hg.asarray(a), axis).numpy(), quiet(np.cumsum, a, axis))


@st.composite
def factors(draw, contiguous=False):
    """Two matrices, or stacks of them that broadcast, that can be multiplied."""
    dtype = draw(DTYPES)
    m, k, n = (draw(st.sampled_from([0, 1, 2, 3, 5, 8, 12, 17])) for _ in range(3))
    stacks = draw(mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=2, min_side=1, max_side=3))
    left, right = stacks.input_shapes if draw(st.integers(0, 3)) == 0 else ((), ())
    a = draw(laid_out((*left, m, k), dtype, special=False))
    b = draw(laid_out((*right, k, n), dtype, special=False))
    return (a.copy(), b.copy()) if contiguous else (a, b)


def same_bits_as_a_product(found, a, b):
    """As NumPy's own product, of the operands or of copies of them.

    NumPy leaves BLAS for a plain loop where an operand's strides do not suit BLAS; hookgrad copies a large one instead.
    """
    products = [np.matmul(x, y) for x in (a, a.copy()) for y in (b, b.copy())]
    if not any(np.array_equal(found, product) for product in products):
        same_bits(found, products[0])
    assert (found.shape, found.dtype) == (products[0].shape, products[0].dtype)


@settings(searched, max_examples=200)
@given(pair=factors())
def test_matmul(pair):
    same_bits_as_a_product(hg.matmul(*map(hg.asarray, pair)).numpy(), *pair)


@searched
@given(pair=factors())
def test_matmul_of_transposes(pair):
    a, b = pair
    found = hg.asarray(b).mT @ hg.asarray(a).mT
    same_bits_as_a_product(found.numpy(), np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2))


@searched
@given(pair=factors(contiguous=True), flips=st.tuples(st.booleans(), st.booleans()))
def test_matmul_needs_no_copy_of_a_transpose(pair, flips):
    a, b = [x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if f else x for x, f in zip(pair, flips, strict=True)]
    same_bits((hg.asarray(a) @ hg.asarray(b)).numpy(), np.matmul(a, b))


@searched
@given(a=st.integers(1, 20), b=st.integers(1, 20), dtype=DTYPES, seed=st.integers(0, 1000))
def test_matmul_with_its_own_transpose(a, b, dtype, seed):
    """NumPy has BLAS compute one half alone."""
    x = np.random.default_rng(seed).normal(size=(a, b)).astype(dtype)
    t = hg.asarray(x)
    same_bits((t @ t.T).numpy(), x @ x.T)
    same_bits((t.T @ t).numpy(), x.T @ x)


IN_PLACE = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def change(t, sign, other):
    if sign == "+":
        t += other
    elif sign == "-":
        t -= other
    elif sign == "*":
        t *= other
    else:
        t /= other


@pytest.mark.parametrize("sign", IN_PLACE)
@searched
@given(data=st.data(), dtype=DTYPES)
def test_in_place_with_any_overlap(sign, data, dtype):
    """Both sides may be views of one buffer: NumPy's result is that of a copy of the right side."""
    base = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=40).astype(dtype)
    length = data.draw(st.integers(1, 12))
    parts = []
    for _ in range(2):
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        start = data.draw(st.integers(0, 39 - abs(step) * (length - 1)))
        indices = range(start, start + abs(step) * length, abs(step))
        indices = indices if step > 0 else indices[::-1]
        stop = indices[-1] + step
        parts.append(slice(indices[0], None if stop < 0 else stop, step))
    ours, theirs = base.copy(), base.copy()
    t = hg.from_numpy(ours)
    change(t[parts[0]], sign, t[parts[1]])
    IN_PLACE[sign](theirs[parts[0]], theirs[parts[1]], out=theirs[parts[0]])
    same_bits(ours, theirs)


@pytest.mark.parametrize("sign", IN_PLACE)
@searched
@given(shape=array_shapes(min_dims=0, max_dims=3, max_side=5), dtype=DTYPES, data=st.data())
def test_in_place_broadcasts_the_right_side_alone(sign, shape, dtype, data):
    other_shape = tuple(n if data.draw(st.booleans()) else 1 for n in shape)[data.draw(st.integers(0, len(shape))) :]
    other = data.draw(laid_out(other_shape, dtype, special=False))
    ours = np.asfortranarray(np.random.default_rng(0).normal(size=shape).astype(dtype))
    theirs = ours.copy(order="K")
    t = hg.from_numpy(ours)
    change(t, sign, hg.asarray(other))
    quiet(IN_PLACE[sign], theirs, other, out=theirs)
    same_bits(ours, theirs)


@pytest.mark.parametrize("size", [16_383, 16_384, 16_385, 100_003])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arrays(size, dtype):
    """From a certain size on loops release the GIL, and pairwise sums have many blocks."""
    a = np.random.default_rng(size).normal(size=size).astype(dtype)
    b = np.random.default_rng(size + 1).normal(size=size).astype(dtype)
    x, y = hg.asarray(a), hg.asarray(b)
    same_bits((x * y + x).numpy(), a * b + a)
    same_bits(hg.exp(x).numpy(), np.exp(a))
    same_bits(hg.exp(x[::-2]).numpy(), np.exp(a[::-2]))
    same_bits(hg.add(x[::2], y[::-2]).numpy(), np.add(a[::2], b[::-2]))
    same_bits(hg.max(x).numpy(), np.asarray(np.max(a)))
    for name in ("sum", "mean"):
        same_reduction(name, getattr(hg, name)(x).numpy(), np.asarray(getattr(np, name)(a)), a)
