"""Random programs of many operations, whose values are used again and again: buffers may be reused, never too soon."""

import numeric
import numpy as np
import pytest

import hookgrad as hg

N = 3
MASK = np.array([[True, False, True], [False, False, True], [True, True, False]])

#: Smooth functions from (N, N) matrices to an (N, N) matrix; `xp` is numpy or hookgrad.
STEPS = [
    lambda xp, a, b: a + b,
    lambda xp, a, b: a - b,
    lambda xp, a, b: a * b,
    lambda xp, a, b: a / (b * b + 1.0),
    lambda xp, a, b: xp.tanh(a),
    lambda xp, a, b: xp.sin(a) * 2.0,
    lambda xp, a, b: xp.exp(-a * a),
    lambda xp, a, b: xp.sqrt(a * a + 1.0),
    lambda xp, a, b: xp.log1p(xp.square(a)),
    lambda xp, a, b: (a * a + 0.5) ** 1.5,
    lambda xp, a, b: 1.0 / (a * a + 1.0),
    lambda xp, a, b: -a,
    lambda xp, a, b: a @ b,
    lambda xp, a, b: a.T @ b,
    lambda xp, a, b: a @ b.T,
    lambda xp, a, b: a.T,
    lambda xp, a, b: a + xp.mean(b, axis=0),
    lambda xp, a, b: a * xp.sum(b, axis=1, keepdims=True),
    lambda xp, a, b: a - xp.mean(b),
    lambda xp, a, b: a[::-1] + b[:, ::-1],
    lambda xp, a, b: xp.concatenate([a[:1], b[1:]]),
    lambda xp, a, b: xp.stack([a[0], b[1], a[2]], axis=1),
    lambda xp, a, b: a[np.array([0, 0, 2])],
    lambda xp, a, b: xp.where(MASK, a, b),
    lambda xp, a, b: xp.reshape(xp.cumsum(a), (N, N)),
    lambda xp, a, b: xp.broadcast_to(a[1], (N, N)),
    lambda xp, a, b: xp.var(a, axis=0) * b,
    lambda xp, a, b: xp.prod(a, axis=1, keepdims=True) + b,
    lambda xp, a, b: xp.expand_dims(a, 0)[0] * 0.5,
    lambda xp, a, b: a * a * a,
    lambda xp, a, b: a + a,
]


def random_program(seed):
    """A function of two matrices: twelve steps on values so far, all of which go into the result."""
    rng = np.random.default_rng(seed)
    plan = [(STEPS[rng.integers(len(STEPS))], rng.integers(2 + k), rng.integers(2 + k)) for k in range(12)]
    weights = rng.normal(size=(2 + len(plan), N, N))

    def program(xp, x, y):
        values = [x, y]
        for step, i, j in plan:
            value = step(xp, values[i], values[j])
            values.append(xp.tanh(value) if len(values) % 3 == 0 else value * 0.3)
        total = values[0] * 0.0
        for value, weight in zip(values, weights, strict=True):
            total = total + value * weight
        return total

    return program


@pytest.mark.parametrize("seed", range(60))
def test_gradient_of_a_random_program(seed):
    program = random_program(seed)
    arrays = list(np.random.default_rng(1000 + seed).normal(size=(2, N, N)))
    leaves = numeric.leaves([a.copy() for a in arrays])
    z = program(hg, *leaves)
    np.testing.assert_array_equal(z.numpy(), program(np, *arrays))
    weights = np.random.default_rng(2000 + seed).normal(size=(N, N))
    expected = numeric.gradient_by_differences(lambda x, y: program(np, x, y), arrays, weights)
    close = {"rtol": 1e-6, "atol": 1e-6}

    plain = hg.grad(z, leaves, grad_outputs=hg.tensor(weights), retain_graph=True)
    recorded = hg.grad(z, leaves, grad_outputs=hg.tensor(weights), create_graph=True)
    z.backward(hg.tensor(weights), retain_graph=True)
    once = [leaf.grad.numpy().copy() for leaf in leaves]
    z.backward(hg.tensor(weights))
    for k, leaf in enumerate(leaves):
        np.testing.assert_allclose(plain[k].numpy(), expected[k], **close)
        np.testing.assert_allclose(recorded[k].numpy(), plain[k].numpy(), rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(once[k], plain[k].numpy())
        np.testing.assert_allclose(leaf.grad.numpy(), 2 * once[k], rtol=1e-15)
        np.testing.assert_array_equal(leaf.numpy(), arrays[k])


@pytest.mark.parametrize("seed", range(20))
def test_interior_gradients_of_a_random_program(seed):
    """Values that are held get their gradients, and holding them changes no gradient of a leaf."""
    program = random_program(seed)
    arrays = list(np.random.default_rng(1000 + seed).normal(size=(2, N, N)))
    held = []

    class Holding:
        def __getattr__(self, name):
            function = getattr(hg, name)

            def hold(*args, **kwargs):
                held.append(function(*args, **kwargs))
                return held[-1]

            return hold

    free, watched = numeric.leaves(arrays), numeric.leaves(arrays)
    program(hg, *free).sum().backward()
    program(Holding(), *watched).sum().backward()
    for a, b in zip(free, watched, strict=True):
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    before = [None if t.grad is None else t.grad.numpy().copy() for t in held]
    for t in held + watched:
        if t.grad is not None:
            t.grad += 1.0  # each has memory of its own
    for t, g in zip(held, before, strict=True):
        if g is not None:
            np.testing.assert_array_equal(t.grad.numpy(), g + 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_second_derivative_of_a_random_program(seed):
    program = random_program(seed)
    rng = np.random.default_rng(3000 + seed)
    arrays = [rng.normal(size=(N, N)) for _ in range(3)]
    direction = [rng.normal(size=(N, N)) for _ in range(3)]
    found = numeric.derivative(lambda x, y: program(hg, x, y), arrays, [direction])
    ends = []
    for step in (numeric.STEP, -numeric.STEP):
        moved = [a + step * u for a, u in zip(arrays, direction, strict=True)]
        ends.append(numeric.derivative(lambda x, y: program(hg, x, y), moved, []))
    for g, after, before in zip(found, *ends, strict=True):
        expected = (after - before) / (2 * numeric.STEP)
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max())))
