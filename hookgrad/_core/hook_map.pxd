"""The ordered map of a tensor's hooks."""

from libc.stdint cimport int64_t


cdef enum HookKind:
    GRADIENT = 0            # on the gradient of one backward
    INPLACE = 1             # on a leaf's accumulated gradient, in place
    POST_ACCUMULATE = 2     # on the leaf itself, after accumulation
    FINAL = 3               # when the whole backward is over


cdef class HookEntry:
    cdef readonly int64_t id
    cdef readonly HookKind kind
    cdef readonly object hook
    cdef readonly bint removed
    cdef object code            # of the frame that registered it
    cdef int line


cdef class HookMap:
    cdef dict entries           # id -> HookEntry, in the order of registration
    cdef tuple cached           # the entries of the GRADIENT kind, None when out of date
    cdef object owner_name      # the tensor's name when the first hook was registered
    cdef readonly bint has_reduce_hooks
    cdef readonly bint has_final_hooks
    cdef object __weakref__

    cdef HookEntry add(self, object hook, HookKind kind)
    cdef tuple of_kind(self, int first, int last)
    cdef tuple gradient_hooks(self)
