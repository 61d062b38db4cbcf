"""Softmax and the loss that goes with it, along the last axis."""

cdef object softmax(object x, int axis)
cdef object log_softmax(object x, int axis)
cdef object cross_entropy(object logits, object labels)
