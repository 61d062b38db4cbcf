"""Derivatives through hooks: with create_graph, what a hook does is part of the function that is differentiated."""

import numpy as np
import pytest

import hookgrad as hg

X = np.array([0.5, -1.25, 2.0])


def leaf(values, dtype=np.float64, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def derivative(function, x, step=1e-4):
    """d sum(function(x)) / dx of an elementwise NumPy function, by a fourth-order central difference."""
    return (8 * (function(x + step) - function(x - step)) - (function(x + 2 * step) - function(x - 2 * step))) / (
        12 * step
    )


# Each case: a program that hooks, as a function of a tensor, and the gradient that follows from it on paper, as a
# function of a NumPy array. The program returns its result and the handles of its hooks: the graph of the gradient
# contains the forward, so hooks that are still there would act on the second derivative too.


def square_of_cube(x):
    """(x^2)^3, the hook on x^2 squares: (3 x^4)^2 2x."""
    y = x**2
    return (y**3).sum(), [y.register_hook(lambda g: g * g)]


def scaled_by_the_leaf(x):
    """(3x)^2, the hook on 3x multiplies by x: 6x * x * 3."""
    y = x * 3
    return (y**2).sum(), [y.register_hook(lambda g: g * x)]


def sine_of_the_gradient(x):
    """x^3, the hook takes the sine: sin(3 x^2)."""
    y = x * 1
    return (y**3).sum(), [y.register_hook(lambda g: g.sin())]


def several_hooks(x):
    """x^2, three hooks: exp(2x / 4), as it is, times x."""
    y = x * 1
    handles = [y.register_hook(hook) for hook in (lambda g: (g / 4).exp(), lambda g: None, lambda g: g * x)]
    return (y**2).sum(), handles


def hooks_on_several_tensors(x):
    """tanh(y), y = z^2, z = 2x; at y the square of tanh', at z plus x."""
    z = x * 2
    y = z**2
    return y.tanh().sum(), [z.register_hook(lambda g: g + x), y.register_hook(lambda g: g * g)]


def constant_result(x):
    """The hook answers with an array: 7 * 2x."""
    y = x**2
    return (y**3).sum(), [y.register_hook(lambda g: np.full(3, 7.0))]


def used_twice(x):
    """The sum of both contributions is what the hook squares: (2y + 3)^2 * 2x with y = x^2."""
    y = x**2
    return (y * y + y * 3).sum(), [y.register_hook(lambda g: g * g)]


def clipped(x):
    """x^2, clipped: clip(2x, -3, 3)."""
    y = x * 1
    return (y**2).sum(), [y.register_hook(lambda g: g.clip(-3.0, 3.0))]


CASES = {
    "square of a cube": (square_of_cube, lambda x: (3 * x**4) ** 2 * 2 * x),
    "scaled by the leaf": (scaled_by_the_leaf, lambda x: 18 * x**2),
    "sine": (sine_of_the_gradient, lambda x: np.sin(3 * x**2)),
    "several hooks": (several_hooks, lambda x: np.exp(x / 2) * x),
    "several tensors": (
        hooks_on_several_tensors,
        lambda x: ((1 - np.tanh(4 * x**2) ** 2) ** 2 * 4 * x + x) * 2,
    ),
    "constant result": (constant_result, lambda x: 14 * x),
    "used twice": (used_twice, lambda x: (2 * x**2 + 3) ** 2 * 2 * x),
    "clipped": (clipped, lambda x: np.clip(2 * x, -3, 3)),
}


@pytest.mark.parametrize(("program", "gradient"), CASES.values(), ids=CASES.keys())
def test_first_second_and_third_derivatives(program, gradient):
    x = leaf(X)
    out, handles = program(x)
    (first,) = hg.grad(out, x, create_graph=True)
    np.testing.assert_allclose(first.numpy(), gradient(X), rtol=1e-12)
    assert all(handle.remove() for handle in handles)
    (second,) = hg.grad(first.sum(), x, create_graph=True)
    np.testing.assert_allclose(second.numpy(), derivative(gradient, X), rtol=1e-7, atol=1e-9)
    third = None
    if second.requires_grad:
        (third,) = hg.grad(second.sum(), x, allow_unused=True)
    expected = derivative(lambda x: derivative(gradient, x, 1e-3), X, 1e-3)
    np.testing.assert_allclose(np.zeros(3) if third is None else third.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("program", "gradient"), CASES.values(), ids=CASES.keys())
def test_backward_with_create_graph_gives_a_grad_that_can_be_differentiated(program, gradient):
    x = leaf(X)
    out, handles = program(x)
    out.backward(create_graph=True)
    first = x.grad
    np.testing.assert_allclose(first.numpy(), gradient(X), rtol=1e-12)
    assert first.requires_grad
    assert all(handle.remove() for handle in handles)
    (second,) = hg.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), derivative(gradient, X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("program", "gradient"), CASES.values(), ids=CASES.keys())
def test_without_create_graph_the_values_are_the_same(program, gradient):
    x = leaf(X)
    (first,) = hg.grad(program(x)[0], x)
    np.testing.assert_allclose(first.numpy(), gradient(X), rtol=1e-12)
    assert not first.requires_grad


def test_a_detached_gradient_is_a_constant():
    # 3 y^2 with y = x^2, doubled by the hook but not differentiated; times dy/dx = 2x
    x = leaf(X)
    y = x**2
    with y.register_hook(lambda g: g.detach() * 2):
        (first,) = hg.grad((y**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(first.numpy(), 12 * X**5, rtol=1e-12)
    (second,) = hg.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 12 * X**4, rtol=1e-12)


@pytest.mark.parametrize("through", ["grad", "backward"])
def test_leaf_hooks(through):
    x = leaf(X)
    x.register_hook(lambda g: g**2)
    out = (x**3).sum()
    if through == "grad":
        (first,) = hg.grad(out, x, create_graph=True, run_leaf_hooks=True)
    else:
        out.backward(create_graph=True)
        first = x.grad
    np.testing.assert_allclose(first.numpy(), 9 * X**4, rtol=1e-12)
    (second,) = hg.grad(first.sum(), x, create_graph=True, run_leaf_hooks=False)
    np.testing.assert_allclose(second.numpy(), 36 * X**3, rtol=1e-12)
    (hooked,) = hg.grad(first.sum(), x, run_leaf_hooks=True)
    np.testing.assert_allclose(hooked.numpy(), (36 * X**3) ** 2, rtol=1e-12)


def test_hooks_get_differentiable_tensors():
    x = leaf(X)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append((g.requires_grad, g.grad_fn is not None, (g * 2).requires_grad)))
    out = (y**2).sum()
    hg.grad(out, x, create_graph=True)
    hg.grad(out, x)
    assert seen == [(True, True, True), (False, False, False)]


def test_a_hook_may_differentiate_its_gradient():
    """The gradient penalty of a gradient: d sum(g) / dx inside the hook, g = 3 y^2 with y = x^2."""
    x = leaf(X)
    y = x**2
    inner = []

    def hook(g):
        handle.remove()
        inner.extend(hg.grad(g.sum(), x, create_graph=True))
        return g + inner[0]

    handle = y.register_hook(hook)
    (first,) = hg.grad((y**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(inner[0].numpy(), 12 * X**3, rtol=1e-12)
    np.testing.assert_allclose(first.numpy(), (3 * X**4 + 12 * X**3) * 2 * X, rtol=1e-12)
    (second,) = hg.grad(first.sum(), x)  # of 6 x^5 + 24 x^4
    np.testing.assert_allclose(second.numpy(), 30 * X**4 + 96 * X**3, rtol=1e-12)


def test_hooks_run_again_in_the_second_backward():
    """The graph of the gradient contains the forward, and the hooks that are on it."""
    x = leaf(X)
    y = x**2
    calls = []
    y.register_hook(lambda g: calls.append(g.requires_grad) or g * 10)
    (first,) = hg.grad((y**3).sum(), x, create_graph=True)
    assert calls == [True]
    np.testing.assert_allclose(first.numpy(), 60 * X**5, rtol=1e-12)  # 10 * 3 y^2 * 2 x
    (second,) = hg.grad(first.sum(), x)
    assert calls == [True, False]
    # d first / dy = 120 x y, hooked once more, times dy/dx = 2x; and 60 y^2 directly
    np.testing.assert_allclose(second.numpy(), 10 * 120 * X**3 * 2 * X + 60 * X**4, rtol=1e-12)


def test_hooks_on_a_gradient():
    """create_graph: a gradient is a tensor of a graph, and can be hooked, by several hooks that it passes."""
    x = leaf(X)
    y = x**2
    log = []

    def first(g):
        result = g * 5
        result.register_hook(lambda gg: log.append("on the result, in the first hook") or gg + 1)
        return result

    def second(g):
        g.register_hook(lambda gg: log.append("on the same tensor, in the second hook") or gg * 10)

    handles = [y.register_hook(first), y.register_hook(second)]
    (gradient,) = hg.grad((y**3).sum(), x, create_graph=True)  # 5 * 3 y^2 * 2 x
    for handle in handles:
        handle.remove()
    (result,) = hg.grad(gradient.sum(), x)
    assert log == ["on the result, in the first hook", "on the same tensor, in the second hook"]
    # what flows back to the result is 2 x, hooked (2 x + 1) * 10; then through 5 * 3 y^2 = 15 x^4, and 30 x^4 directly
    np.testing.assert_allclose(result.numpy(), (2 * X + 1) * 10 * 60 * X**3 + 30 * X**4, rtol=1e-12)


def test_a_leafs_grad_accumulates_differentiably():
    x = leaf(X)
    (x**2).sum().backward(create_graph=True)
    first = x.grad
    (x**3).sum().backward(create_graph=True)
    np.testing.assert_allclose(first.numpy(), 2 * X)  # the earlier .grad is not changed
    np.testing.assert_allclose(x.grad.numpy(), 2 * X + 3 * X**2, rtol=1e-12)
    (second,) = hg.grad(x.grad.sum(), x)
    np.testing.assert_allclose(second.numpy(), 2 + 6 * X, rtol=1e-12)


def test_a_plain_backward_onto_a_differentiable_grad():
    x = leaf(X)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    (x * 5).sum().backward()
    np.testing.assert_allclose(first.numpy(), 3 * X**2, rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2 + 5, rtol=1e-12)


def test_a_differentiable_grad_outputs():
    """d/dv of the gradient: a vector-Jacobian product is linear in v, whose derivative is the Jacobian."""
    x, v = leaf(X), leaf([1.0, 10.0, 100.0])
    y = x**2
    with y.register_hook(lambda g: g * 5):
        (g,) = hg.grad(y, x, v, create_graph=True)
    np.testing.assert_allclose(g.numpy(), v.numpy() * 10 * X, rtol=1e-12)
    gx, gv = hg.grad(g.sum(), [x, v])
    np.testing.assert_allclose(gv.numpy(), 10 * X, rtol=1e-12)
    np.testing.assert_allclose(gx.numpy(), np.array([1, 10, 100]) * 10.0, rtol=1e-12)


def test_a_hook_with_a_parameter_of_its_own():
    x, scale = leaf(X), leaf(2.0)
    y = x**2
    with y.register_hook(lambda g: g * scale):
        (g,) = hg.grad(y.sum(), x, create_graph=True)
    (d_scale,) = hg.grad((g**2).sum(), scale)
    np.testing.assert_allclose(d_scale.item(), (2 * 2.0 * (2 * X) ** 2).sum(), rtol=1e-12)


def test_post_accumulate_hooks_see_the_differentiable_grad():
    x = leaf(X)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    (x**3).sum().backward(create_graph=True)
    assert seen[0].requires_grad
    (second,) = hg.grad(seen[0].sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * X, rtol=1e-12)


def test_inplace_hooks_under_create_graph_change_a_buffer_of_their_own():
    x, w = leaf(X), leaf(X + 1)

    def double(grad):
        grad *= 2

    x.register_inplace_hook(double)
    y = x * w
    v = leaf([1.0, 10.0, 100.0])
    (y**2).backward(v, create_graph=True)
    expected = 2 * X * (X + 1) * np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected * (X + 1), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), expected * X, rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), expected, rtol=1e-12)
    assert v.tolist() == [1.0, 10.0, 100.0]
    (second,) = hg.grad(w.grad.sum(), w)  # of 2 v x^2 w
    np.testing.assert_allclose(second.numpy(), 2 * X**2 * v.numpy(), rtol=1e-12)


def test_a_removed_hook_is_no_part_of_the_second_derivative():
    x = leaf(X)
    y = x * 1
    handle = y.register_hook(lambda g: g * 100)
    out = (y**3).sum()
    handle.remove()
    (first,) = hg.grad(out, x, create_graph=True)
    (second,) = hg.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * X, rtol=1e-12)


def test_hessian_vector_product_of_a_quadratic_with_a_no_op_hook():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4))
    a = a + a.T
    x = leaf(rng.standard_normal(4))
    y = x * 1
    y.register_hook(lambda g: None)
    out = y @ (hg.tensor(a) @ y) * 0.5
    v = rng.standard_normal(4)
    (first,) = hg.grad(out, x, create_graph=True)
    (product,) = hg.grad(first, x, hg.tensor(v))
    np.testing.assert_allclose(product.numpy(), a @ v, rtol=1e-10)
