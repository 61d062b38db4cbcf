"""The compiled value type."""

cimport numpy as cnp
from cpython.object cimport PyObject

from hookgrad._core.grad_node cimport GradNode
from hookgrad._core.hook_map cimport Hook, HookKind, HookMap, HookRemoveHelper


cdef class VariableWrapper:
    cdef cnp.ndarray data           # exactly an ndarray, aligned, native byte order
    cdef GradNode node              # made it (interior) or takes its gradient (leaf); None: needs no gradient
    cdef GradNode frozen            # a leaf's own node, kept while it does not require grad
    cdef object stored_grad         # None, a VariableWrapper, or an ndarray that nobody has looked at yet
    cdef unsigned int grad_writes   # how often stored_grad was written: see accumulator.place
    cdef bint owns_grad             # nobody else holds the memory of stored_grad while it is an ndarray
    cdef HookMap hooks              # None: none
    cdef readonly object name
    cdef bint unrecorded            # made under no_grad from what requires grad; for messages
    cdef bint read_only             # a gradient that a hook may look at but not change
    cdef object __weakref__

    cdef int set_node(self, GradNode node) except -1
    cdef HookRemoveHelper add_hook(self, Hook hook, HookKind kind)


# The Python subclass that results are made of, set once by the Python layer.
cdef object TensorType

cdef VariableWrapper wrap(cnp.ndarray data)
cdef VariableWrapper wrap_unrecorded(cnp.ndarray data)
cdef VariableWrapper wrap_recorded(cnp.ndarray data, GradNode node)


cdef inline bint is_variable(object x) noexcept:
    return type(x) is TensorType or isinstance(x, VariableWrapper)
