"""Operations that change the shape alone, and the two that undo broadcasting."""

cimport numpy as cnp

from hookgrad._core.grad_node cimport GradNode

cdef object reshape(object x, tuple shape)
cdef object transpose(object x, tuple axes)
cdef object swap_last(object x)
cdef object broadcast_to(object x, tuple shape)
cdef object sum_to(object x, tuple shape)
cdef object concatenate(list xs, int axis)
cdef object stack(list xs, int axis)

cdef tuple broadcast_note(object a, object b, cnp.ndarray out)
cdef object unbroadcast(GradNode node, int i, object g)
