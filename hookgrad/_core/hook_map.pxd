"""The ordered map of a tensor's hooks."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef enum HookKind:
    GRADIENT = 0            # on the gradient of one backward
    INPLACE = 1             # on a leaf's accumulated gradient, in place
    POST_ACCUMULATE = 2     # on the leaf itself, after accumulation
    FINAL = 3               # when the whole backward is over


cdef class Hook:
    cdef readonly int64_t id
    cdef readonly int kind
    cdef readonly bint removed
    cdef object code            # of the frame that registered it
    cdef int instruction        # where in the code

    cdef object target(self)


cdef class HookMap:
    cdef Hook only              # the hook, if there is exactly one
    cdef dict hooks             # id -> hook in the order of registration, if there were ever more
    cdef tuple cached           # the gradient hooks, None when out of date
    cdef object owner_name      # the tensor's name when the first hook was registered
    cdef Py_ssize_t reduce_hooks    # how many
    cdef Py_ssize_t final_hooks
    cdef PyObject *helpers      # the living helpers, a doubly linked list, borrowed

    cdef HookRemoveHelper add(self, Hook hook, HookKind kind)
    cdef bint remove(self, int64_t id) except -1
    cdef list all(self)
    cdef tuple of_kind(self, int first, int last)
    cdef tuple gradient_hooks(self)


cdef class HookRemoveHelper:
    cdef readonly int64_t id
    cdef PyObject *map          # borrowed; NULL when it is gone
    cdef PyObject *before       # the neighbours in the map's list
    cdef PyObject *after
    cdef object __weakref__
