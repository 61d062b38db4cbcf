"""Functions that make tensors. Python floats make float32; ndarrays keep their dtype."""

import numpy as np

from hookgrad._core.functions import astype
from hookgrad._core.record import as_tensor_array
from hookgrad._core.variable import VariableWrapper, make_tensor


def _dtype(function, dtype):
    """A dtype that a tensor can have."""
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        hint = "the shape is one argument, a tuple" if isinstance(dtype, int) and not isinstance(dtype, bool) else ""
        hint = "for requires_grad, write requires_grad=True" if isinstance(dtype, bool) else hint
        raise TypeError(
            f"{function}: got dtype {dtype!r}, expected bool, an integer, float32 or float64"
            + (f"; {hint}" if hint else "")
        ) from None
    if dtype.kind not in "biuf" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise TypeError(f"{function}: got dtype {dtype}, expected bool, an integer, float32 or float64")
    return dtype


def _array(function, data, dtype):
    """data as an array that a tensor can hold, its memory shared where it can be."""
    return as_tensor_array(data, function, None if dtype is None else _dtype(function, dtype))


def tensor(data, dtype=None, requires_grad=False, *, stop_gradient=None, name=None):
    """A new leaf with a copy of the data.

    Parameters
    ----------
    data : array_like
        A number, a nested list, an ndarray or a tensor.
    dtype : dtype, optional
        bool, an integer, float32 or float64. By default an ndarray's own, float32 for Python floats, NumPy's for Python
        integers and bools.
    requires_grad : bool
        Whether gradients flow to it; float32 and float64 only.
    stop_gradient : bool, optional
        ``not requires_grad``, in the words of the design; one of the two is enough.
    name : str, optional
        Appears in errors.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        The data or the dtype cannot be a tensor's (float16, complex, strings, objects).
    ValueError
        A ragged list; both `requires_grad` and `stop_gradient`, and they disagree.
    RuntimeError
        `requires_grad` for integers or bools.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.tensor([1, 2.5])
    Tensor([1. , 2.5], dtype=float32)
    """
    if stop_gradient is not None:
        if requires_grad and stop_gradient:
            raise ValueError("tensor: requires_grad=True and stop_gradient=True contradict each other; give one")
        requires_grad = not stop_gradient
    return make_tensor(np.array(_array("tensor", data, dtype)), requires_grad, name)


def to_tensor(data, dtype=None, place=None, stop_gradient=True):
    """`tensor` in the words of the design that hookgrad follows: a new leaf with a copy of the data.

    Parameters
    ----------
    data : array_like
    dtype : dtype, optional
    place : None or "cpu"
        The only place there is.
    stop_gradient : bool
        False: gradients flow to it.

    Raises
    ------
    ValueError
        Another place. And as for `tensor`.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.to_tensor([1., 2.], stop_gradient=False)
    Tensor([1., 2.], dtype=float32, requires_grad=True)
    """
    if place not in (None, "cpu"):
        raise ValueError(f"to_tensor: got place {place!r}, expected None or 'cpu', the only place there is")
    return make_tensor(np.array(_array("to_tensor", data, dtype)), not stop_gradient)


def asarray(data, dtype=None):
    """A tensor that shares the data's memory where it can; a tensor is returned as it is.

    Examples
    --------
    >>> import hookgrad as hg, numpy as np
    >>> a = np.zeros(2)
    >>> t = hg.asarray(a)
    >>> a[0] = 5
    >>> t
    Tensor([5., 0.], dtype=float64)
    """
    if isinstance(data, VariableWrapper):
        return data if dtype is None else astype(data, _dtype("asarray", dtype))
    return make_tensor(_array("asarray", data, dtype))


def from_numpy(array):
    """A tensor that shares an ndarray's memory.

    Raises
    ------
    TypeError
        It is no ndarray, or of a dtype that a tensor cannot have.
    ValueError
        Its memory is misaligned or not in native byte order, so that it cannot be shared.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: got {type(array).__name__}, expected an ndarray; use tensor() for other data")
    if not array.flags.aligned or not array.dtype.isnative:
        raise ValueError(
            "from_numpy: the array is misaligned or not in native byte order, so its memory cannot be shared; use "
            "tensor(), which copies"
        )
    return make_tensor(_array("from_numpy", array, None))


def _filled(array, requires_grad, name):
    return make_tensor(array, requires_grad, name)


def zeros(shape, dtype=np.float32, requires_grad=False, *, name=None):
    """A leaf of zeros.

    >>> import hookgrad as hg
    >>> hg.zeros((2,))
    Tensor([0., 0.], dtype=float32)
    """
    return _filled(np.zeros(shape, _dtype("zeros", dtype)), requires_grad, name)


def ones(shape, dtype=np.float32, requires_grad=False, *, name=None):
    """A leaf of ones.

    >>> import hookgrad as hg
    >>> hg.ones((2,))
    Tensor([1., 1.], dtype=float32)
    """
    return _filled(np.ones(shape, _dtype("ones", dtype)), requires_grad, name)


def full(shape, fill_value, dtype=None, requires_grad=False, *, name=None):
    """A leaf filled with one value; by default of the dtype that `tensor` gives that value.

    >>> import hookgrad as hg
    >>> hg.full((2,), 7.)
    Tensor([7., 7.], dtype=float32)
    """
    value = _array("full", fill_value, dtype)
    return _filled(np.full(shape, value, value.dtype), requires_grad, name)


def arange(start, stop=None, step=1, dtype=None, requires_grad=False, *, name=None):
    """A leaf of evenly spaced numbers from start (0 if only one bound is given) to stop, exclusive.

    Python floats make float32, integers NumPy's integers.

    >>> import hookgrad as hg
    >>> hg.arange(3.)
    Tensor([0., 1., 2.], dtype=float32)
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None and any(type(value) is float for value in (start, stop, step)):
        dtype = np.float32
    array = np.arange(start, stop, step)
    dtype = _dtype("arange", array.dtype if dtype is None else dtype)
    return _filled(array.astype(dtype, copy=False), requires_grad, name)


def eye(n_rows, n_cols=None, k=0, dtype=np.float32, requires_grad=False, *, name=None):
    """A leaf with ones on the k-th diagonal and zeros elsewhere.

    >>> import hookgrad as hg
    >>> hg.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _filled(np.eye(n_rows, n_cols, k, _dtype("eye", dtype)), requires_grad, name)


def zeros_like(x, dtype=None, requires_grad=False, *, name=None):
    """A leaf of zeros, of x's shape and dtype."""
    array = _array("zeros_like", x, None)
    return _filled(
        np.zeros(array.shape, array.dtype if dtype is None else _dtype("zeros_like", dtype)), requires_grad, name
    )


def ones_like(x, dtype=None, requires_grad=False, *, name=None):
    """A leaf of ones, of x's shape and dtype."""
    array = _array("ones_like", x, None)
    return _filled(
        np.ones(array.shape, array.dtype if dtype is None else _dtype("ones_like", dtype)), requires_grad, name
    )
