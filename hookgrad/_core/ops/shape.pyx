"""Operations that change the shape alone, and the two that undo broadcasting.

These need no arithmetic, so every other operation builds on them. `broadcast_to` and `sum_to` are each other's VJP,
as are `concatenate` and the slices.
"""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.grad_mode cimport is_recording
from hookgrad._core.grad_node cimport Op, named, new_node
from hookgrad._core.ops.indexing cimport slice_axis, take_axis
from hookgrad._core.inner_loops cimport ADD
from hookgrad._core.kernels cimport broadcast_view, is_ndarray, reduce, same_shape
from hookgrad._core.record cimport array_of, finish, finish_view, node_of
from hookgrad._core.variable cimport is_variable, wrap, wrap_recorded, wrap_unrecorded

cnp.import_array()

cdef object np_concatenate = np.concatenate
cdef object np_stack = np.stack


cdef inline tuple shape_of(cnp.ndarray a):
    return (<object> a).shape


# Reshape, transpose ---------------------------------------------------------------------------------------------------


@cython.final
cdef class Reshape(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return reshape(g, <tuple> node.aux)


@cython.final
cdef class Transpose(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return transpose(g, <tuple> node.aux)


cdef Op RESHAPE = named(Reshape.__new__(Reshape), "reshape")
cdef Op TRANSPOSE = named(Transpose.__new__(Transpose), "transpose")


cdef object reshape(object x, tuple shape):
    """x with another shape, all lengths given; a view where NumPy gives one."""
    cdef cnp.ndarray a = array_of(x)
    return finish_view(RESHAPE, (<object> a).reshape(shape), x, shape_of(a))


cdef object transpose(object x, tuple axes):
    """A view with the axes in the given order, a permutation of 0 ... ndim - 1."""
    cdef cnp.ndarray a = array_of(x)
    cdef list inverse = [0] * len(axes)
    cdef int position, axis
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return finish_view(TRANSPOSE, (<object> a).transpose(axes), x, tuple(inverse))


cdef object swap_last(object x):
    """A view with the last two axes swapped."""
    cdef int nd = cnp.PyArray_NDIM(array_of(x))
    return transpose(x, tuple(range(nd - 2)) + (nd - 1, nd - 2))


# Broadcasting and its adjoint -----------------------------------------------------------------------------------------


@cython.final
cdef class BroadcastTo(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return sum_to(g, <tuple> node.aux)


@cython.final
cdef class SumTo(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return broadcast_to(g, <tuple> node.aux)


cdef Op BROADCAST_TO = named(BroadcastTo.__new__(BroadcastTo), "broadcast_to")
cdef Op SUM_TO = named(SumTo.__new__(SumTo), "sum_to")


cdef object broadcast_to(object x, tuple shape):
    """A read-only view of a larger shape."""
    cdef cnp.ndarray a = array_of(x)
    return finish_view(BROADCAST_TO, broadcast_view(a, shape), x, shape_of(a))


cdef object sum_to(object x, tuple shape):
    """x summed over the axes along which an array of `shape` was repeated to give x's shape."""
    cdef cnp.ndarray a = array_of(x)
    cdef cnp.ndarray out
    cdef int nd = cnp.PyArray_NDIM(a), lead = nd - len(shape), axis
    cdef unsigned long long axes = 0
    cdef bint inner = False
    for axis in range(nd):
        if axis < lead:
            axes |= 1ull << axis
        elif cnp.PyArray_DIMS(a)[axis] != <cnp.npy_intp> shape[axis - lead]:
            axes |= 1ull << axis
            inner = True
    if axes == 0:
        return x
    out = reduce(ADD, a, axes, inner)
    if inner and lead:
        out = (<object> out).reshape(shape)
    return finish(SUM_TO, out, x, None, None, None, shape_of(a))


cdef tuple broadcast_note(object a, object b, cnp.ndarray out):
    """What `unbroadcast` needs to know of two operands: their shapes, or None where neither was broadcast."""
    if (not is_ndarray(a) or same_shape(<cnp.ndarray> a, out)) and (
            not is_ndarray(b) or same_shape(<cnp.ndarray> b, out)):
        return None
    return (a.shape if is_ndarray(a) else None, b.shape if is_ndarray(b) else None)


cdef object unbroadcast(GradNode node, int i, object g):
    """The gradient of input i, whose shape `broadcast_note` kept in `aux`."""
    return g if node.aux is None else sum_to(g, <tuple> (<tuple> node.aux)[i])


# Joining --------------------------------------------------------------------------------------------------------------


@cython.final
cdef class Concatenate(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: axis, offsets of the parts
        cdef tuple offsets = (<tuple> node.aux)[1]
        return slice_axis(g, (<tuple> node.aux)[0], offsets[i], offsets[i + 1])


@cython.final
cdef class Stack(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return take_axis(g, <int> node.aux, i)


cdef Op CONCATENATE = named(Concatenate.__new__(Concatenate), "concatenate")
cdef Op STACK = named(Stack.__new__(Stack), "stack")


cdef object finish_many(Op op, cnp.ndarray out, list xs, object aux):
    """`record.finish` for any number of inputs that save nothing."""
    cdef GradNode node
    cdef bint tensors = False, needs = False
    for x in xs:
        tensors = tensors or is_variable(x)
        needs = needs or node_of(x) is not None
    if not tensors:
        return out
    if not needs:
        return wrap(out)
    if not is_recording():
        return wrap_unrecorded(out)
    node = new_node(op)
    node.edges = len(xs)
    node.next0 = node_of(xs[0])
    if node.edges > 1:
        node.next1 = node_of(xs[1])
    if node.edges > 2:
        node.next_more = [node_of(x) for x in xs[2:]]
    node.aux = aux
    return wrap_recorded(out, node)


cdef object concatenate(list xs, int axis):
    """Arrays or tensors of one dtype joined along an axis that they have."""
    cdef list arrays = [array_of(x) for x in xs]
    cdef list offsets = [0]
    for a in arrays:
        offsets.append(offsets[len(offsets) - 1] + a.shape[axis])
    return finish_many(CONCATENATE, np_concatenate(arrays, axis), xs, (axis, tuple(offsets)))


cdef object stack(list xs, int axis):
    """Arrays or tensors of one dtype and shape joined along a new axis, counted from the front."""
    return finish_many(STACK, np_stack([array_of(x) for x in xs], axis), xs, axis)
