"""Drivers of the inner loops: arrays in, arrays out, nothing known of gradients."""

cimport numpy as cnp
from cpython.object cimport PyObject

from hookgrad._core.inner_loops cimport InnerLoop


cdef inline bint is_ndarray(object x) noexcept:
    """Whether x is exactly an ndarray (a subclass goes through `as_array` first)."""
    return type(x) is cnp.ndarray


cdef inline bint is_float_type(int typenum) noexcept nogil:
    return typenum == cnp.NPY_FLOAT or typenum == cnp.NPY_DOUBLE


cdef inline bint same_shape(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef int i, nd = cnp.PyArray_NDIM(a)
    if nd != cnp.PyArray_NDIM(b):
        return False
    for i in range(nd):
        if cnp.PyArray_DIMS(a)[i] != cnp.PyArray_DIMS(b)[i]:
            return False
    return True


cdef cnp.ndarray empty(int nd, cnp.npy_intp *shape, int typenum)
cdef cnp.ndarray empty_like(cnp.ndarray a)
cdef cnp.ndarray as_array(object x)
cdef cnp.ndarray cast(cnp.ndarray a, int typenum)
cdef cnp.ndarray broadcast_view(cnp.ndarray a, tuple shape)
cdef cnp.ndarray transposed(cnp.ndarray a)
cdef void recycle(PyObject *x) noexcept
cdef bint is_exclusive(PyObject *a) noexcept
cdef object quietly(object function, tuple args, dict kwargs=*)

cdef cnp.ndarray unary(InnerLoop loop, cnp.ndarray a)
cdef cnp.ndarray unary_into(InnerLoop loop, cnp.ndarray a)
cdef cnp.ndarray binary(InnerLoop loop, object a, object b)
cdef cnp.ndarray binary_into(InnerLoop loop, object a, object b)
cdef int binary_out(InnerLoop loop, cnp.ndarray a, object b) except -1
cdef bint may_overlap(cnp.ndarray a, cnp.ndarray b) noexcept
cdef int add_to(cnp.ndarray a, cnp.ndarray b) except -1
cdef cnp.ndarray reduce(InnerLoop loop, cnp.ndarray a, unsigned long long axes, bint keepdims)
cdef cnp.ndarray matmul(cnp.ndarray a, cnp.ndarray b, bint transpose_a=*, bint transpose_b=*)
