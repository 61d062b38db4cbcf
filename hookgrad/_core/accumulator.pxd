"""Sums a tensor's gradient within one backward, and accumulates a leaf's across backwards."""

from libc.stdint cimport int64_t

from hookgrad._core.grad_node cimport GradNode, RunState
from hookgrad._core.variable cimport VariableWrapper


cdef class GradientAccumulator:
    cdef list staged        # leaf, sum, leaf, sum, ...

    cdef int sum_gradient(self, RunState *state, object g, int64_t sequence) except -1
    cdef object sum_completed(self, RunState *state)
    cdef object call_gradient_hooks(self, GradNode node, object g)
    cdef int accumulate(self, VariableWrapper leaf, object g) except -1
    cdef int call_reduce_hooks(self, GradNode node, VariableWrapper leaf, tuple hooks) except -1
    cdef int stage(self, VariableWrapper leaf, object g) except -1
    cdef int commit(self) except -1


cdef class EagerGradientAccumulator(GradientAccumulator):
    pass


cdef class SortedGradientAccumulator(GradientAccumulator):
    pass


cdef object own_copy(object g)
