"""The hook classes. Subclass the abstract ones in Cython to run hooks without Python in the call."""

from hookgrad._core.grad_node cimport GradNode
from hookgrad._core.hook_map cimport Hook
from hookgrad._core.variable cimport VariableWrapper

# Changes `size` contiguous values of `itemsize` bytes (4: float32, 8: float64) in place; 0 for success.
ctypedef int (*inplace_function)(void *values, Py_ssize_t size, Py_ssize_t itemsize, void *user_data) noexcept nogil


cdef class VariableWrapperHook(Hook):
    cdef VariableWrapper call(self, VariableWrapper grad)


cdef class PyVariableWrapperHook(VariableWrapperHook):
    cdef readonly object function


cdef class InplaceVariableWrapperHook(Hook):
    cdef int call(self, VariableWrapper grad) except -1


cdef class PyInplaceVariableWrapperHook(InplaceVariableWrapperHook):
    cdef readonly object function


cdef class LambdaInplaceVariableWrapperHook(InplaceVariableWrapperHook):
    cdef inplace_function function
    cdef void *user_data
    cdef object keep_alive


cdef object run_gradient_hooks(GradNode node, object g)
cdef int run_reduce_hooks(GradNode node, VariableWrapper leaf, tuple hooks) except -1
cdef int run_final_hooks(tuple hooks, str tensor) except -1
cdef str describe(GradNode node, VariableWrapper variable, object shape)
