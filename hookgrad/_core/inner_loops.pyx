"""NumPy's inner loops, looked up once.

A ufunc object carries the compiled SIMD loops it dispatches to (``functions``, ``data`` and ``types`` of
``PyUFuncObject``, public in ``numpy/ufuncobject.h``). Called directly they give NumPy's result bit for bit, without
the 200 to 300 ns that a ufunc call spends on its arguments.

A loop takes aligned operands in native byte order. Every array of a `VariableWrapper` is both, by construction.
Loops set floating-point status flags and nobody reads them here: there are no RuntimeWarnings, as in other autograds.
"""

import numpy as np

cnp.import_array()
cnp.import_ufunc()


cdef class InnerLoop:
    """One ufunc and its inner loops for float32 and float64.

    Raises
    ------
    RuntimeError
        The ufunc of the running NumPy has no loop of its own for float32 or float64.
    """

    def __init__(self, ufunc):
        cdef cnp.ufunc u = ufunc
        cdef Py_ssize_t row
        cdef int k
        self.ufunc = ufunc
        self.name = ufunc.__name__
        for k in range(2):
            letter = "fd"[k]
            signature = f"{letter * ufunc.nin}->{letter * ufunc.nout}"
            # The Python list: NumPy's declarations for Cython lost `types` in 2.5.
            if signature not in ufunc.types:
                raise RuntimeError(
                    f"NumPy {np.__version__} has no {'float32' if k == 0 else 'float64'} inner loop for "
                    f"{self.name}; hookgrad needs NumPy 2.0 or newer")
            row = ufunc.types.index(signature)
            self.typed[k].fn = <loop_fn> <void *> u.functions[row]
            self.typed[k].data = u.data[row]

    def __repr__(self):
        return f"InnerLoop({self.name})"


ADD = InnerLoop(np.add)
SUBTRACT = InnerLoop(np.subtract)
MULTIPLY = InnerLoop(np.multiply)
DIVIDE = InnerLoop(np.divide)
POWER = InnerLoop(np.power)
REMAINDER = InnerLoop(np.remainder)
MAXIMUM = InnerLoop(np.maximum)
MINIMUM = InnerLoop(np.minimum)
NEGATIVE = InnerLoop(np.negative)
ABSOLUTE = InnerLoop(np.absolute)
SIGN = InnerLoop(np.sign)
SQUARE = InnerLoop(np.square)
SQRT = InnerLoop(np.sqrt)
RECIPROCAL = InnerLoop(np.reciprocal)
EXP = InnerLoop(np.exp)
LOG = InnerLoop(np.log)
LOG1P = InnerLoop(np.log1p)
EXPM1 = InnerLoop(np.expm1)
SIN = InnerLoop(np.sin)
COS = InnerLoop(np.cos)
TANH = InnerLoop(np.tanh)
MATMUL = InnerLoop(np.matmul)


# Loops of our own, in the form of NumPy's: the derivatives that would take NumPy several passes. ---------------------

ctypedef fused floating:
    float
    double


cdef inline floating gate_value(floating g, floating y) noexcept nogil:
    return g if y > 0 else 0


cdef inline floating tanh_vjp_value(floating g, floating y) noexcept nogil:
    return g * (1 - y * y)


cdef inline floating sigmoid_vjp_value(floating g, floating y) noexcept nogil:
    return g * (y * (1 - y))


cdef void gate(char **args, cnp.npy_intp *n, cnp.npy_intp *steps, floating *tag) noexcept nogil:
    """args[2] = args[0] where args[1] > 0, else exactly 0."""
    cdef cnp.npy_intp i
    cdef floating *g = <floating *> args[0]
    cdef floating *y = <floating *> args[1]
    cdef floating *out = <floating *> args[2]
    if steps[0] == steps[1] == steps[2] == sizeof(floating):
        for i in range(n[0]):
            out[i] = gate_value(g[i], y[i])
    else:
        for i in range(n[0]):
            (<floating *> (args[2] + i * steps[2]))[0] = gate_value(
                (<floating *> (args[0] + i * steps[0]))[0], (<floating *> (args[1] + i * steps[1]))[0])


cdef void mask(char **args, cnp.npy_intp *n, cnp.npy_intp *steps, floating *tag) noexcept nogil:
    """args[2] = args[0] where the bool args[1] is true, else exactly 0."""
    cdef cnp.npy_intp i
    cdef floating *g = <floating *> args[0]
    cdef char *keep = args[1]
    cdef floating *out = <floating *> args[2]
    if steps[0] == steps[2] == sizeof(floating) and steps[1] == 1:
        for i in range(n[0]):
            out[i] = g[i] if keep[i] else 0
    else:
        for i in range(n[0]):
            (<floating *> (args[2] + i * steps[2]))[0] = (
                (<floating *> (args[0] + i * steps[0]))[0] if (args[1] + i * steps[1])[0] else 0)


cdef void tanh_vjp(char **args, cnp.npy_intp *n, cnp.npy_intp *steps, floating *tag) noexcept nogil:
    """args[2] = g (1 - y^2), for g = args[0] and y = tanh(x) = args[1]."""
    cdef cnp.npy_intp i
    cdef floating *g = <floating *> args[0]
    cdef floating *y = <floating *> args[1]
    cdef floating *out = <floating *> args[2]
    if steps[0] == steps[1] == steps[2] == sizeof(floating):
        for i in range(n[0]):
            out[i] = tanh_vjp_value(g[i], y[i])
    else:
        for i in range(n[0]):
            (<floating *> (args[2] + i * steps[2]))[0] = tanh_vjp_value(
                (<floating *> (args[0] + i * steps[0]))[0], (<floating *> (args[1] + i * steps[1]))[0])


cdef void sigmoid_vjp(char **args, cnp.npy_intp *n, cnp.npy_intp *steps, floating *tag) noexcept nogil:
    """args[2] = g y (1 - y), for g = args[0] and y = sigmoid(x) = args[1]."""
    cdef cnp.npy_intp i
    cdef floating *g = <floating *> args[0]
    cdef floating *y = <floating *> args[1]
    cdef floating *out = <floating *> args[2]
    if steps[0] == steps[1] == steps[2] == sizeof(floating):
        for i in range(n[0]):
            out[i] = sigmoid_vjp_value(g[i], y[i])
    else:
        for i in range(n[0]):
            (<floating *> (args[2] + i * steps[2]))[0] = sigmoid_vjp_value(
                (<floating *> (args[0] + i * steps[0]))[0], (<floating *> (args[1] + i * steps[1]))[0])


cdef InnerLoop own(str name, object numpy_form, void *f4, void *f8):
    """A loop of our own; `numpy_form(g, y)` does the same in NumPy, for operands that the drivers do not take."""
    cdef InnerLoop loop = InnerLoop.__new__(InnerLoop)
    loop.ufunc = numpy_form
    loop.name = name
    loop.typed[0].fn = <loop_fn> f4
    loop.typed[1].fn = <loop_fn> f8
    return loop


GATE = own("gate", lambda g, y: np.where(y > 0, g, g.dtype.type(0)), <void *> gate[float], <void *> gate[double])
MASK = own("mask", lambda g, keep: np.where(keep, g, g.dtype.type(0)), <void *> mask[float], <void *> mask[double])
TANH_VJP = own("tanh_vjp", lambda g, y: g * (1 - y * y), <void *> tanh_vjp[float], <void *> tanh_vjp[double])
SIGMOID_VJP = own(
    "sigmoid_vjp", lambda g, y: g * (y * (1 - y)), <void *> sigmoid_vjp[float], <void *> sigmoid_vjp[double])

#: Every loop of NumPy's that was found, for ``hookgrad info``.
ALL = (ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, REMAINDER, MAXIMUM, MINIMUM, NEGATIVE, ABSOLUTE, SIGN, SQUARE, SQRT,
       RECIPROCAL, EXP, LOG, LOG1P, EXPM1, SIN, COS, TANH, MATMUL)

cdef extern from *:
    """
    #if defined(CYTHON_TRACE_NOGIL) && CYTHON_TRACE_NOGIL
    #define hookgrad_traced 1
    #else
    #define hookgrad_traced 0
    #endif
    """
    const bint hookgrad_traced

#: Whether the core was built with line tracing (HOOKGRAD_TRACE=1), for ``hookgrad info`` and the benchmarks.
TRACED = hookgrad_traced != 0
