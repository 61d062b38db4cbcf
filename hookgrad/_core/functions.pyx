"""The public functions, under NumPy's names: they take what a user gives, check it, and call the operations.

Each is bound as a method of `hookgrad.Tensor` too where ndarray has the method.
"""

import operator

cimport numpy as cnp

import numpy as np
from numpy.exceptions import AxisError

from hookgrad._core.ops cimport elementwise as ew
from hookgrad._core.ops cimport losses, reduction, shape as shapes
from hookgrad._core.kernels cimport as_array, is_float_type, quietly
from hookgrad._core.operators cimport compare, data_operator, matmul_checked
from hookgrad._core.record cimport is_weak, operand, to_variable, to_variables
from hookgrad._core.ops.reduction cimport axes_t
from hookgrad._core.variable cimport VariableWrapper, is_variable, wrap

cnp.import_array()

ctypedef object (*reduction_fn)(object, axes_t, bint)


# Arguments ------------------------------------------------------------------------------------------------------------


cdef object given(object result, str function, tuple operands):
    """A result, or a TypeError where an operand could not be a tensor."""
    cdef object bad = None
    if result is NotImplemented:
        for x in operands:
            if x is not None and operand(x, function) is NotImplemented:
                bad = x
                break
        raise TypeError(f"{function}: got {type(bad).__name__}, expected a Tensor, an ndarray, a number or a list of "
                        f"numbers")
    return result if is_variable(result) else wrap(as_array(result))


ctypedef object (*binary_fn)(object, object)


cdef object given2(binary_fn fn, str function, object x1, object x2):
    """A function of two operands, of which one becomes a tensor if none is: the array, not a number or a list."""
    cdef object a = x1, b = x2
    if not is_variable(a) and not is_variable(b):
        if is_weak(a) and not is_weak(b):
            b = to_variable(b, function)
        else:
            a = to_variable(a, function)
    return given(fn(a, b), function, (x1, x2))


cdef int axis_of(object axis, int nd, str function) except -1:
    """One axis, counted from the front.

    Raises
    ------
    AxisError, TypeError
        Out of range; not an integer.
    """
    cdef object k
    try:
        k = operator.index(axis)
    except TypeError:
        raise TypeError(f"{function}: axis must be an integer, got {type(axis).__name__} {axis!r}") from None
    if not -nd <= k < nd:
        raise AxisError(f"{function}: axis {k} is out of range for a tensor with {nd} axes")
    return k + nd if k < 0 else k


cdef axes_t axes_of(object axis, int nd, str function) except? 0:
    """A set of axes from None (all), an integer or a tuple of integers."""
    cdef axes_t axes = 0
    cdef int k
    if axis is None:
        return (<axes_t> 1 << nd) - 1 if nd < 64 else ~(<axes_t> 0)
    if not isinstance(axis, (tuple, list)):
        return <axes_t> 1 << axis_of(axis, nd, function)
    for part in axis:
        k = axis_of(part, nd, function)
        if axes >> k & 1:
            raise ValueError(f"{function}: axis {part} is given twice in {axis}")
        axes |= <axes_t> 1 << k
    return axes


cdef tuple shape_argument(object shape, str function):
    """A tuple of lengths from an integer, a sequence, or the sequence in a 1-tuple."""
    if isinstance(shape, tuple) and len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        shape = shape[0]
    try:
        if isinstance(shape, (int, np.integer)):
            return (operator.index(shape),)
        return tuple([operator.index(length) for length in shape])
    except TypeError:
        raise TypeError(f"{function}: shape must be integers, got {shape!r}") from None


cdef VariableWrapper floats(VariableWrapper x):
    """x, or its values as float64 where they are integers."""
    return x if is_float_type(cnp.PyArray_TYPE(x.data)) else <VariableWrapper> ew.astype(x, cnp.NPY_DOUBLE)


cdef VariableWrapper as_dtype(VariableWrapper x, object dtype):
    return x if dtype is None else <VariableWrapper> astype(x, dtype)


# Elementwise, one operand ---------------------------------------------------------------------------------------------

def negative(x, /):
    """-x, elementwise; the gradient is -g.

    >>> import hookgrad as hg
    >>> hg.negative(hg.tensor([2.]))
    Tensor([-2.], dtype=float32)
    """
    return given(ew.neg(x), "negative", (x,))


def absolute(x, /):
    """|x|, elementwise; the gradient is g sign(x), with 0 at x = 0.

    >>> import hookgrad as hg
    >>> hg.absolute(hg.tensor([-2.]))
    Tensor([2.], dtype=float32)
    """
    return given(ew.absolute(x), "absolute", (x,))


def exp(x, /):
    """e^x, elementwise; the gradient is g e^x.

    >>> import hookgrad as hg
    >>> hg.exp(hg.tensor([0.]))
    Tensor([1.], dtype=float32)
    """
    return given(ew.exp(x), "exp", (x,))


def log(x, /):
    """The natural logarithm of x, elementwise; the gradient is g / x.

    >>> import hookgrad as hg
    >>> hg.log(hg.tensor([1.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.log(x), "log", (x,))


def log1p(x, /):
    """log(1 + x), accurate for small x, elementwise; the gradient is g / (1 + x).

    >>> import hookgrad as hg
    >>> hg.log1p(hg.tensor([0.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.log1p(x), "log1p", (x,))


def expm1(x, /):
    """e^x - 1, accurate for small x, elementwise; the gradient is g e^x.

    >>> import hookgrad as hg
    >>> hg.expm1(hg.tensor([0.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.expm1(x), "expm1", (x,))


def sqrt(x, /):
    """The square root of x, elementwise; the gradient is g / (2 sqrt(x)).

    >>> import hookgrad as hg
    >>> hg.sqrt(hg.tensor([4.]))
    Tensor([2.], dtype=float32)
    """
    return given(ew.sqrt(x), "sqrt", (x,))


def square(x, /):
    """x^2, elementwise; the gradient is 2 g x.

    >>> import hookgrad as hg
    >>> hg.square(hg.tensor([3.]))
    Tensor([9.], dtype=float32)
    """
    return given(ew.square(x), "square", (x,))


def reciprocal(x, /):
    """1 / x, elementwise; the gradient is -g / x^2.

    >>> import hookgrad as hg
    >>> hg.reciprocal(hg.tensor([4.]))
    Tensor([0.25], dtype=float32)
    """
    return given(ew.reciprocal(x), "reciprocal", (x,))


def sin(x, /):
    """The sine of x, in radians, elementwise; the gradient is g cos(x).

    >>> import hookgrad as hg
    >>> hg.sin(hg.tensor([0.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.sin(x), "sin", (x,))


def cos(x, /):
    """The cosine of x, in radians, elementwise; the gradient is -g sin(x).

    >>> import hookgrad as hg
    >>> hg.cos(hg.tensor([0.]))
    Tensor([1.], dtype=float32)
    """
    return given(ew.cos(x), "cos", (x,))


def tanh(x, /):
    """The hyperbolic tangent of x, elementwise; the gradient is g (1 - tanh(x)^2).

    >>> import hookgrad as hg
    >>> hg.tanh(hg.tensor([0.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.tanh(x), "tanh", (x,))


def sigmoid(x, /):
    """1 / (1 + e^-x), elementwise; the gradient is g s (1 - s), for s = sigmoid(x).

    >>> import hookgrad as hg
    >>> hg.sigmoid(hg.tensor([0.]))
    Tensor([0.5], dtype=float32)
    """
    return given(ew.sigmoid(x), "sigmoid", (x,))


def relu(x, /):
    """max(x, 0), elementwise; the gradient is g where x > 0, else 0.

    >>> import hookgrad as hg
    >>> hg.relu(hg.tensor([-1.]))
    Tensor([0.], dtype=float32)
    """
    return given(ew.relu(x), "relu", (x,))


# Elementwise, two operands --------------------------------------------------------------------------------------------

def add(x1, x2, /):
    """x1 + x2, elementwise and broadcast; the gradients are g and g.

    >>> import hookgrad as hg
    >>> hg.add(hg.tensor([3.]), 2.)
    Tensor([5.], dtype=float32)
    """
    return given2(ew.add, "add", x1, x2)


def subtract(x1, x2, /):
    """x1 - x2, elementwise and broadcast; the gradients are g and -g.

    >>> import hookgrad as hg
    >>> hg.subtract(hg.tensor([3.]), 2.)
    Tensor([1.], dtype=float32)
    """
    return given2(ew.sub, "subtract", x1, x2)


def multiply(x1, x2, /):
    """x1 x2, elementwise and broadcast; the gradients are g x2 and g x1.

    >>> import hookgrad as hg
    >>> hg.multiply(hg.tensor([3.]), 2.)
    Tensor([6.], dtype=float32)
    """
    return given2(ew.mul, "multiply", x1, x2)


def divide(x1, x2, /):
    """x1 / x2, elementwise and broadcast; the gradients are g / x2 and -g x1 / x2^2.

    >>> import hookgrad as hg
    >>> hg.divide(hg.tensor([3.]), 2.)
    Tensor([1.5], dtype=float32)
    """
    return given2(ew.div, "divide", x1, x2)


def power(x1, x2, /):
    """x1^x2, elementwise and broadcast.

    The gradients are g x2 x1^(x2 - 1) and g x1^x2 log(x1), each exactly 0 where its factor x2 or x1 is 0.

    >>> import hookgrad as hg
    >>> hg.power(hg.tensor([3.]), 2.)
    Tensor([9.], dtype=float32)
    """
    return given2(ew.power, "power", x1, x2)


def maximum(x1, x2, /):
    """The larger of x1 and x2, elementwise and broadcast; the gradients are g to the larger; a tie gives each half.

    >>> import hookgrad as hg
    >>> hg.maximum(hg.tensor([3.]), 2.)
    Tensor([3.], dtype=float32)
    """
    return given2(ew.maximum, "maximum", x1, x2)


def minimum(x1, x2, /):
    """The smaller of x1 and x2, elementwise and broadcast; the gradients are g to the smaller; a tie gives each half.

    >>> import hookgrad as hg
    >>> hg.minimum(hg.tensor([3.]), 2.)
    Tensor([2.], dtype=float32)
    """
    return given2(ew.minimum, "minimum", x1, x2)


def equal(x1, x2, /):
    """x1 == x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.equal, x1, x2), "equal", (x1, x2))


def not_equal(x1, x2, /):
    """x1 != x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.not_equal, x1, x2), "not_equal", (x1, x2))


def less(x1, x2, /):
    """x1 < x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.less, x1, x2), "less", (x1, x2))


def less_equal(x1, x2, /):
    """x1 <= x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.less_equal, x1, x2), "less_equal", (x1, x2))


def greater(x1, x2, /):
    """x1 > x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.greater, x1, x2), "greater", (x1, x2))


def greater_equal(x1, x2, /):
    """x1 >= x2, elementwise and broadcast: bools, which are data and have no gradient."""
    return given(compare(np.greater_equal, x1, x2), "greater_equal", (x1, x2))


def remainder(x1, x2, /):
    """x1 - x2 floor(x1 / x2), elementwise and broadcast; the gradients are g and -g floor(x1 / x2).

    >>> import hookgrad as hg
    >>> hg.remainder(hg.tensor([5.]), 3.)
    Tensor([2.], dtype=float32)
    """
    return given2(ew.remainder, "remainder", x1, x2)


def floor_divide(x1, x2, /):
    """floor(x1 / x2), elementwise and broadcast: data, since its derivative is 0."""
    return given(data_operator(np.floor_divide, x1, x2), "floor_divide", (x1, x2))


def bitwise_and(x1, x2, /):
    """x1 & x2 of integers or bools, elementwise and broadcast: data."""
    return given(data_operator(np.bitwise_and, x1, x2), "bitwise_and", (x1, x2))


def bitwise_or(x1, x2, /):
    """x1 | x2 of integers or bools, elementwise and broadcast: data."""
    return given(data_operator(np.bitwise_or, x1, x2), "bitwise_or", (x1, x2))


def bitwise_xor(x1, x2, /):
    """x1 ^ x2 of integers or bools, elementwise and broadcast: data."""
    return given(data_operator(np.bitwise_xor, x1, x2), "bitwise_xor", (x1, x2))


def where(condition, x1, x2, /):
    """x1 where condition holds, else x2, broadcast. The branch that is not taken gets a gradient of exactly 0.

    Parameters
    ----------
    condition : Tensor or array_like of bool
        Other dtypes count as true where they are not 0.
    x1, x2 : Tensor or array_like

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.where([True, False], hg.tensor([1., 2.]), 0.)
    Tensor([1., 0.], dtype=float32)
    """
    if not is_variable(x1) and not is_variable(x2):
        x1, x2 = to_variables((x1, x2), "where")
    return given(ew.where(condition, x1, x2), "where", (condition, x1, x2))


def clip(x, min=None, max=None):
    """x held between bounds. The gradient passes where min <= x <= max, on the bounds too; elsewhere it goes to the
    bound, if that is a tensor that requires grad.

    Parameters
    ----------
    x : Tensor or array_like
    min, max : Tensor, array_like or None
        Broadcast against x; None: no bound.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.clip(hg.tensor([-2., 0., 2.]), -1., 1.)
    Tensor([-1.,  0.,  1.], dtype=float32)
    """
    if min is None and max is None:
        return copy(to_variable(x, "clip"))
    if not is_variable(min) and not is_variable(max):
        x = to_variable(x, "clip")
    return given(ew.clip(x, min, max), "clip", (x, min, max))


def astype(x, dtype, /):
    """x in another dtype; x itself where it has it. Between float32 and float64 the gradient is cast back.

    Raises
    ------
    TypeError
        The dtype is not bool, an integer, float32 or float64.
    """
    cdef object wanted = np.dtype(dtype)
    if wanted.kind not in "biuf" or (wanted.kind == "f" and wanted.itemsize not in (4, 8)):
        raise TypeError(f"astype: got dtype {wanted}, expected bool, an integer, float32 or float64")
    return ew.astype(to_variable(x, "astype"), (<cnp.dtype> wanted).type_num)


def copy(x, /):
    """A copy of x, recorded: its gradient flows back to x."""
    cdef VariableWrapper t = to_variable(x, "copy")
    if not is_float_type(cnp.PyArray_TYPE(t.data)):
        return wrap(as_array((<object> t.data).copy()))
    return ew.copy(t)


# Reductions -----------------------------------------------------------------------------------------------------------


cdef object reduced(reduction_fn fn, object numpy_form, str name, object x, object axis, bint keepdims, object dtype):
    """A reduction of floats by fn, of integers by NumPy's function."""
    cdef VariableWrapper t = as_dtype(to_variable(x, name), dtype)
    cdef axes_t axes = axes_of(axis, cnp.PyArray_NDIM(t.data), name)
    if is_float_type(cnp.PyArray_TYPE(t.data)):
        return fn(t, axes, keepdims)
    if numpy_form is None:
        return fn(floats(t), axes, keepdims)
    return wrap(as_array(quietly(numpy_form, (t.data,), {
        "axis": tuple(axis) if isinstance(axis, list) else axis, "keepdims": keepdims})))


def sum(x, axis=None, dtype=None, keepdims=False):
    """The sum over axes. The gradient is g, repeated over them.

    Parameters
    ----------
    x : Tensor or array_like
    axis : int or tuple of int, optional
        None: all axes.
    dtype : dtype, optional
        Cast x to it first.
    keepdims : bool
        Keep the reduced axes, of length 1.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis that x does not have.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.sum(hg.tensor([1., 2., 3.]))
    Tensor(6., dtype=float32)
    """
    return reduced(reduction.sum, np.sum, "sum", x, axis, keepdims, dtype)


def mean(x, axis=None, dtype=None, keepdims=False):
    """The mean over axes. The gradient is g / n, repeated over them.

    Parameters
    ----------
    x : Tensor or array_like
    axis : int or tuple of int, optional
        None: all axes.
    dtype : dtype, optional
        Cast x to it first.
    keepdims : bool
        Keep the reduced axes, of length 1.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis that x does not have.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.mean(hg.tensor([1., 2., 3.]))
    Tensor(2., dtype=float32)
    """
    return reduced(reduction.mean, None, "mean", x, axis, keepdims, dtype)


def prod(x, axis=None, dtype=None, keepdims=False):
    """The product over axes. The gradient is g times the product of the other elements, right with any number of zeros.

    Parameters
    ----------
    x : Tensor or array_like
    axis : int or tuple of int, optional
        None: all axes.
    dtype : dtype, optional
        Cast x to it first.
    keepdims : bool
        Keep the reduced axes, of length 1.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis that x does not have.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.prod(hg.tensor([1., 2., 3.]))
    Tensor(6., dtype=float32)
    """
    return reduced(reduction.prod, np.prod, "prod", x, axis, keepdims, dtype)


def max(x, axis=None, keepdims=False):
    """The largest element over axes. Elements that tie share the gradient equally.

    Parameters are those of `sum`.

    Raises
    ------
    ValueError
        There are no elements to reduce.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.max(hg.tensor([1., 3.]))
    Tensor(3., dtype=float32)
    """
    return reduced(reduction.amax, np.max, "max", x, axis, keepdims, None)


def min(x, axis=None, keepdims=False):
    """The smallest element over axes. Elements that tie share the gradient equally.

    Parameters are those of `sum`.

    Raises
    ------
    ValueError
        There are no elements to reduce.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.min(hg.tensor([1., 3.]))
    Tensor(1., dtype=float32)
    """
    return reduced(reduction.amin, np.min, "min", x, axis, keepdims, None)


def var(x, axis=None, dtype=None, ddof=0, keepdims=False, correction=None):
    """The variance over axes. The gradient is 2 g (x - mean) / (n - ddof).

    Parameters
    ----------
    x : Tensor or array_like
    axis : int or tuple of int, optional
        None: all axes.
    dtype : dtype, optional
        Cast x to it first.
    ddof : int or float
        The divisor is n - ddof.
    keepdims : bool
        Keep the reduced axes, of length 1.
    correction : int or float, optional
        The array API standard's name for ddof.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.var(hg.tensor([1., 3.]))
    Tensor(1., dtype=float32)
    """
    cdef VariableWrapper t = floats(as_dtype(to_variable(x, "var"), dtype))
    if correction is not None:
        if ddof != 0:
            raise ValueError("var: ddof and correction are two names for one thing; give one of them")
        ddof = correction
    return reduction.var(t, axes_of(axis, cnp.PyArray_NDIM(t.data), "var"), keepdims, ddof)


def std(x, axis=None, dtype=None, ddof=0, keepdims=False, correction=None):
    """The standard deviation over axes.

    The gradient is g (x - mean) / (n - ddof) / std, and exactly 0 where the deviation is 0.

    Parameters
    ----------
    x : Tensor or array_like
    axis : int or tuple of int, optional
        None: all axes.
    dtype : dtype, optional
        Cast x to it first.
    ddof : int or float
        The divisor is n - ddof.
    keepdims : bool
        Keep the reduced axes, of length 1.
    correction : int or float, optional
        The array API standard's name for ddof.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.std(hg.tensor([1., 3.]))
    Tensor(1., dtype=float32)
    """
    cdef VariableWrapper t = floats(as_dtype(to_variable(x, "std"), dtype))
    if correction is not None:
        if ddof != 0:
            raise ValueError("std: ddof and correction are two names for one thing; give one of them")
        ddof = correction
    return reduction.std(t, axes_of(axis, cnp.PyArray_NDIM(t.data), "std"), keepdims, ddof)


def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) over axes, without overflow. The gradient is g softmax(x).

    Parameters are those of `sum`.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.logsumexp(hg.tensor([1000., 1000.])).item() > 1000
    True
    """
    return reduced(reduction.logsumexp, None, "logsumexp", x, axis, keepdims, None)


def cumsum(x, axis=None, dtype=None):
    """The cumulative sum along an axis. The gradient is the cumulative sum of g from the end.

    Parameters
    ----------
    x : Tensor or array_like
    axis : int, optional
        None: of the flattened tensor.
    dtype : dtype, optional
        Cast x to it first.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.cumsum(hg.tensor([1., 2., 3.]))
    Tensor([1., 3., 6.], dtype=float32)
    """
    cdef VariableWrapper t = as_dtype(to_variable(x, "cumsum"), dtype)
    if axis is None:
        t = shapes.reshape(t, (cnp.PyArray_SIZE(t.data),))
        axis = 0
    cdef int k = axis_of(axis, cnp.PyArray_NDIM(t.data), "cumsum")
    if not is_float_type(cnp.PyArray_TYPE(t.data)):
        return wrap(as_array(np.cumsum(t.data, k)))
    return reduction.cumsum(t, k)


def any(x, axis=None, keepdims=False):
    """Whether any element over axes is true: data, without a gradient."""
    return wrap(as_array(np.any(to_variable(x, "any").data, axis=axis, keepdims=keepdims)))


def all(x, axis=None, keepdims=False):
    """Whether all elements over axes are true: data, without a gradient."""
    return wrap(as_array(np.all(to_variable(x, "all").data, axis=axis, keepdims=keepdims)))


# Products -------------------------------------------------------------------------------------------------------------


def matmul(x1, x2, /):
    """The matrix product, with NumPy's rules: a vector is a row on the left and a column on the right, and leading axes
    broadcast. The gradients are g x2^T and x1^T g.

    Parameters
    ----------
    x1, x2 : Tensor or array_like
        Of at least one axis each.

    Raises
    ------
    ValueError
        The shapes do not fit, or an operand has no axes.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.matmul(hg.tensor([1., 2.]), hg.tensor([3., 4.]))
    Tensor(11., dtype=float32)
    """
    x1, x2 = to_variables((x1, x2), "matmul")
    return matmul_checked(x1, x2)


def dot(x1, x2, /):
    """NumPy's dot: the last axis of x1 with the last but one of x2 (its only one for a vector); with a number, the
    product.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.dot(hg.tensor([1., 2.]), hg.tensor([3., 4.]))
    Tensor(11., dtype=float32)
    """
    cdef VariableWrapper a, b
    a, b = to_variables((x1, x2), "dot")
    cdef int na = cnp.PyArray_NDIM(a.data), nb = cnp.PyArray_NDIM(b.data)
    if na == 0 or nb == 0:
        return given2(ew.mul, "dot", x1, x2)
    if a.shape[na - 1] != b.shape[nb - 2 if nb > 1 else 0]:
        raise ValueError(f"dot: shapes {a.shape} and {b.shape} do not fit: the last axis of the first and the last but "
                         f"one of the second (its only one, for a vector) must be equal")
    if nb <= 2:
        return matmul_checked(a, b)
    # Two matrices: (rest of x1, k) @ (k, rest of x2).
    cdef tuple order = (nb - 2,) + tuple(range(nb - 2)) + (nb - 1,)
    cdef tuple left = a.shape[:na - 1], right = b.shape[:nb - 2] + b.shape[nb - 1:]
    cdef object k = a.shape[na - 1]
    rows = shapes.reshape(a, (int(np.prod(left)), k))
    columns = shapes.reshape(shapes.transpose(b, order), (k, int(np.prod(right))))
    return shapes.reshape(matmul_checked(rows, columns), left + right)


# Shape ----------------------------------------------------------------------------------------------------------------


def reshape(x, /, *shape):
    """x with another shape, as integers or as one tuple; one length may be -1. A view where NumPy gives one.

    Raises
    ------
    ValueError
        The number of elements differs.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.arange(4.).reshape(2, -1).shape
    (2, 2)
    """
    cdef VariableWrapper t = to_variable(x, "reshape")
    cdef tuple wanted = shape_argument(shape, "reshape")
    try:
        return shapes.reshape(t, wanted)
    except ValueError:
        raise ValueError(f"reshape: a tensor of shape {t.shape} and {t.size} elements cannot become shape "
                         f"{wanted}") from None


def transpose(x, /, *axes):
    """A view of x with its axes in another order; without axes, reversed.

    Raises
    ------
    ValueError
        The axes are not a permutation of x's.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.zeros((2, 3, 4)).transpose(2, 0, 1).shape
    (4, 2, 3)
    """
    cdef VariableWrapper t = to_variable(x, "transpose")
    cdef int nd = cnp.PyArray_NDIM(t.data)
    if len(axes) == 0 or (len(axes) == 1 and axes[0] is None):
        return shapes.transpose(t, tuple(range(nd - 1, -1, -1)))
    order = tuple([axis_of(axis, nd, "transpose") for axis in shape_argument(axes, "transpose")])
    if sorted(order) != list(range(nd)):
        raise ValueError(f"transpose: axes {order} are not a permutation of the {nd} axes of shape {t.shape}")
    return shapes.transpose(t, order)


def squeeze(x, axis=None):
    """A view of x without axes of length 1: all, or those given.

    Raises
    ------
    ValueError
        An axis that was given has another length.
    """
    cdef VariableWrapper t = to_variable(x, "squeeze")
    cdef int nd = cnp.PyArray_NDIM(t.data), k
    cdef axes_t axes = axes_of(axis, nd, "squeeze")
    cdef list kept = []
    for k, length in enumerate(t.shape):
        if not (axes >> k) & 1 or (axis is None and length != 1):
            kept.append(length)
        elif length != 1:
            raise ValueError(f"squeeze: axis {k} of shape {t.shape} has length {length}, expected 1")
    return shapes.reshape(t, tuple(kept))


def expand_dims(x, axis):
    """A view of x with new axes of length 1 at these places of the result."""
    cdef VariableWrapper t = to_variable(x, "expand_dims")
    cdef tuple places = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    cdef int nd = cnp.PyArray_NDIM(t.data) + <int> len(places)
    cdef axes_t axes = axes_of(places, nd, "expand_dims")
    lengths = iter(t.shape)
    return shapes.reshape(t, tuple([1 if (axes >> k) & 1 else next(lengths) for k in range(nd)]))


def broadcast_to(x, shape, /):
    """A read-only view of x with a larger shape. The gradient is summed over what was repeated.

    Raises
    ------
    ValueError
        x does not broadcast to the shape.
    """
    cdef VariableWrapper t = to_variable(x, "broadcast_to")
    cdef tuple wanted = shape_argument((shape,) if not isinstance(shape, tuple) else shape, "broadcast_to")
    try:
        return shapes.broadcast_to(t, wanted)
    except ValueError:
        raise ValueError(f"broadcast_to: shape {t.shape} does not broadcast to {wanted}") from None


cdef list joined(object tensors, str name):
    """The tensors to join, all of the dtype that they promote to."""
    cdef list xs
    if is_variable(tensors) or not isinstance(tensors, (list, tuple, cnp.ndarray)):
        if not is_variable(tensors):
            raise TypeError(f"{name}: got {type(tensors).__name__}, expected a sequence of tensors")
    xs = to_variables(tuple(tensors), name)
    if not xs:
        raise ValueError(f"{name}: got no tensors, expected at least one")
    dtype = np.result_type(*[(<VariableWrapper> x).data for x in xs])
    return [ew.astype(x, (<cnp.dtype> dtype).type_num) for x in xs]


def concatenate(tensors, axis=0):
    """Join tensors along an axis that they have; None flattens them first.

    Parameters
    ----------
    tensors : sequence of Tensor or array_like
        Of equal shape but for that axis; dtypes are promoted.
    axis : int or None

    Raises
    ------
    ValueError
        No tensors, or shapes that differ elsewhere.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.concatenate([hg.tensor([1.]), hg.tensor([2.])])
    Tensor([1., 2.], dtype=float32)
    """
    cdef list xs = joined(tensors, "concatenate")
    if axis is None:
        xs = [shapes.reshape(x, (x.size,)) for x in xs]
        axis = 0
    cdef int nd = xs[0].ndim, k = axis_of(axis, nd, "concatenate")
    for x in xs:
        if x.ndim != nd or x.shape[:k] + x.shape[k + 1:] != xs[0].shape[:k] + xs[0].shape[k + 1:]:
            raise ValueError(f"concatenate: shapes {[t.shape for t in xs]} differ outside axis {k}")
    return shapes.concatenate(xs, k)


def stack(tensors, axis=0):
    """Join tensors of one shape along a new axis.

    Raises
    ------
    ValueError
        No tensors, or different shapes.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.stack([hg.tensor([1., 2.]), hg.tensor([3., 4.])], axis=1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    cdef list xs = joined(tensors, "stack")
    for x in xs:
        if x.shape != xs[0].shape:
            raise ValueError(f"stack: shapes {[t.shape for t in xs]} differ, and all must be equal")
    return shapes.stack(xs, axis_of(axis, xs[0].ndim + 1, "stack"))


# Networks -------------------------------------------------------------------------------------------------------------


def softmax(x, axis=-1):
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.nn.functional.softmax(hg.tensor([0., 0.]))
    Tensor([0.5, 0.5], dtype=float32)
    """
    cdef VariableWrapper t = floats(to_variable(x, "softmax"))
    return losses.softmax(t, axis_of(axis, cnp.PyArray_NDIM(t.data), "softmax"))


def log_softmax(x, axis=-1):
    """x - log(sum(exp(x))) along an axis, without overflow."""
    cdef VariableWrapper t = floats(to_variable(x, "log_softmax"))
    return losses.log_softmax(t, axis_of(axis, cnp.PyArray_NDIM(t.data), "log_softmax"))


def cross_entropy(logits, labels):
    """The mean over rows of -log softmax(logits)[label].

    Parameters
    ----------
    logits : Tensor, shape (rows, classes)
    labels : Tensor or array_like of int, shape (rows,)
        From 0 to classes - 1.

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    ValueError
        Another shape, no rows, or a label out of range.
    TypeError
        Labels that are not integers.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.nn.functional.cross_entropy(hg.tensor([[0., 0.]]), [1])
    Tensor(0.6931472, dtype=float32)
    """
    cdef VariableWrapper t = floats(to_variable(logits, "cross_entropy"))
    cdef object y = to_variable(labels, "cross_entropy").data
    if t.ndim != 2 or y.shape != t.shape[:1] or t.shape[0] == 0:
        raise ValueError(f"cross_entropy: got logits of shape {t.shape} and labels of shape {y.shape}, expected "
                         f"(rows, classes) and (rows,), with at least one row")
    if y.dtype.kind not in "iu":
        raise TypeError(f"cross_entropy: got labels of dtype {y.dtype}, expected integers")
    if y.min() < 0 or y.max() >= t.shape[1]:
        raise ValueError(f"cross_entropy: labels go from {y.min()} to {y.max()}, expected 0 to {t.shape[1] - 1}")
    return losses.cross_entropy(t, np.array(y, dtype=np.intp, order="C"))


def mse_loss(prediction, target):
    """The mean of the squared differences, over all elements.

    Raises
    ------
    ValueError
        The shapes differ: broadcasting here is nearly always a mistake.

    Examples
    --------
    >>> import hookgrad as hg
    >>> hg.nn.functional.mse_loss(hg.tensor([1., 2.]), [1., 4.])
    Tensor(2., dtype=float32)
    """
    cdef VariableWrapper p, t
    p, t = to_variables((prediction, target), "mse_loss")
    if not is_float_type(cnp.PyArray_TYPE(p.data)) and not is_float_type(cnp.PyArray_TYPE(t.data)):
        p, t = floats(p), floats(t)     # the difference of unsigned integers would wrap around
    if p.shape != t.shape:
        raise ValueError(f"mse_loss: got shapes {p.shape} and {t.shape}, expected equal ones")
    difference = floats(ew.sub(p, t))
    return reduction.mean(ew.square(difference), reduction.all_axes(difference), False)
