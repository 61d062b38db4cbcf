"""Indexing for reading, and its adjoint: a gradient is scattered into zeros, repeated indices adding up."""

import operator

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.grad_node cimport GradNode, Op, named
from hookgrad._core.kernels cimport as_array, is_ndarray
from hookgrad._core.record cimport array_of, finish, finish_view
from hookgrad._core.variable cimport VariableWrapper, is_variable

cnp.import_array()

cdef object np_zeros = np.zeros
cdef object np_add_at = np.add.at


@cython.final
cdef class GetItem(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: index, the input's shape
        return scatter(g, (<tuple> node.aux)[0], <tuple> (<tuple> node.aux)[1])


@cython.final
cdef class Scatter(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return getitem(g, node.aux)


cdef Op GETITEM = named(GetItem.__new__(GetItem), "getitem")
cdef Op SCATTER = named(Scatter.__new__(Scatter), "scatter")


cdef bint may_repeat(object index) noexcept:
    """Whether an index, as `plain_index` makes it, can name one element twice: it has an array of integers."""
    cdef object part
    for part in (<tuple> index if type(index) is tuple else (index,)):
        if is_ndarray(part) and cnp.PyArray_TYPE(<cnp.ndarray> part) != cnp.NPY_BOOL:
            return True
    return False


cdef object plain_index(object part):
    """One part of an index as an integer, a slice of integers, None, Ellipsis, or an array of its own.

    NumPy takes any sequence as an array, and the VJP must not see later changes.
    """
    cdef object a
    if part is None or part is Ellipsis or type(part) is int or isinstance(part, (np.integer, np.bool_, bool)):
        return part
    if isinstance(part, slice):
        return slice(bound(part.start), bound(part.stop), bound(part.step))
    a = np.array((<VariableWrapper> part).data if is_variable(part) else part)
    return a.astype(np.intp) if a.size == 0 and a.dtype.kind == "f" and not isinstance(part, cnp.ndarray) else a


cdef object bound(object x):
    """A slice's bound: an integer or None."""
    return x if x is None or type(x) is int else operator.index(x)


cdef object getitem(object x, object index):
    """x[index], with all of NumPy's indexing.

    Raises
    ------
    IndexError
        As NumPy does.
    """
    cdef cnp.ndarray a = array_of(x)
    if type(index) is tuple:
        index = tuple([plain_index(part) for part in <tuple> index])
    else:
        index = plain_index(index)
    return finish_view(GETITEM, as_array((<object> a)[index]), x, (index, (<object> a).shape))


cdef object scatter(object g, object index, tuple shape):
    """Zeros of `shape` with g added at index."""
    cdef cnp.ndarray a = array_of(g)
    cdef object out = np_zeros(shape, a.descr)
    if may_repeat(index):
        np_add_at(out, index, a)
    else:
        out[index] = a
    return finish(SCATTER, <cnp.ndarray> out, g, None, None, None, index)


cdef object slice_axis(object x, int axis, object start, object stop):
    """x[..., start:stop, ...] along one axis."""
    return getitem(x, (slice(None),) * axis + (slice(start, stop),))


cdef object take_axis(object x, int axis, object position):
    """x[..., position, ...] along one axis, which is dropped."""
    return getitem(x, (slice(None),) * axis + (position,))
