"""Matrix products."""

cdef object matmul(object a, object b)
