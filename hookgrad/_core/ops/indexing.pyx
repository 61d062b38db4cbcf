"""Indexing for reading, and its adjoint: a gradient is scattered into zeros, repeated indices adding up."""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.grad_node cimport GradNode, Op, named
from hookgrad._core.kernels cimport as_array
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
    """Whether an index can name one element twice: it has an array of integers."""
    cdef object part
    for part in (<tuple> index if type(index) is tuple else (index,)):
        if isinstance(part, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray> part) != cnp.NPY_BOOL:
            return True
    return False


cdef object plain_index(object part):
    """One part of an index, tensors and lists as arrays of their own: the VJP must not see later changes."""
    if is_variable(part):
        return np.array((<VariableWrapper> part).data)
    if isinstance(part, list):
        return np.array(part, dtype=np.intp) if len(part) == 0 else np.array(part)
    if isinstance(part, cnp.ndarray):
        return np.array(part)
    return part


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
