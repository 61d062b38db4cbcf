"""The operators of a tensor, and what the functions share with them."""

from hookgrad._core.variable cimport VariableWrapper

cdef object compare(object ufunc, object a, object b)
cdef object data_operator(object ufunc, object a, object b)
cdef object matmul_checked(VariableWrapper a, VariableWrapper b)


cdef class TensorBase(VariableWrapper):
    pass
