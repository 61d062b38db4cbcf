"""Reductions over axes, given as a set of bits, and cumulative sums. Inputs are of a float dtype.

Every reduction's node keeps in `aux` the shape of the input, the shape of the output with the reduced axes kept as
length 1 (`expanded`), and constants of its own.
"""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.ops cimport elementwise as ew
from hookgrad._core cimport inner_loops as loops
from hookgrad._core.grad_node cimport GradNode, Op, named
from hookgrad._core.kernels cimport as_array, binary, binary_into, quietly, reduce, unary_into
from hookgrad._core.record cimport array_of, finish, saved, saved_data, saved_output
from hookgrad._core.ops.shape cimport broadcast_to, reshape, transpose

cnp.import_array()


cdef axes_t all_axes(object x):
    cdef int nd = cnp.PyArray_NDIM(array_of(x))
    return (1ull << nd) - 1 if nd < 64 else ~0ull


cdef tuple expanded(cnp.ndarray a, axes_t axes):
    """a's shape with the reduced axes as length 1."""
    return tuple([1 if (axes >> axis) & 1 else cnp.PyArray_DIMS(a)[axis] for axis in range(cnp.PyArray_NDIM(a))])


cdef Py_ssize_t count(cnp.ndarray a, axes_t axes):
    """How many elements go into one of the output."""
    cdef int axis
    cdef Py_ssize_t n = 1
    for axis in range(cnp.PyArray_NDIM(a)):
        if (axes >> axis) & 1:
            n *= cnp.PyArray_DIMS(a)[axis]
    return n


cdef object spread(GradNode node, object g):
    """Something of the output's shape, repeated over the reduced axes: of the input's shape."""
    cdef tuple shapes = <tuple> node.aux
    return broadcast_to(reshape(g, <tuple> shapes[1]), <tuple> shapes[0])


cdef tuple note(cnp.ndarray a, axes_t axes, object constant=None):
    return ((<object> a).shape, expanded(a, axes), constant)


# Sum and mean ---------------------------------------------------------------------------------------------------------


@cython.final
cdef class Sum(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return spread(node, g)


@cython.final
cdef class Mean(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return spread(node, ew.div(g, (<tuple> node.aux)[2]))


cdef Op SUM = named(Sum.__new__(Sum), "sum")
cdef Op MEAN = named(Mean.__new__(Mean), "mean")


cdef object sum(object x, axes_t axes, bint keepdims):
    cdef cnp.ndarray a = array_of(x)
    return finish(SUM, reduce(loops.ADD, a, axes, keepdims), x, None, None, None, note(a, axes))


cdef object mean(object x, axes_t axes, bint keepdims):
    cdef cnp.ndarray a = array_of(x)
    cdef object n = float(count(a, axes))
    cdef cnp.ndarray out = binary_into(loops.DIVIDE, reduce(loops.ADD, a, axes, keepdims), n)
    return finish(MEAN, out, x, None, None, None, note(a, axes, n))


# Product --------------------------------------------------------------------------------------------------------------


@cython.final
cdef class Prod(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        cdef cnp.ndarray a = <cnp.ndarray> saved_data(node, 0)
        cdef object x = saved(node, 0)
        if not np.equal(a, 0).any():
            return ew.div(spread(node, ew.mul(g, saved_output(node))), x)
        return ew.mul(spread(node, g), others(x, <axes_t> (<tuple> node.aux)[2]))


cdef object others(object x, axes_t axes):
    """For each element the product of the others that it is reduced with, right with any number of zeros.

    The reduced axes are laid flat (n elements), repeated n times, the diagonal replaced by 1, and multiplied. O(n^2),
    so only for inputs with zeros; in recorded operations, so good to any order.
    """
    cdef cnp.ndarray a = array_of(x)
    cdef int nd = cnp.PyArray_NDIM(a), axis
    cdef list kept = [axis for axis in range(nd) if not (axes >> axis) & 1]
    cdef list reduced = [axis for axis in range(nd) if (axes >> axis) & 1]
    cdef tuple order = tuple(kept + reduced), shape = (<object> a).shape
    cdef tuple rows = tuple([shape[axis] for axis in kept])
    cdef Py_ssize_t n = count(a, axes)
    cdef object moved, flat, repeated, out
    cdef list inverse = [0] * nd
    moved = transpose(x, order)
    flat = reshape(moved, rows + (1, n))
    repeated = ew.where(np.eye(n, dtype=bool), 1.0, broadcast_to(flat, rows + (n, n)))
    out = prod(repeated, <axes_t> 1 << (len(rows) + 1), False)
    for axis in range(nd):
        inverse[<int> order[axis]] = axis
    return transpose(reshape(out, tuple([shape[axis] for axis in order])), tuple(inverse))


cdef Op PROD = named(Prod.__new__(Prod), "prod")


cdef object prod(object x, axes_t axes, bint keepdims):
    cdef cnp.ndarray a = array_of(x), out = reduce(loops.MULTIPLY, a, axes, keepdims)
    return finish(PROD, out, x, None, a, out, note(a, axes, axes))


# Maximum and minimum --------------------------------------------------------------------------------------------------


@cython.final
cdef class ReduceExtremum(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # Elements that tie for the extremum share the gradient equally.
        cdef object a = saved_data(node, 0)
        cdef tuple shapes = <tuple> node.aux
        cdef object best = saved_data(node, 1).reshape(shapes[1])
        ties = np.equal(a, best)
        if np.isnan(best).any():
            ties |= np.isnan(a) & np.isnan(best)
        counts = ties.sum(axis=shapes[2], keepdims=True, dtype=a.dtype)
        return ew.masked(broadcast_to(ew.div(reshape(g, <tuple> shapes[1]), counts), <tuple> shapes[0]), ties)


cdef Op MAX = named(ReduceExtremum.__new__(ReduceExtremum), "max")
cdef Op MIN = named(ReduceExtremum.__new__(ReduceExtremum), "min")


cdef object reduce_extremum(Op op, loops.InnerLoop loop, object x, axes_t axes, bint keepdims):
    cdef cnp.ndarray a = array_of(x), out
    if count(a, axes) == 0:
        raise ValueError(f"{op.name}: no elements to reduce in shape {(<object> a).shape}, and the {op.name} of none "
                         f"is not defined")
    out = reduce(loop, a, axes, keepdims)
    return finish(op, out, x, None, a, out, note(
        a, axes, tuple([axis for axis in range(cnp.PyArray_NDIM(a)) if (axes >> axis) & 1])))


cdef object amax(object x, axes_t axes, bint keepdims):
    return reduce_extremum(MAX, loops.MAXIMUM, x, axes, keepdims)


cdef object amin(object x, axes_t axes, bint keepdims):
    return reduce_extremum(MIN, loops.MINIMUM, x, axes, keepdims)


# Variance and standard deviation --------------------------------------------------------------------------------------


@cython.final
cdef class Var(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # 2 (x - mean) / (n - ddof)
        cdef object x = saved(node, 0)
        cdef tuple constants = <tuple> (<tuple> node.aux)[2]
        deviation = ew.sub(x, mean(x, <axes_t> constants[0], True))
        return ew.mul_into(ew.mul_into(deviation, spread(node, g)), 2.0 / <double> constants[1])


@cython.final
cdef class Std(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # (x - mean) / (n - ddof) / std; exactly 0 where std is 0.
        cdef object x = saved(node, 0), deviation, slope
        cdef tuple constants = <tuple> (<tuple> node.aux)[2]
        cdef object zero = np.equal(saved_data(node, 1), 0)
        deviation = ew.sub(x, mean(x, <axes_t> constants[0], True))
        slope = ew.where(zero, 0.0, ew.div(g, ew.where(zero, 1.0, saved_output(node))))
        return ew.mul_into(ew.mul_into(deviation, spread(node, slope)), 1.0 / <double> constants[1])


cdef Op VAR = named(Var.__new__(Var), "var")
cdef Op STD = named(Std.__new__(Std), "std")


cdef cnp.ndarray variance(cnp.ndarray a, axes_t axes, bint keepdims, double degrees):
    """As NumPy computes it: the mean, then the mean of the squared deviations."""
    cdef cnp.ndarray center = binary_into(
        loops.DIVIDE, reduce(loops.ADD, a, axes, True), <double> count(a, axes))
    cdef cnp.ndarray deviation = binary(loops.SUBTRACT, a, center)
    return binary_into(
        loops.DIVIDE, reduce(loops.ADD, unary_into(loops.SQUARE, deviation), axes, keepdims), degrees)


cdef inline double degrees_of_freedom(cnp.ndarray a, axes_t axes, double ddof):
    return max(<double> count(a, axes) - ddof, 0.0)


cdef object var(object x, axes_t axes, bint keepdims, double ddof):
    cdef cnp.ndarray a = array_of(x)
    cdef double degrees = degrees_of_freedom(a, axes, ddof)
    return finish(VAR, variance(a, axes, keepdims, degrees), x, None, a, None, note(a, axes, (axes, degrees)))


cdef object std(object x, axes_t axes, bint keepdims, double ddof):
    cdef cnp.ndarray a = array_of(x)
    cdef double degrees = degrees_of_freedom(a, axes, ddof)
    cdef cnp.ndarray out = unary_into(loops.SQRT, variance(a, axes, keepdims, degrees))
    return finish(STD, out, x, None, a, out, note(a, axes, (axes, degrees)))


# Log-sum-exp ----------------------------------------------------------------------------------------------------------


@cython.final
cdef class LogSumExp(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # softmax(x) = exp(x - out); an output of -inf (all inputs -inf) gives zeros.
        cdef object out = saved_output(node)
        nothing = np.equal(saved_data(node, 1), -np.inf)
        if nothing.any():
            out = ew.where(nothing, 0.0, out)
        return ew.mul_into(ew.exp(ew.sub(saved(node, 0), spread(node, out))), spread(node, g))


cdef Op LOGSUMEXP = named(LogSumExp.__new__(LogSumExp), "logsumexp")


cdef object logsumexp(object x, axes_t axes, bint keepdims):
    """log(sum(exp(x))), the maximum taken out first."""
    cdef cnp.ndarray a = array_of(x), top, out
    if count(a, axes) == 0:
        raise ValueError(f"logsumexp: no elements to reduce in shape {(<object> a).shape}")
    top = reduce(loops.MAXIMUM, a, axes, True)
    finite = np.isfinite(top)
    if not finite.all():
        top = as_array(np.where(finite, top, top.dtype.type(0)))
    out = reduce(loops.ADD, unary_into(loops.EXP, binary(loops.SUBTRACT, a, top)), axes, keepdims)
    out = unary_into(loops.LOG, out)
    out = binary_into(loops.ADD, out, (<object> top).reshape((<object> out).shape))
    return finish(LOGSUMEXP, out, x, None, a, out, note(a, axes))


# Cumulative sum -------------------------------------------------------------------------------------------------------


@cython.final
cdef class CumSum(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: axis, whether from the end
        return cumulate(g, (<tuple> node.aux)[0], not (<tuple> node.aux)[1])


cdef Op CUMSUM = named(CumSum.__new__(CumSum), "cumsum")


cdef object cumulate(object x, int axis, bint from_end):
    cdef object a = array_of(x)
    if from_end:
        out = np.flip(quietly(np.cumsum, (np.flip(a, axis), axis)), axis)
    else:
        out = quietly(np.cumsum, (a, axis))
    return finish(CUMSUM, as_array(out), x, None, None, None, (axis, from_end))


cdef object cumsum(object x, int axis):
    return cumulate(x, axis, False)
