"""Points where a derivative does not exist, or a formula breaks down: the field's conventions, and exact limits.

Expected values are written out, or come from a definition in NumPy; the last tests compare with PyTorch.
"""

import array
import itertools
import warnings

import numpy as np
import pytest

import hookgrad as hg

F = hg.nn.functional


def gradient(function, values, dtype=np.float64, weights=None):
    """The gradient of sum(weights * function(x)), checked to be the same recorded and not."""
    found = []
    for create_graph in (False, True):
        x = hg.tensor(np.array(values, dtype), requires_grad=True)
        y = function(x)
        c = np.ones(y.shape, dtype) if weights is None else np.array(weights, dtype)
        (g,) = hg.grad(y, x, grad_outputs=hg.tensor(c), create_graph=create_graph)
        assert (g.dtype, g.shape) == (x.dtype, x.shape)
        found.append(g.numpy())
    np.testing.assert_array_equal(*found)
    return found[0]


def hessian(function, values):
    """The matrix of second derivatives of a function with one value, in the elements of one array."""
    x = hg.tensor(np.array(values, np.float64), requires_grad=True)
    (g,) = hg.grad(function(x), x, create_graph=True)
    rows = []
    for k in range(x.size):
        if not g.requires_grad:
            rows.append(np.zeros(x.size))
            continue
        (row,) = hg.grad(g.reshape(-1)[k], x, retain_graph=True, allow_unused=True)
        rows.append(np.zeros(x.size) if row is None else row.numpy().reshape(-1))
    return np.array(rows)


both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


# Ties -----------------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("sign", [1, -1])
def test_max_and_min_share_a_tie_equally(sign, dtype):
    extremum = hg.max if sign == 1 else hg.min
    for values, expected in (
        ([3.0, 1.0, 3.0], [0.5, 0.0, 0.5]),
        ([2.0, 2.0, 2.0, 2.0], [0.25] * 4),
        ([1.0, 5.0, 2.0], [0.0, 1.0, 0.0]),
        ([0.0, -0.0], [0.5, 0.5]),
        ([np.inf, 1.0, np.inf], [0.5, 0.0, 0.5]),
    ):
        values = sign * np.array(values)
        assert gradient(extremum, values, dtype).tolist() == expected
    table = sign * np.array([[1.0, 4.0, 4.0], [4.0, 0.0, 4.0]])
    assert gradient(extremum, table, dtype).tolist() == [[0, 0.25, 0.25], [0.25, 0, 0.25]]
    assert gradient(lambda x: extremum(x, axis=0), table, dtype).tolist() == [[0, 1, 0.5], [1, 0, 0.5]]
    by_rows = gradient(lambda x: extremum(x, axis=1, keepdims=True), table, dtype, [[2.0], [8.0]])
    assert by_rows.tolist() == [[0, 1, 1], [4, 0, 4]]
    assert not hessian(extremum, table).any()


@both
def test_max_of_a_repeated_view_shares_too(dtype):
    """A zero-stride view: every element is the extremum."""
    assert gradient(lambda x: hg.max(hg.broadcast_to(x, (4, 1))), [7.0], dtype).tolist() == [1.0]
    assert gradient(lambda x: hg.max(hg.broadcast_to(x, (3, 2)), axis=1), [7.0, 2.0], dtype).tolist() == [3.0, 0.0]


@both
def test_max_and_min_with_nan(dtype):
    """The result is NaN, and the elements that made it so share the gradient."""
    for extremum in (hg.max, hg.min):
        values = np.array([1.0, np.nan, 9.0, np.nan], dtype)
        assert np.isnan(extremum(hg.tensor(values)).item())
        assert gradient(extremum, values, dtype).tolist() == [0.0, 0.5, 0.0, 0.5]
        rows = [[1.0, 2.0], [np.nan, 3.0]]
        found = gradient(lambda x: extremum(x, axis=1), rows, dtype)  # noqa: B023
        assert found[1].tolist() == [1.0, 0.0]
        assert sorted(found[0].tolist()) == [0.0, 1.0]


@both
def test_maximum_and_minimum_halve_a_tie(dtype):
    for pick in (hg.maximum, hg.minimum):
        for a, b in itertools.product((hg.tensor, hg.asarray), repeat=2):
            x = a(np.array([1.0, 2.0, 3.0], dtype))
            y = b(np.array([3.0, 2.0, 1.0], dtype))
            x.requires_grad = y.requires_grad = True
            pick(x, y).backward(np.array([4.0, 4.0, 4.0], dtype))
            assert (x.grad + y.grad).tolist() == [4.0, 4.0, 4.0]
            assert x.grad.tolist() == ([0.0, 2.0, 4.0] if pick is hg.maximum else [4.0, 2.0, 0.0])
        assert gradient(lambda x: pick(x, x), [1.0, 2.0], dtype).tolist() == [1.0, 1.0]  # noqa: B023
        assert gradient(lambda x: pick(x, 0.0), [0.0, -0.0], dtype).tolist() == [0.5, 0.5]  # noqa: B023
        assert gradient(lambda x: pick(0.0, x), [0.0], dtype).tolist() == [0.5]  # noqa: B023
    assert gradient(lambda x: hg.maximum(x, 0.0), [-1.0, 0.0, 2.0], dtype).tolist() == [0.0, 0.5, 1.0]


@both
def test_a_broadcast_tie_is_summed(dtype):
    x = hg.tensor(np.array([1.0, 2.0, 3.0], dtype), requires_grad=True)
    y = hg.tensor(np.array(2.0, dtype), requires_grad=True)
    hg.maximum(x, y).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5, 1.0]
    assert y.grad.tolist() == 1.5


# Kinks ----------------------------------------------------------------------------------------------------------------


@both
def test_relu_at_zero(dtype):
    for relu in (hg.relu, F.relu, hg.Tensor.relu):
        assert gradient(relu, [-1.0, -0.0, 0.0, 1e-30, 2.0], dtype).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert not hessian(lambda x: hg.relu(x).sum(), [-1.0, 0.0, 2.0]).any()
    assert np.isnan(hg.relu(hg.tensor(np.array(np.nan, dtype))).item())


@both
def test_absolute_at_zero(dtype):
    for absolute in (hg.absolute, hg.abs, abs):
        assert gradient(absolute, [-2.0, -0.0, 0.0, 3.0], dtype).tolist() == [-1.0, 0.0, 0.0, 1.0]
    assert not hessian(lambda x: hg.abs(x).sum(), [-1.0, 0.0, 2.0]).any()


@both
def test_clip_passes_the_gradient_on_its_bounds(dtype):
    values = [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert gradient(lambda x: hg.clip(x, -1, 1), values, dtype).tolist() == [0, 1, 1, 1, 0]
    assert gradient(lambda x: hg.clip(x, -1.0), values, dtype).tolist() == [0, 1, 1, 1, 1]
    assert gradient(lambda x: hg.clip(x, max=1.0), values, dtype).tolist() == [1, 1, 1, 1, 0]
    assert gradient(lambda x: hg.clip(x), values, dtype).tolist() == [1] * 5
    x = hg.tensor(np.array(values, dtype), requires_grad=True)
    low = hg.tensor(np.array(-1.0, dtype), requires_grad=True)
    high = hg.tensor(np.array(1.0, dtype), requires_grad=True)
    hg.clip(x, low, high).backward(np.array([1.0, 10.0, 100.0, 1000.0, 10000.0]))
    assert x.grad.tolist() == [0.0, 10.0, 100.0, 1000.0, 0.0]
    assert (low.grad.item(), high.grad.item()) == (1.0, 10000.0)


def test_clip_with_bounds_that_cross():
    """The upper bound wins, as in NumPy, and takes the gradient."""
    x = hg.tensor([0.0, 5.0], requires_grad=True)
    low = hg.tensor(3.0, requires_grad=True)
    high = hg.tensor(1.0, requires_grad=True)
    y = hg.clip(x, low, high)
    assert y.tolist() == np.clip([0.0, 5.0], 3.0, 1.0).tolist()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert (low.grad.item(), high.grad.item()) == (0.0, 2.0)


# Products with zeros --------------------------------------------------------------------------------------------------


def products_of_others(values, left_out):
    """The derivative of the product in the elements at some places: the product of the rest, 0 for a place twice."""
    if len(set(left_out)) < len(left_out):
        return 0.0
    return float(np.prod([v for k, v in enumerate(values) if k not in left_out]))


@pytest.mark.parametrize(
    "values",
    [
        [2.0, -3.0, 5.0, 0.5],
        [2.0, 0.0, 5.0, 0.5],
        [0.0, 2.0, 5.0, 0.0],
        [0.0, 0.0, 0.0, 7.0],
        [0.0, 0.0, 0.0, 0.0],
        [0.0, -0.0, 3.0, 1.0],
        [0.0],
        [3.0],
    ],
)
def test_prod_with_zeros_to_third_order(values):
    n = range(len(values))
    first = [products_of_others(values, [i]) for i in n]
    second = [[products_of_others(values, [i, j]) for j in n] for i in n]
    for dtype in (np.float32, np.float64):
        np.testing.assert_allclose(gradient(hg.prod, values, dtype), first, rtol=1e-6)
    np.testing.assert_allclose(hessian(hg.prod, values), second, rtol=1e-14)
    third = [[[products_of_others(values, [i, j, k]) for k in n] for j in n] for i in n]
    x = hg.tensor(np.array(values), requires_grad=True)
    (g,) = hg.grad(hg.prod(x), x, create_graph=True)
    for i in n:
        (h,) = hg.grad(g[i], x, create_graph=True, allow_unused=True) if g.requires_grad else (None,)
        for j in n:
            found = None
            if h is not None and h.requires_grad:
                (found,) = hg.grad(h[j], x, retain_graph=True, allow_unused=True)
            found = np.zeros(len(values)) if found is None else found.numpy()
            np.testing.assert_allclose(found, third[i][j], rtol=1e-14, atol=1e-13)


def test_prod_with_zeros_along_axes():
    a = np.array([[[2.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [5.0, 6.0]], [[1.0, 2.0], [0.0, 3.0]]])
    for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), -1):
        axes = tuple(range(3)) if axis is None else tuple(k % 3 for k in np.atleast_1d(axis))
        expected = np.empty_like(a)
        for index in np.ndindex(a.shape):
            others = a.copy()
            others[index] = 1.0
            line = tuple(slice(None) if k in axes else index[k] for k in range(3))
            expected[index] = np.prod(others[line])
        for keepdims in (False, True):
            found = gradient(lambda x: hg.prod(x, axis=axis, keepdims=keepdims), a)  # noqa: B023
            np.testing.assert_array_equal(found, expected)


# Where ----------------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_where_keeps_infinite_gradients_out_of_the_branch_not_taken(bad, dtype):
    condition = np.array([[True, False, True], [False, False, True]])
    weights = np.where(condition, bad, 1.0)
    for create_graph in (False, True):
        x = hg.tensor(np.ones((2, 3), dtype), requires_grad=True)
        y = hg.tensor(np.array(2.0, dtype), requires_grad=True)
        z = hg.where(condition, x, y)
        gx, gy = hg.grad(z, [x, y], grad_outputs=hg.tensor(weights.astype(dtype)), create_graph=create_graph)
        np.testing.assert_array_equal(gx.numpy(), np.where(condition, bad, 0.0))
        assert gy.item() == 3.0
        gx, gy = hg.grad(
            hg.where(condition, y, x), [x, y], grad_outputs=hg.tensor(np.ones((2, 3), dtype)), create_graph=create_graph
        )
        np.testing.assert_array_equal(gx.numpy(), np.where(condition, 0.0, 1.0))
        assert gy.item() == 3.0


def test_the_double_where_gives_a_safe_logarithm():
    def safe_log(x):
        positive = x > 0
        return hg.where(positive, hg.log(hg.where(positive, x, 1.0)), 0.0)

    assert gradient(safe_log, [0.0, -1.0, 2.0]).tolist() == [0.0, 0.0, 0.5]
    np.testing.assert_array_equal(hessian(lambda x: safe_log(x).sum(), [0.0, 2.0]), [[0.0, 0.0], [0.0, -0.25]])


# Standard deviation ---------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [5.0], [0.1, 0.1]])
def test_std_of_a_constant(values, dtype):
    constant = np.array(values, dtype)
    assert hg.std(hg.tensor(constant)).item() == 0.0
    assert not gradient(hg.std, constant, dtype).any()
    assert not gradient(hg.var, constant, dtype).any()
    assert np.isfinite(hessian(hg.std, constant)).all()


def test_std_of_some_constant_rows():
    rows = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 6.0]])
    found = gradient(lambda x: hg.std(x, axis=1), rows)
    assert not found[0].any()
    deviation = rows[1] - rows[1].mean()
    np.testing.assert_allclose(found[1], deviation / (3 * rows[1].std()), rtol=1e-14)
    assert not gradient(lambda x: hg.std(x, axis=()), rows).any()


def test_var_and_std_with_no_degree_of_freedom_left():
    """NumPy's nan, or inf, and no error."""
    for function, numpy in ((hg.var, np.var), (hg.std, np.std)):
        for values in ([5.0], [5.0, 7.0]):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's own
                expected = numpy(np.array(values), ddof=2)
            np.testing.assert_array_equal(function(hg.tensor(np.array(values)), ddof=2).numpy(), expected)


def test_deviations_from_the_mean_have_no_gradient_in_sum():
    for dtype in (np.float32, np.float64):
        found = gradient(lambda x: x - hg.mean(x), [1.0, 2.0, 4.0, 9.0], dtype)
        np.testing.assert_allclose(found, np.zeros(4), atol=1e-7)


# Powers ---------------------------------------------------------------------------------------------------------------


def power_gradients(base, exponent, create_graph=False):
    x = hg.tensor(np.array(base), requires_grad=True)
    y = hg.tensor(np.array(exponent), requires_grad=True)
    z = x**y
    gx, gy = hg.grad(z, [x, y], create_graph=create_graph)
    return z.item(), gx, gy


@pytest.mark.parametrize(
    ("base", "exponent", "value", "in_base", "in_exponent"),
    [
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0, 0.0),
        (0.0, 3.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, 0.0, np.inf, 0.0),
        (0.0, 1.5, 0.0, 0.0, 0.0),
        (-0.0, 2.0, 0.0, 0.0, 0.0),
        (2.0, 0.0, 1.0, 0.0, np.log(2.0)),
        (-2.0, 2.0, 4.0, -4.0, np.nan),
        (-2.0, 0.0, 1.0, 0.0, np.nan),
        (-2.0, -1.0, -0.5, -0.25, np.nan),
        (1.0, 5.0, 1.0, 5.0, 0.0),
    ],
)
def test_power(base, exponent, value, in_base, in_exponent):
    for create_graph in (False, True):
        found = power_gradients(base, exponent, create_graph)
        np.testing.assert_allclose(
            [found[0], found[1].item(), found[2].item()], [value, in_base, in_exponent], rtol=1e-15
        )
    if exponent == int(exponent):
        for number in (exponent, int(exponent)):
            assert gradient(lambda x: x**number, base).item() == in_base  # noqa: B023
    if base >= 0:
        np.testing.assert_allclose(gradient(lambda y: base**y, exponent).item(), in_exponent, rtol=1e-15)


@pytest.mark.parametrize(
    ("exponent", "second"), [(0.0, 0.0), (1.0, 0.0), (2.0, 2.0), (3.0, 0.0), (4.0, 0.0), (2.5, 0.0)]
)
def test_second_derivative_of_a_power_at_zero(exponent, second):
    for form in (lambda x: x**exponent, lambda x: x ** hg.tensor(np.array(exponent))):
        np.testing.assert_array_equal(hessian(form, 0.0), [[second]])
    if exponent == int(exponent):
        np.testing.assert_array_equal(hessian(lambda x: x ** int(exponent), 0.0), [[second]])


@pytest.mark.parametrize(
    ("base", "exponent"),
    [(2.0, 0.0), (2.0, 1.0), (2.0, 2.0), (3.0, -1.0), (0.5, 0.0), (0.0, 2.0), (0.0, 3.0), (0.0, 2.5)],
)
def test_second_derivatives_of_a_power_in_both_operands(base, exponent):
    base, exponent = float(base), float(exponent)
    if base:
        log, rest = np.log(base), base ** (exponent - 1)
        mixed = rest * (1 + exponent * log)
        expected = [[exponent * (exponent - 1) * base ** (exponent - 2), mixed], [mixed, base**exponent * log**2]]
    else:
        expected = [[2.0 if exponent == 2 else 0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(hessian(lambda x: x[0] ** x[1], [base, exponent]), expected, rtol=1e-14, atol=1e-14)


def test_poles():
    """Infinite where the limit is."""
    assert gradient(hg.sqrt, [0.0]).tolist() == [np.inf]
    assert gradient(hg.log, [0.0]).tolist() == [np.inf]
    assert gradient(hg.log1p, [-1.0]).tolist() == [np.inf]
    assert gradient(hg.reciprocal, [0.0]).tolist() == [-np.inf]
    assert gradient(lambda x: 1.0 / x, [0.0]).tolist() == [-np.inf]
    assert gradient(lambda x: x / 0.0, [1.0]).tolist() == [np.inf]


# Exponentials ---------------------------------------------------------------------------------------------------------


@both
def test_saturation(dtype):
    ends = [-1e4, -800.0, 800.0, 1e4]
    for function, values in ((hg.sigmoid, [0, 0, 1, 1]), (hg.tanh, [-1, -1, 1, 1])):
        assert function(hg.tensor(np.array(ends, dtype))).tolist() == values
        assert not gradient(function, ends, dtype).any()
        assert not hessian(lambda x: function(x).sum(), ends).any()  # noqa: B023


def test_small_numbers_keep_their_digits():
    tiny = np.array([1e-12, -1e-12])
    np.testing.assert_array_equal(hg.log1p(hg.tensor(tiny)).numpy(), np.log1p(tiny))
    np.testing.assert_array_equal(hg.expm1(hg.tensor(tiny)).numpy(), np.expm1(tiny))
    np.testing.assert_allclose(gradient(hg.log1p, tiny), 1 / (1 + tiny), rtol=1e-15)
    np.testing.assert_allclose(gradient(hg.expm1, tiny), np.exp(tiny), rtol=1e-15)


@both
def test_logsumexp_of_large_and_infinite_values(dtype):
    big = 10_000.0
    x = hg.tensor(np.array([big, big], dtype))
    np.testing.assert_allclose(hg.logsumexp(x).item(), big + np.log(2), rtol=1e-7)
    rounding = big * np.finfo(dtype).eps  # of the sum, whose exponential is taken
    np.testing.assert_allclose(gradient(hg.logsumexp, [big, big], dtype), [0.5, 0.5], rtol=rounding)
    np.testing.assert_allclose(gradient(hg.logsumexp, [-big, -big], dtype), [0.5, 0.5], rtol=rounding)
    assert gradient(hg.logsumexp, [-np.inf, 0.0, -np.inf], dtype).tolist() == [0.0, 1.0, 0.0]
    assert np.isfinite(hessian(hg.logsumexp, [-np.inf, 0.0, 1.0])).all()


@both
def test_logsumexp_of_nothing_but_minus_infinity(dtype):
    lost = np.full((2, 2), -np.inf)
    lost[1] = [0.0, 0.0]
    assert hg.logsumexp(hg.tensor(lost.astype(dtype)), axis=1)[0].item() == -np.inf
    assert gradient(lambda x: hg.logsumexp(x, axis=1), lost, dtype).tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert gradient(hg.logsumexp, [-np.inf, -np.inf], dtype).tolist() == [0.0, 0.0]


@both
def test_logsumexp_with_infinity(dtype):
    """The finite elements have no part in an infinite result."""
    assert hg.logsumexp(hg.tensor(np.array([np.inf, 0.0], dtype))).item() == np.inf
    assert gradient(hg.logsumexp, [np.inf, 0.0, 5.0], dtype)[1:].tolist() == [0.0, 0.0]


@both
def test_softmax_of_large_and_infinite_values(dtype):
    for values, expected in (
        ([1e4, 1e4], [0.5, 0.5]),
        ([-1e4, -1e4], [0.5, 0.5]),
        ([1e4, 0.0], [1.0, 0.0]),
        ([0.0, -np.inf], [1.0, 0.0]),
    ):
        x = np.array(values, dtype)
        assert F.softmax(hg.tensor(x)).tolist() == expected
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(np.exp(F.log_softmax(hg.tensor(x)).numpy()), expected, atol=1e-30)
        for function in (F.softmax, F.log_softmax):
            found = gradient(lambda x: function(x)[0], values, dtype)  # noqa: B023
            p = np.array(expected)
            scale = p[0] if function is F.softmax else 1.0
            np.testing.assert_allclose(found, scale * (np.array([1.0, 0.0]) - p), atol=1e-30)


@both
def test_cross_entropy_of_large_logits(dtype):
    logits = np.array([[1e4, 0.0, -1e4], [0.0, 1e4, 0.0], [-1e4, -1e4, -1e4]], dtype)
    loss = F.cross_entropy(hg.tensor(logits), [0, 0, 2])
    np.testing.assert_allclose(loss.item(), (0.0 + 1e4 + np.log(3)) / 3, rtol=1e-6)
    expected = np.array([[0.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [1 / 3, 1 / 3, -2 / 3]]) / 3
    found = gradient_of_cross_entropy(logits, [0, 0, 2])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-30)


def gradient_of_cross_entropy(logits, labels):
    found = []
    for create_graph in (False, True):
        x = hg.tensor(logits, requires_grad=True)
        found.append(hg.grad(F.cross_entropy(x, labels), x, create_graph=create_graph)[0].numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-30)
    return found[0]


@both
def test_cross_entropy_of_a_class_that_is_ruled_out(dtype):
    logits = np.array([[0.0, -np.inf, 0.0]], dtype)
    assert F.cross_entropy(hg.tensor(logits), [1]).item() == np.inf
    np.testing.assert_allclose(F.cross_entropy(hg.tensor(logits), [0]).item(), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient_of_cross_entropy(logits, [0]), [[-0.5, 0.0, 0.5]], rtol=1e-6)


# Indexing -------------------------------------------------------------------------------------------------------------


def test_repeated_indices_add_up():
    assert gradient(lambda x: x[[0, 0, 1]], [1.0, 2.0, 3.0], weights=[1.0, 10.0, 100.0]).tolist() == [11.0, 100.0, 0.0]
    assert gradient(lambda x: x[np.array([2, -1])], [1.0, 2.0, 3.0]).tolist() == [0.0, 0.0, 2.0]
    rows = gradient(lambda x: x[[1, 1], [0, 0]], [[1.0, 2.0], [3.0, 4.0]], weights=[1.0, 10.0])
    assert rows.tolist() == [[0.0, 0.0], [11.0, 0.0]]
    pairs = gradient(lambda x: x[np.ix_([0, 0], [1, 0])], [[1.0, 2.0], [3.0, 4.0]])
    assert pairs.tolist() == [[2.0, 2.0], [0.0, 0.0]]
    np.testing.assert_array_equal(hessian(lambda x: (x[[0, 0, 1]] ** 2).sum(), [1.0, 2.0]), [[4.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize(
    "index",
    [
        np.array([True, False, True]),
        [True, False, True],
        np.zeros(3, bool),
        None,
        ...,
        (..., None),
        slice(None, None, -1),
        slice(2, None, -2),
        slice(0, 0),
        [],
        np.array([], int),
        (),
        -1,
        np.array([[0, 2], [2, 2]]),
        (None, [1, 1], None),
    ],
    ids=str,
)
def test_an_index_puts_the_gradient_where_the_values_came_from(index):
    """Of the flat positions that were read, each gets one gradient for each time that it was."""
    values = np.array([5.0, 6.0, 7.0])
    read = np.arange(3)[index]
    expected = np.bincount(np.ravel(read), minlength=3)
    assert gradient(lambda x: x[index], values).tolist() == expected.tolist()


def test_an_index_of_tensors():
    x = hg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    rows = hg.tensor([0, 1])
    columns = hg.tensor([2, 2])
    for index in (
        columns - 1,
        hg.tensor(1),
        hg.tensor([True, False]),
        x > 2.5,
        (rows, columns),
        (slice(None), columns),
    ):
        parts = index if type(index) is tuple else (index,)
        plain = tuple(part.numpy() if isinstance(part, hg.Tensor) else part for part in parts)
        y = x[index]
        np.testing.assert_array_equal(y.numpy(), x.numpy()[plain])
        x.clear_grad()
        y.sum().backward()
        counts = np.zeros((2, 3))
        np.add.at(counts, plain, 1.0)
        np.testing.assert_array_equal(x.grad.numpy(), counts)
    with pytest.raises(IndexError):
        x[hg.tensor([0.0])]


def test_an_index_is_kept_as_it_was():
    for make in (np.array, list, hg.tensor, lambda i: (np.array(i),)):
        x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        index = make([0, 1])
        y = x[index]
        changed = index[0] if type(index) is tuple else index
        changed[0] = 2
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0, 0.0]


# Broadcasting and dtypes ----------------------------------------------------------------------------------------------


def test_the_pointwise_product_of_a_matrix_and_a_column():
    h = hg.full((2, 3), 2.0)
    m = hg.ones((2, 1), requires_grad=True)
    (h * m).sum().backward()
    assert m.grad.tolist() == [[6.0], [6.0]]


def test_broadcast_views_as_operands():
    """sum_xy x_j W_jk g_k for operands with a stride of zero."""
    w = hg.tensor([[1.0, 2.0], [3.0, 4.0]])
    x = hg.tensor(np.ones(2, np.float32), requires_grad=True)
    rows = hg.broadcast_to(x, (2, 2))
    (g,) = hg.grad(rows @ w, rows, grad_outputs=hg.eye(2))
    assert g.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    strided = hg.asarray(np.broadcast_to(np.float32(1), (2, 2)))
    strided.requires_grad = True
    (g,) = hg.grad(strided @ w, strided, grad_outputs=hg.eye(2))
    assert g.tolist() == [[1.0, 3.0], [2.0, 4.0]]


# The same points in PyTorch -------------------------------------------------------------------------------------------

AGREED = {
    "relu": (lambda x: hg.relu(x), lambda t, x: t.relu(x), [-1.0, 0.0, 2.0]),
    "abs": (lambda x: hg.abs(x), lambda t, x: t.abs(x), [-1.0, 0.0, 2.0]),
    "max of ties": (lambda x: hg.max(x), lambda t, x: t.amax(x), [3.0, 1.0, 3.0]),
    "min of ties along an axis": (
        lambda x: hg.min(x, axis=1),
        lambda t, x: t.amin(x, dim=1),
        [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]],
    ),
    "maximum of ties": (
        lambda x: hg.maximum(x, x * 0 + 1),
        lambda t, x: t.maximum(x, x * 0 + 1),
        [0.0, 1.0, 2.0],
    ),
    "clip on bounds": (lambda x: hg.clip(x, -1, 1), lambda t, x: t.clamp(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0]),
    "prod with no zero": (lambda x: hg.prod(x), lambda t, x: t.prod(x), [2.0, 3.0, 4.0]),
    "prod with one zero": (lambda x: hg.prod(x), lambda t, x: t.prod(x), [2.0, 0.0, 4.0]),
    "prod with two zeros": (lambda x: hg.prod(x), lambda t, x: t.prod(x), [0.0, 3.0, 0.0]),
    "prod along an axis": (
        lambda x: hg.prod(x, axis=0),
        lambda t, x: t.prod(x, dim=0),
        [[2.0, 0.0, 0.0], [3.0, 5.0, 0.0]],
    ),
    "power 0": (lambda x: x**0, lambda t, x: x**0, [0.0, 2.0, -2.0]),
    "power 2": (lambda x: x**2, lambda t, x: x**2, [0.0, 2.0, -2.0]),
    "power 3": (lambda x: x**3.0, lambda t, x: x**3.0, [0.0, 2.0, -2.0]),
    "power of 2": (lambda x: 2.0**x, lambda t, x: 2.0**x, [0.0, 2.0, -2.0]),
    "where": (
        lambda x: hg.where(x > 0, x * 2, x * 3),
        lambda t, x: t.where(x > 0, x * 2, x * 3),
        [-1.0, 0.0, 1.0],
    ),
    "logsumexp with -inf": (
        lambda x: hg.logsumexp(x, axis=1),
        lambda t, x: t.logsumexp(x, dim=1),
        [[-np.inf, 0.0, 1.0], [1000.0, 1000.0, -1000.0]],
    ),
    "softmax": (
        lambda x: F.softmax(x),
        lambda t, x: t.softmax(x, dim=-1),
        [[1000.0, 1000.0, -1000.0], [0.0, 1.0, -np.inf]],
    ),
    "log_softmax": (
        lambda x: F.log_softmax(x, axis=0),
        lambda t, x: t.log_softmax(x, dim=0),
        [[1000.0, 0.0], [1000.0, -1000.0]],
    ),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, [0, 2]),
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 2])),
        [[1000.0, 0.0, -1000.0], [0.5, 0.25, 0.125]],
    ),
    "mse_loss": (
        lambda x: F.mse_loss(x, [1.0, 2.0]),
        lambda t, x: t.nn.functional.mse_loss(x, t.tensor([1.0, 2.0], dtype=t.float64)),
        [1.0, 5.0],
    ),
    "sigmoid": (lambda x: hg.sigmoid(x), lambda t, x: t.sigmoid(x), [-800.0, 0.0, 800.0]),
    "tanh": (lambda x: hg.tanh(x), lambda t, x: t.tanh(x), [-800.0, 0.0, 800.0]),
    "sqrt at 0": (lambda x: hg.sqrt(x), lambda t, x: t.sqrt(x), [0.0, 4.0]),
    "log at 0": (lambda x: hg.log(x), lambda t, x: t.log(x), [0.0, 4.0]),
    "var": (lambda x: hg.var(x, ddof=1), lambda t, x: t.var(x), [1.0, 1.0, 1.0]),
    "cumsum": (lambda x: hg.cumsum(x, axis=1), lambda t, x: t.cumsum(x, dim=1), [[1.0, 2.0], [3.0, 4.0]]),
    "repeated indices": (lambda x: x[[0, 0, 2]] ** 2, lambda t, x: x[[0, 0, 2]] ** 2, [1.0, 2.0, 3.0]),
    "matmul with itself": (lambda x: x @ x, lambda t, x: x @ x, [[1.0, 2.0], [3.0, 4.0]]),
    "vector products": (lambda x: (x @ x) * x, lambda t, x: (x @ x) * x, [1.0, 0.0, 3.0]),
}


@pytest.mark.parametrize("point", AGREED)
def test_pytorch_agrees(point):
    """Value, gradient, and the gradient of a product with the gradient, at the awkward points above."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours, theirs, values = AGREED[point]
    x = hg.tensor(np.array(values), requires_grad=True)
    tx = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    y, ty = ours(x), theirs(torch, tx)
    np.testing.assert_allclose(y.numpy(), ty.detach().numpy(), rtol=1e-13)
    weights = np.random.default_rng(0).normal(size=y.shape)
    (g,) = hg.grad(y, x, grad_outputs=hg.tensor(weights), create_graph=True)
    (tg,) = torch.autograd.grad(ty, tx, torch.tensor(weights), create_graph=True)
    np.testing.assert_allclose(g.numpy(), tg.detach().numpy(), rtol=1e-12, atol=1e-300)
    if not np.isfinite(g.numpy()).all():
        return
    direction = np.random.default_rng(1).normal(size=x.shape)
    second = product_with_hessian(hg.grad, x, g, hg.tensor(direction))
    expected = product_with_hessian(torch.autograd.grad, tx, tg, torch.tensor(direction))
    second = np.zeros(x.shape) if second is None else second.numpy()
    expected = np.zeros(x.shape) if expected is None else expected.numpy(force=True)
    np.testing.assert_allclose(second, expected, rtol=1e-12, atol=1e-14)


def product_with_hessian(grad, x, g, direction):
    """None where the gradient does not depend on x."""
    return grad((g * direction).sum(), [x], allow_unused=True)[0] if g.requires_grad else None


@pytest.mark.parametrize(
    "index",
    [((0, 0),), array.array("l", [0, 0]), (range(2),), hg.tensor([0, 0]), np.array([0, 0]), [0, 0]],
    ids=["tuple in a tuple", "array.array", "range in a tuple", "tensor", "ndarray", "list"],
)
def test_any_sequence_indexes_as_an_array_does(index):
    """Elements named twice get both gradients, whatever type names them."""
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x[index].sum().backward()
    plain = index.numpy() if isinstance(index, hg.Tensor) else index
    expected = np.zeros(3)
    np.add.at(expected, plain, 1.0)
    assert x.grad.tolist() == expected.tolist()


def test_a_slice_keeps_its_bounds():
    i = hg.tensor(1)
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[i:]
    i += 1
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


def test_power_of_what_has_no_reciprocal_to_the_zero():
    x = hg.tensor(np.array([1e-39, np.nan, 0.0], np.float32), requires_grad=True)
    (x ** hg.zeros(3)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    b = hg.tensor([-1.0], requires_grad=True)
    (hg.tensor([0.0]) ** b).backward()
    assert b.grad.tolist() == [-np.inf]


@pytest.mark.parametrize(("a", "b", "expected"), [(1e30, 1e20, -1e-10), (1e-30, 1e-23, -1e16), (0.0, 1e-39, 0.0)])
def test_the_gradient_of_a_divisor_whose_square_is_out_of_range(a, b, expected):
    divisor = hg.tensor(np.float32([b]), requires_grad=True)
    (hg.tensor(np.float32([a])) / divisor).backward()
    np.testing.assert_allclose(divisor.grad.numpy(), np.float32([expected]), rtol=1e-5)
