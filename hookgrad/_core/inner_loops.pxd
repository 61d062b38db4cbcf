"""NumPy's inner loops, looked up once."""

cimport numpy as cnp

ctypedef void (*loop_fn)(char **, cnp.npy_intp *, cnp.npy_intp *, void *) noexcept nogil


cdef struct TypedLoop:
    loop_fn fn
    void *data


cdef class InnerLoop:
    cdef readonly object ufunc
    cdef readonly str name
    cdef TypedLoop typed[2]     # [0] float32, [1] float64


cdef InnerLoop ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, REMAINDER
cdef InnerLoop MAXIMUM, MINIMUM
cdef InnerLoop NEGATIVE, ABSOLUTE, SIGN, SQUARE, SQRT, RECIPROCAL
cdef InnerLoop EXP, LOG, LOG1P, EXPM1, SIN, COS, TANH
cdef InnerLoop MATMUL

# Of our own: gradients times a gate, a mask, or the derivative of an activation, in one pass.
cdef InnerLoop GATE, MASK, TANH_VJP, SIGMOID_VJP
