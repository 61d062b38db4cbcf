"""Indexing for reading, and its adjoint."""

cdef object getitem(object x, object index)
cdef object slice_axis(object x, int axis, object start, object stop)
cdef object take_axis(object x, int axis, object position)
