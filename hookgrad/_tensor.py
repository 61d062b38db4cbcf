"""The tensor that users hold: names and documents what the core computes."""

import warnings

import numpy as np

from hookgrad import protocols
from hookgrad._core import functions, hooks
from hookgrad._core.grad_mode import is_grad_enabled
from hookgrad._core.operators import TensorBase
from hookgrad._core.variable import hook_count, make_tensor, set_tensor_type
from hookgrad.autograd.backward import backward


class Tensor(TensorBase):
    """An array that records what is computed from it, so that gradients can flow back, through hooks, to its leaves.

    Made by `hookgrad.tensor` and its kin, never by calling the class. It has ndarray's operators and the methods below,
    under ndarray's names; float32 and float64 tensors can require grad, others are data. Tensors hash by identity and
    can be weakly referenced.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1., 2.], requires_grad=True)
    >>> y = (x ** 2).sum()
    >>> y.backward()
    >>> x.grad
    Tensor([2., 4.], dtype=float32)
    """

    __slots__ = ()

    # Hooks ------------------------------------------------------------------------------------------------------------

    register_hook = hooks.register_hook
    register_inplace_hook = hooks.register_inplace_hook
    register_post_accumulate_grad_hook = hooks.register_post_accumulate_grad_hook
    _register_backward_hook = hooks._register_backward_hook

    # Gradients --------------------------------------------------------------------------------------------------------

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Sum this tensor's gradients into the ``.grad`` of the leaves it depends on, and run their hooks.

        Parameters are those of `hookgrad.autograd.backward`; `gradient` may be left out for a tensor of one element.

        Examples
        --------
        >>> import hookgrad as hg
        >>> x = hg.tensor([1., 2.], requires_grad=True)
        >>> (x * x).backward([1., 10.])
        >>> x.grad
        Tensor([ 2., 40.], dtype=float32)
        """
        backward(self, gradient, retain_graph, create_graph, inputs)

    def clear_grad(self, set_to_zero=False):
        """Forget ``.grad``: None after, or zeros with `set_to_zero`."""
        if set_to_zero and self.grad is not None:
            self.grad = make_tensor(np.zeros(self.shape, self.dtype))
        else:
            self.grad = None

    # Functions as methods ---------------------------------------------------------------------------------------------

    abs = functions.absolute
    add = functions.add
    all = functions.all
    any = functions.any
    astype = functions.astype
    broadcast_to = functions.broadcast_to
    clip = functions.clip
    copy = functions.copy
    cos = functions.cos
    cumsum = functions.cumsum
    divide = functions.divide
    dot = functions.dot
    exp = functions.exp
    expand_dims = functions.expand_dims
    log = functions.log
    logsumexp = functions.logsumexp
    matmul = functions.matmul
    max = functions.max
    mean = functions.mean
    min = functions.min
    multiply = functions.multiply
    negative = functions.negative
    prod = functions.prod
    relu = functions.relu
    reshape = functions.reshape
    sigmoid = functions.sigmoid
    sin = functions.sin
    softmax = functions.softmax
    sqrt = functions.sqrt
    square = functions.square
    squeeze = functions.squeeze
    std = functions.std
    subtract = functions.subtract
    sum = functions.sum
    tanh = functions.tanh
    transpose = functions.transpose
    var = functions.var

    @property
    def T(self):
        """The axes reversed, as a view."""
        return self.transpose()

    @property
    def mT(self):
        """The last two axes swapped, as a view."""
        if self.ndim < 2:
            raise ValueError(f"mT: a tensor of shape {self.shape} has fewer than two axes")
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    # NumPy's protocols ------------------------------------------------------------------------------------------------

    __array_priority__ = 1000

    def __array__(self, dtype=None, copy=None):
        if self.ndim == 0 and self.requires_grad and is_grad_enabled():
            # Nearly always on the way into an array of numbers: np.array([t, u]), a[i] = t.
            warnings.warn(
                "a tensor that requires grad became a number in an array, from which no gradient flows back to it: "
                "join tensors with hg.stack or hg.concatenate; for the value alone, use t.item() or t.detach()",
                UserWarning,
                stacklevel=2,
            )
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"array: dtype {array.dtype} cannot become {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    __array_ufunc__ = protocols.array_ufunc
    __array_function__ = protocols.array_function

    # Copies -----------------------------------------------------------------------------------------------------------

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: only leaves can be copied with their place in the graph; use t.detach() or t.copy()"
            )
        _warn_of_hooks(self)
        out = make_tensor(np.array(self.numpy()), self.requires_grad, self.name)
        memo[id(self)] = out
        if self.grad is not None:
            out.grad = make_tensor(np.array(self.grad.numpy()))
        return out

    def __reduce__(self):
        if not self.is_leaf:
            raise RuntimeError("pickle: only leaves can be pickled, without a graph; use t.detach()")
        _warn_of_hooks(self)
        return make_tensor, (np.array(self.numpy()), self.requires_grad, self.name)

    # Words ------------------------------------------------------------------------------------------------------------

    def __repr__(self):
        prefix = "Tensor("
        values = np.array2string(self.numpy(), separator=", ", prefix=prefix)
        words = [values]
        if self.size == 0 and self.ndim > 1:
            words.append(f"shape={self.shape}")
        words.append(f"dtype={self.dtype}")
        if self.name is not None:
            words.append(f"name={self.name!r}")
        if self.requires_grad:
            words.append("requires_grad=True")
        return prefix + ", ".join(words) + ")"

    def __str__(self):
        return str(self.numpy())

    def __format__(self, spec):
        return format(self.item(), spec) if spec else str(self)


def _warn_of_hooks(tensor):
    count = hook_count(tensor)
    if count:
        warnings.warn(
            f"a tensor of shape {tensor.shape} has {count} hook{'s' * (count > 1)}, which its copy has not: register "
            "them there again",
            UserWarning,
            stacklevel=3,
        )


set_tensor_type(Tensor)
