"""Softmax and the cross-entropy loss, each one node with one derivative instead of the five that they are made of."""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.ops cimport elementwise as ew
from hookgrad._core cimport inner_loops as loops
from hookgrad._core.grad_node cimport GradNode, Op, named
from hookgrad._core.kernels cimport binary, binary_into, is_ndarray, reduce, unary, unary_into
from hookgrad._core.record cimport array_of, finish, saved, saved_data, saved_output
from hookgrad._core.ops.reduction cimport axes_t, sum

cnp.import_array()


cdef cnp.ndarray shifted(cnp.ndarray a, axes_t axes):
    """a minus its maximum along the axis, so that exp does not overflow."""
    return binary(loops.SUBTRACT, a, reduce(loops.MAXIMUM, a, axes, True))


cdef cnp.ndarray softmax_forward(cnp.ndarray a, axes_t axes):
    cdef cnp.ndarray y
    if cnp.PyArray_SIZE(a) == 0:
        return <cnp.ndarray> cnp.PyArray_NewCopy(a, cnp.NPY_CORDER)
    y = unary_into(loops.EXP, shifted(a, axes))
    return binary_into(loops.DIVIDE, y, reduce(loops.ADD, y, axes, True))


cdef cnp.ndarray log_softmax_forward(cnp.ndarray a, axes_t axes):
    cdef cnp.ndarray y
    if cnp.PyArray_SIZE(a) == 0:
        return <cnp.ndarray> cnp.PyArray_NewCopy(a, cnp.NPY_CORDER)
    y = shifted(a, axes)
    return binary_into(
        loops.SUBTRACT, y, unary_into(loops.LOG, reduce(loops.ADD, unary(loops.EXP, y), axes, True)))


@cython.final
cdef class Softmax(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # y (g - sum(g y))
        cdef object y = saved_output(node)
        cdef object total = sum(ew.mul(g, y), <axes_t> 1 << <int> node.aux, True)
        return ew.mul_into(ew.sub(g, total), y)


@cython.final
cdef class LogSoftmax(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # g - softmax(x) sum(g)
        cdef object total = sum(g, <axes_t> 1 << <int> node.aux, True)
        return ew.sub(g, ew.mul_into(ew.exp(saved_output(node)), total))


cdef Op SOFTMAX = named(Softmax.__new__(Softmax), "softmax")
cdef Op LOG_SOFTMAX = named(LogSoftmax.__new__(LogSoftmax), "log_softmax")


cdef object softmax(object x, int axis):
    """exp(x) / sum(exp(x)) along an axis, counted from the front."""
    cdef cnp.ndarray out = softmax_forward(array_of(x), <axes_t> 1 << axis)
    return finish(SOFTMAX, out, x, None, None, out, axis)


cdef object log_softmax(object x, int axis):
    """x - log(sum(exp(x))) along an axis, counted from the front."""
    cdef cnp.ndarray out = log_softmax_forward(array_of(x), <axes_t> 1 << axis)
    return finish(LOG_SOFTMAX, out, x, None, None, out, axis)


# Cross-entropy --------------------------------------------------------------------------------------------------------


ctypedef fused floating:
    float
    double


cdef double picked(floating *logs, cnp.npy_intp *labels, cnp.npy_intp rows, cnp.npy_intp classes) noexcept nogil:
    """The sum of the labels' log-probabilities."""
    cdef cnp.npy_intp r
    cdef double total = 0
    for r in range(rows):
        total += logs[r * classes + labels[r]]
    return total


cdef void fill_gradient(floating *logs, floating *out, cnp.npy_intp *labels, cnp.npy_intp rows, cnp.npy_intp classes,
                        double scale) noexcept nogil:
    """out = (exp(logs) - onehot(labels)) scale; out holds exp(logs) already."""
    cdef cnp.npy_intp r, c
    cdef floating s = <floating> scale
    for r in range(rows):
        out[r * classes + labels[r]] -= 1
        for c in range(classes):
            out[r * classes + c] *= s


@cython.final
cdef class CrossEntropy(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # (softmax(logits) - onehot(labels)) g / rows; in place 1 the log-probabilities, for a plain backward.
        cdef cnp.ndarray labels = <cnp.ndarray> node.aux
        cdef cnp.ndarray logs, out
        cdef double scale
        cdef object onehot
        cdef cnp.npy_intp rows = cnp.PyArray_DIMS(labels)[0]
        if is_ndarray(g):
            logs = <cnp.ndarray> saved_data(node, 1)
            out = unary(loops.EXP, logs)
            if cnp.PyArray_TYPE(logs) == cnp.NPY_FLOAT:
                scale = (<float *> cnp.PyArray_DATA(<cnp.ndarray> g))[0]
                fill_gradient[float](
                    <float *> cnp.PyArray_DATA(logs), <float *> cnp.PyArray_DATA(out),
                    <cnp.npy_intp *> cnp.PyArray_DATA(labels), rows, cnp.PyArray_DIMS(logs)[1], scale / rows)
            else:
                scale = (<double *> cnp.PyArray_DATA(<cnp.ndarray> g))[0]
                fill_gradient[double](
                    <double *> cnp.PyArray_DATA(logs), <double *> cnp.PyArray_DATA(out),
                    <cnp.npy_intp *> cnp.PyArray_DATA(labels), rows, cnp.PyArray_DIMS(logs)[1], scale / rows)
            return out
        logs = <cnp.ndarray> node.saved1
        onehot = np.zeros_like(logs)
        onehot[np.arange(rows), labels] = 1
        return ew.mul(ew.sub(softmax(saved(node, 0), 1), onehot), ew.div(g, <double> rows))


cdef Op CROSS_ENTROPY = named(CrossEntropy.__new__(CrossEntropy), "cross_entropy")


cdef object cross_entropy(object logits, object labels):
    """The mean of -log softmax(logits)[labels], for logits (rows, classes) and checked labels (rows,) of intp."""
    cdef cnp.ndarray a = array_of(logits), where = <cnp.ndarray> labels
    cdef cnp.ndarray logs = log_softmax_forward(<cnp.ndarray> cnp.PyArray_GETCONTIGUOUS(a), 2)
    cdef cnp.npy_intp rows = cnp.PyArray_DIMS(a)[0], classes = cnp.PyArray_DIMS(a)[1]
    cdef double total
    if cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT:
        total = picked[float](<float *> cnp.PyArray_DATA(logs), <cnp.npy_intp *> cnp.PyArray_DATA(where), rows, classes)
    else:
        total = picked[double](
            <double *> cnp.PyArray_DATA(logs), <cnp.npy_intp *> cnp.PyArray_DATA(where), rows, classes)
    cdef cnp.ndarray out = <cnp.ndarray> cnp.PyArray_ZEROS(0, NULL, cnp.PyArray_TYPE(a), 0)
    if cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT:
        (<float *> cnp.PyArray_DATA(out))[0] = <float> (-total / rows)
    else:
        (<double *> cnp.PyArray_DATA(out))[0] = -total / rows
    return finish(CROSS_ENTROPY, out, logits, None, a, logs, where)
