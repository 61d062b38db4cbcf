"""In-place changes of arrays, and the check that a saved array was not changed."""

cimport numpy as cnp
from libc.stdint cimport int64_t

cdef int64_t now() noexcept nogil
cdef int mark_changed(cnp.ndarray a) except -1
cdef int check_unchanged(object saved, int64_t clock, str op, str what) except -1
