"""hookgrad: define-by-run autograd for NumPy, compiled, whose centre is gradient hooks.

>>> import hookgrad as hg
>>> x = hg.tensor([1., 2.], requires_grad=True)
>>> handle = x.register_hook(lambda grad: grad * 10)
>>> (x * x).sum().backward()
>>> x.grad
Tensor([20., 40.], dtype=float32)
"""

try:
    import hookgrad._core.variable
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("hookgrad._core"):
        raise
    raise ImportError(
        f"hookgrad's compiled core is not in {__path__[0]}: this is a source folder that shadows the installed package "
        "or was not built; change to another directory, or build it in place with `pip install -e .`"
    ) from None

from hookgrad import autograd, hooks, nn
from hookgrad._core.functions import (
    absolute,
    add,
    all,
    any,
    astype,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    broadcast_to,
    clip,
    concatenate,
    copy,
    cos,
    cumsum,
    divide,
    dot,
    equal,
    exp,
    expand_dims,
    expm1,
    floor_divide,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    logsumexp,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    prod,
    reciprocal,
    relu,
    remainder,
    reshape,
    sigmoid,
    sin,
    softmax,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    subtract,
    sum,
    tanh,
    transpose,
    var,
    where,
)
from hookgrad._core.grad_mode import is_grad_enabled
from hookgrad._tensor import Tensor
from hookgrad.autograd import enable_grad, grad, no_grad, set_grad_enabled
from hookgrad.creation import (
    arange,
    asarray,
    eye,
    from_numpy,
    full,
    ones,
    ones_like,
    tensor,
    to_tensor,
    zeros,
    zeros_like,
)
from hookgrad.hooks import HookRemoveHelper
from hookgrad.version import __version__

abs = absolute

__all__ = [
    name
    for name, value in list(globals().items())
    if not name.startswith("_") and (not isinstance(value, type(autograd)) or name in ("autograd", "hooks", "nn"))
]
__all__ += ["__version__"]
