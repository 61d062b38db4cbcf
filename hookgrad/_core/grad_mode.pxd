"""Whether operations are recorded, for each thread."""

cdef bint is_recording() noexcept nogil
cdef bint set_recording(bint mode) noexcept nogil
