"""NumPy's own functions called on tensors: `np.exp(t)`, `np.concatenate([t, u])`, `array * t`."""

import numpy as np

from hookgrad._core import functions

_UFUNCS = {
    getattr(np, name): getattr(functions, name)
    for name in (
        "absolute add bitwise_and bitwise_or bitwise_xor cos divide equal exp expm1 floor_divide greater greater_equal "
        "less less_equal log log1p matmul maximum minimum multiply negative not_equal power reciprocal remainder sin "
        "sqrt square subtract tanh"
    ).split()
}

_FUNCTIONS = {
    getattr(np, name): getattr(functions, name)
    for name in (
        "all any astype broadcast_to concatenate copy cumsum dot expand_dims max mean min prod reshape squeeze "
        "stack std sum transpose var where"
    ).split()
    if hasattr(np, name)
}


def _clip(a, a_min=None, a_max=None, *, min=None, max=None):
    """NumPy's two pairs of names for the bounds."""
    return functions.clip(a, a_min if min is None else min, a_max if max is None else max)


_FUNCTIONS[np.clip] = _clip


def array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """A ufunc called on a tensor: hookgrad's function of that name, recorded."""
    function = _UFUNCS.get(ufunc)
    if function is None:
        raise TypeError(
            f"{ufunc.__name__}: hookgrad has no such function. Compose it from those that it has (see hg.__all__), or "
            "use t.detach().numpy() for the values, without a gradient"
        )
    if method != "__call__":
        raise TypeError(
            f"np.{ufunc.__name__}.{method}: hookgrad records calls of a ufunc alone; use t.numpy() for the values"
        )
    if "out" in kwargs:
        raise TypeError(
            f"np.{ufunc.__name__}: an ndarray cannot be changed in place by a tensor; write a = a + t for a += t, "
            "or use t.detach().numpy() for the values, without a gradient"
        )
    if kwargs:
        raise TypeError(
            f"np.{ufunc.__name__}: a call on tensors takes no {', '.join(kwargs)}; "
            "use t.detach().numpy() for the values, without a gradient"
        )
    return function(*inputs)


def array_function(self, function, types, args, kwargs):
    """Another function of NumPy's called on a tensor."""
    ours = _FUNCTIONS.get(function)
    name = f"{function.__module__}.{function.__name__}".replace("numpy.", "np.")
    if ours is None:
        raise TypeError(
            f"{name}: hookgrad has no such function. Compose it from those that it has (see hg.__all__), or use "
            "t.detach().numpy() for the values, without a gradient"
        )
    kwargs = {key: value for key, value in kwargs.items() if key != "out" or value is not None}
    try:
        return ours(*args, **kwargs)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise TypeError(
                f"{name}: hookgrad's own takes fewer arguments, and not one of {', '.join(kwargs)}: see "
                f"help(hookgrad.{ours.__name__.lstrip('_')})"
            ) from None
        raise
