"""Numbers to compare with: finite differences of NumPy's functions, and arrays in awkward memory layouts."""

import numpy as np

import hookgrad as hg

STEP = 1e-6

#: How close gradients must be to finite differences in float64, and in float32 to those taken in float64.
CLOSE = {
    np.dtype(np.float64): {"rtol": 1e-6, "atol": 1e-7},
    np.dtype(np.float32): {"rtol": 1e-4, "atol": 2e-5},
}

LAYOUTS = ("reversed", "transposed", "every second", "zero stride")


def laid_out(a, layout):
    """A view with the given strides: of a's values, but for "zero stride", which repeats those of the first row."""
    if layout == "reversed":
        flipped = (*(slice(None, None, -1),) * a.ndim, ...)
        return a[flipped].copy()[flipped]
    if layout == "transposed":
        return a.T.copy().T
    if layout == "every second":
        spaced = np.full([2 * n for n in a.shape], np.nan).astype(a.dtype)
        view = spaced[(*(slice(None, None, 2),) * a.ndim, ...)]
        view[...] = a
        return view
    if layout == "zero stride":
        return np.broadcast_to(a[:1], a.shape) if a.ndim and a.shape[0] else a
    raise ValueError(layout)


def gradient_by_differences(function, arrays, weights):
    """The gradient of ``sum(weights * function(*arrays))`` for each array, by central differences in float64."""
    arrays = [np.array(a, dtype=np.float64) for a in arrays]
    gradients = []
    for k, a in enumerate(arrays):
        gradient = np.empty_like(a)
        for index in np.ndindex(a.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = a.copy()
                moved[index] += step
                ends.append(np.sum(weights * function(*arrays[:k], moved, *arrays[k + 1 :])))
            gradient[index] = (ends[0] - ends[1]) / (2 * STEP)
        gradients.append(gradient)
    return gradients


def leaves(arrays):
    """Leaves that share the arrays' memory, whatever its layout."""
    out = []
    for a in arrays:
        leaf = hg.asarray(a)
        leaf.requires_grad = True
        out.append(leaf)
    return out


def derivative(function, arrays, directions):
    """A derivative of any order of ``f = sum(c * function(x, y, ...))`` at (c, x, y, ...) = arrays.

    Without directions it is f's gradient; each direction u takes the gradient of the product of what was there with u.
    Derivatives being symmetric, that is also the change of what was there along u.

    Returns
    -------
    list of ndarray
        One for each of the arrays, in float64.
    """
    c, *inputs = variables = leaves(arrays)
    with np.errstate(all="ignore"):
        y = function(*inputs)
        found = hg.grad(y, inputs, grad_outputs=c, create_graph=True)
        found = [y, *found]  # f is linear in c
        for direction in directions:
            product = sum((hg.sum(g * u) for g, u in zip(found, direction, strict=True)), hg.tensor(0.0))
            if not product.requires_grad:
                return [np.zeros(a.shape) for a in arrays]
            found = hg.grad(product, variables, create_graph=True, allow_unused=True)
            found = [hg.zeros_like(v) if g is None else g for g, v in zip(found, variables, strict=True)]
    return [g.numpy() for g in found]
