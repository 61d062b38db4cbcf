"""Reductions over axes, given as a set of bits, and cumulative sums."""

ctypedef unsigned long long axes_t

cdef axes_t all_axes(object x)
cdef object sum(object x, axes_t axes, bint keepdims)
cdef object mean(object x, axes_t axes, bint keepdims)
cdef object prod(object x, axes_t axes, bint keepdims)
cdef object amax(object x, axes_t axes, bint keepdims)
cdef object amin(object x, axes_t axes, bint keepdims)
cdef object var(object x, axes_t axes, bint keepdims, double ddof)
cdef object std(object x, axes_t axes, bint keepdims, double ddof)
cdef object logsumexp(object x, axes_t axes, bint keepdims)
cdef object cumsum(object x, int axis)
