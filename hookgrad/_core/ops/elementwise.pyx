"""Elementwise operations: each a forward by an inner loop and a VJP in terms of these same operations.

See Note [Arrays or tensors] in record.pyx for what the functions take. Formulas are the textbook ones; at points where
a derivative does not exist the field's convention holds: relu'(0) = abs'(0) = 0, a tie of maximum or minimum gives each
side half, clip passes the gradient on its bounds. What is not selected gets an exact zero, even from an infinite
gradient: hence `masked` and not a product with 0.
"""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core cimport inner_loops as loops
from hookgrad._core.grad_mode cimport is_recording
from hookgrad._core.grad_node cimport SAVED_OUTPUT, GradNode, Op, named, new_node
from hookgrad._core.inner_loops cimport InnerLoop
from hookgrad._core.kernels cimport (
    as_array, binary, binary_into, cast, is_float_type, is_ndarray, quietly, unary, unary_into)
from hookgrad._core.record cimport (
    array_of, finish, is_variable_or_array, node_of, operand, operands, saved, saved_data, saved_output, to_variable)
from hookgrad._core.ops.shape cimport broadcast_note, sum_to, unbroadcast
from hookgrad._core.variable cimport VariableWrapper, is_variable, wrap, wrap_recorded, wrap_unrecorded
from hookgrad._core.versions cimport now

cnp.import_array()

cdef object result_type = np.result_type
cdef object np_where = np.where


cdef inline object raw(object x):
    """The array of a tensor; anything else as it is."""
    return (<VariableWrapper> x).data if is_variable(x) else x


cdef inline int loop_type(cnp.ndarray a) noexcept:
    """The type number of an array that an inner loop takes as it is; -1 for any other."""
    cdef int typenum = cnp.PyArray_TYPE(a)
    return typenum if is_float_type(typenum) and cnp.PyArray_ISBEHAVED_RO(a) else -1


# Two operands ---------------------------------------------------------------------------------------------------------


cdef enum Saves:
    NOTHING = 0
    OTHER = 1       # for the gradient of one input, the other input
    BOTH = 2
    FIRST_AND_OUTPUT = 3


cdef class BinaryOp(Op):
    cdef InnerLoop loop
    cdef int saves


cdef object apply2(BinaryOp op, object a, object b):
    """a op b for tensors, arrays and numbers; NotImplemented where an operand is nothing that can be a tensor."""
    cdef object x, y
    cdef GradNode na = None, nb = None, node
    cdef cnp.ndarray out
    cdef int ta, tb, saves
    cdef bint tensors = False
    if is_variable(a):
        x = (<VariableWrapper> a).data
        na = (<VariableWrapper> a).node
        tensors = True
    else:
        x = a
    if is_variable(b):
        y = (<VariableWrapper> b).data
        nb = (<VariableWrapper> b).node
        tensors = True
    else:
        y = b
    # Two arrays of one float dtype, or one and a Python number: anything else is converted first.
    if is_ndarray(x):
        ta = loop_type(<cnp.ndarray> x)
        tb = loop_type(<cnp.ndarray> y) if is_ndarray(y) else (
            ta if type(y) is float or type(y) is int else -1)
    elif is_ndarray(y):
        tb = loop_type(<cnp.ndarray> y)
        ta = tb if type(x) is float or type(x) is int else -1
    else:
        ta = tb = -1
    if ta != tb or ta < 0:
        return apply2_mixed(op, a, b)
    out = binary(op.loop, x, y)
    if not tensors:
        return out
    if na is None and nb is None:
        return wrap(out)
    if not is_recording():
        return wrap_unrecorded(out)
    node = new_node(op)
    node.edges = 2
    node.next0 = na
    node.next1 = nb
    saves = op.saves
    if saves == OTHER:
        if nb is not None:
            node.saved0 = x
        if na is not None:
            node.saved1 = y
    elif saves == BOTH:
        node.saved0 = x
        node.saved1 = y
    node.aux = broadcast_note(x, y, out)
    node.clock = now()
    return wrap_recorded(out, node)


cdef object apply2_mixed(BinaryOp op, object a, object b):
    """`apply2` with operands of other types or of two dtypes: NumPy 2's promotion, then casts that are recorded."""
    cdef object x, y, dtype
    cdef int typenum
    x, y = operands((a, b), op.name)
    if x is NotImplemented or y is NotImplemented:
        return NotImplemented
    dtype = result_type(raw(x), raw(y))
    typenum = (<cnp.dtype> dtype).type_num
    if not is_float_type(typenum):
        if (<str> dtype.kind) == "f" or (<str> dtype.kind) == "c":
            raise TypeError(f"{op.name}: the operands promote to {dtype}; hookgrad takes float32, float64, integers "
                            f"and bool")
        return wrap(as_array(quietly(op.loop.ufunc, (raw(x), raw(y)))))
    if not is_ndarray(raw(x)) and not is_ndarray(raw(y)):
        x = np.asarray(x, dtype)
    x = astype(x, typenum) if is_ndarray(raw(x)) else float(x) if type(x) is bool else x
    y = astype(y, typenum) if is_ndarray(raw(y)) else float(y) if type(y) is bool else y
    return apply2(op, x, y)


cdef inline object recorded_or_plain(BinaryOp op, object a, object b):
    """`apply2` without its checks where the first operand is an array: inside a plain backward."""
    if is_ndarray(a) and not is_variable(b):
        return binary(op.loop, a, b)
    return apply2(op, a, b)


@cython.final
cdef class Add(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return unbroadcast(node, i, g)


@cython.final
cdef class Subtract(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return unbroadcast(node, i, g if i == 0 else neg_into(g))


@cython.final
cdef class Multiply(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return unbroadcast(node, i, mul_into(g, saved(node, 1 - i)))


@cython.final
cdef class Divide(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        cdef object b = saved(node, 1)
        if i == 0:
            return unbroadcast(node, 0, div_into(g, b))
        # -g (a / b) / b: b^2 would overflow long before the result does.
        return unbroadcast(node, 1, neg_into(mul_into(div_into(div(saved(node, 0), b), b), g)))


@cython.final
cdef class Power(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        cdef object a = saved(node, 0), b = saved(node, 1)
        cdef object base = saved_data(node, 0), exponent = saved_data(node, 1)
        if i == 0:
            # b a^(b - 1); exactly 0 for b = 0, also where a^(b - 1) is not finite.
            if not is_ndarray(exponent):
                if exponent == 0:
                    return unbroadcast(node, 0, masked(g, np.False_))
                return unbroadcast(node, 0, mul(g, mul(power(a, exponent - 1), exponent)))
            zero = np.equal(exponent, 0)
            if not zero.any():
                slope = mul(power(a, sub(b, 1.0)), b)
            elif is_ndarray(g):
                slope = masked(mul(power(a, sub(b, 1.0)), b), np.logical_not(zero))
            else:
                # Not masked: the slope's own derivative in b is a^(b - 1).
                unsafe = zero & np.logical_not(np.isfinite(quietly(np.power, (base, -1.0))))
                slope = mul(power(a, where(unsafe, 1.0, sub(b, 1.0))), b)
            return unbroadcast(node, 0, mul(g, slope))
        # a^b log a; exactly 0 for a = 0, b >= 0, where log a is -inf.
        zero = np.logical_and(np.equal(base, 0), np.greater_equal(exponent, 0))
        if is_ndarray(base):
            slope = mul(power(a, b), log(where(zero, 1.0, a)))
        else:
            slope = mul(power(a, b), float(quietly(np.log, (base,))) if base != 0 else -np.inf)
        return unbroadcast(node, 1, where(zero, 0.0, mul(slope, g)))


@cython.final
cdef class Remainder(BinaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        # x1 - x2 floor(x1 / x2), with the slope of floor 0
        if i == 0:
            return unbroadcast(node, 0, g)
        whole = as_array(quietly(np.floor_divide, (saved_data(node, 0), saved_data(node, 1))))
        return unbroadcast(node, 1, neg_into(mul(g, whole)))


cdef class Extremum(BinaryOp):
    """maximum and minimum: `loop` picks, `beats` says where the first operand strictly wins."""
    cdef object beats

    cdef object vjp(self, GradNode node, object g, int i):
        cdef object a = saved_data(node, 0), b = saved_data(node, 1)
        wins = self.beats(a, b) if i == 0 else self.beats(b, a)
        ties = np.equal(a, b)
        if ties.any():
            return unbroadcast(node, i, where(ties, mul(g, 0.5), masked(g, wins)))
        return unbroadcast(node, i, masked(g, wins))


cdef BinaryOp binary_op(BinaryOp op, str name, InnerLoop loop, int saves):
    op.name = name
    op.loop = loop
    op.saves = saves
    return op


cdef BinaryOp ADD = binary_op(Add.__new__(Add), "add", loops.ADD, NOTHING)
cdef BinaryOp SUBTRACT = binary_op(Subtract.__new__(Subtract), "subtract", loops.SUBTRACT, NOTHING)
cdef BinaryOp MULTIPLY = binary_op(Multiply.__new__(Multiply), "multiply", loops.MULTIPLY, OTHER)
cdef BinaryOp DIVIDE = binary_op(Divide.__new__(Divide), "divide", loops.DIVIDE, BOTH)
cdef BinaryOp POWER = binary_op(Power.__new__(Power), "power", loops.POWER, BOTH)
cdef BinaryOp REMAINDER = binary_op(Remainder.__new__(Remainder), "remainder", loops.REMAINDER, BOTH)
cdef Extremum MAXIMUM = binary_op(Extremum.__new__(Extremum), "maximum", loops.MAXIMUM, BOTH)
cdef Extremum MINIMUM = binary_op(Extremum.__new__(Extremum), "minimum", loops.MINIMUM, BOTH)
MAXIMUM.beats = np.greater
MINIMUM.beats = np.less


cdef object add(object a, object b):
    return recorded_or_plain(ADD, a, b)


cdef object sub(object a, object b):
    return recorded_or_plain(SUBTRACT, a, b)


cdef object mul(object a, object b):
    return recorded_or_plain(MULTIPLY, a, b)


cdef object mul_into(object a, object b):
    if is_ndarray(a) and not is_variable(b):
        return binary_into(loops.MULTIPLY, a, b)
    return apply2(MULTIPLY, a, b)


cdef object div(object a, object b):
    return recorded_or_plain(DIVIDE, a, b)


cdef object div_into(object a, object b):
    if is_ndarray(a) and not is_variable(b):
        return binary_into(loops.DIVIDE, a, b)
    return apply2(DIVIDE, a, b)


cdef object power(object a, object b):
    # The exponents for which NumPy's ** has a loop of its own.
    if (type(b) is float or type(b) is int) and is_variable_or_array(a) and (
            is_float_type(cnp.PyArray_TYPE(array_of(a)))):
        if b == 2:
            return square(a)
        if b == 1:
            return copy(a)
        if b == 0.5:
            return sqrt(a)
        if b == -1:
            return reciprocal(a)
    return recorded_or_plain(POWER, a, b)


cdef object remainder(object a, object b):
    return recorded_or_plain(REMAINDER, a, b)


cdef object maximum(object a, object b):
    return recorded_or_plain(MAXIMUM, a, b)


cdef object minimum(object a, object b):
    return recorded_or_plain(MINIMUM, a, b)


# One operand ----------------------------------------------------------------------------------------------------------


cdef class UnaryOp(Op):
    """An op whose forward is one inner loop, and which saves its input, its output or nothing."""
    cdef InnerLoop loop
    cdef bint saves_input
    cdef bint saves_output

    cdef cnp.ndarray forward(self, cnp.ndarray x):
        return unary(self.loop, x)


cdef object apply1(UnaryOp op, object a):
    """op(a) for a tensor or an array; NotImplemented for what cannot be a tensor."""
    cdef cnp.ndarray x, out
    cdef GradNode node
    if is_variable(a):
        x = (<VariableWrapper> a).data
        if not is_float_type(cnp.PyArray_TYPE(x)):
            return apply1_mixed(op, a)
        out = op.forward(x)
        if (<VariableWrapper> a).node is None:
            return wrap(out)
        if not is_recording():
            return wrap_unrecorded(out)
        node = new_node(op)
        node.edges = 1
        node.next0 = (<VariableWrapper> a).node
        if op.saves_input:
            node.saved0 = x
        if op.saves_output:
            node.saved1 = out
            node.flags = SAVED_OUTPUT
        node.clock = now()
        return wrap_recorded(out, node)
    if is_ndarray(a) and loop_type(<cnp.ndarray> a) >= 0:
        return op.forward(<cnp.ndarray> a)
    return apply1_mixed(op, a)


cdef object apply1_mixed(UnaryOp op, object a):
    """`apply1` for numbers, lists and integers. An integer array stays one where NumPy's function keeps it so."""
    cdef object x = operand(a, op.name)
    cdef cnp.ndarray out
    if x is NotImplemented:
        return x
    if not is_ndarray(raw(x)):
        x = to_variable(x, op.name)
    if is_float_type(cnp.PyArray_TYPE(array_of(x))):
        return apply1(op, wrap(array_of(x)))
    if op is RELU:
        return wrap(as_array(np.maximum(raw(x), 0)))
    if op.loop is not None:
        out = as_array(quietly(op.loop.ufunc, (raw(x),)))
        if out.dtype.kind in "biu" or is_float_type(cnp.PyArray_TYPE(out)):
            return wrap(out)
    return apply1(op, wrap(cast(array_of(x), cnp.NPY_DOUBLE)))


@cython.final
cdef class Negative(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return neg_into(g)


@cython.final
cdef class Absolute(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return mul_into(g, unary(loops.SIGN, <cnp.ndarray> saved_data(node, 0)))


@cython.final
cdef class Exp(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return mul_into(g, saved_output(node))


@cython.final
cdef class Log(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return div_into(g, saved(node, 0))


@cython.final
cdef class Log1p(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return div_into(g, add(saved(node, 0), 1.0))


@cython.final
cdef class Expm1(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return mul_into(g, add(saved_output(node), 1.0))


@cython.final
cdef class Sqrt(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return div_into(mul_into(g, 0.5), saved_output(node))


@cython.final
cdef class Square(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return mul_into(mul_into(g, saved(node, 0)), 2.0)


@cython.final
cdef class Reciprocal(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return neg_into(mul_into(g, square(saved_output(node))))


@cython.final
cdef class Sin(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return mul_into(g, cos(saved(node, 0)))


@cython.final
cdef class Cos(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        return neg_into(mul_into(g, sin(saved(node, 0))))


@cython.final
cdef class Tanh(UnaryOp):
    cdef object vjp(self, GradNode node, object g, int i):
        if is_ndarray(g):
            return binary_into(loops.TANH_VJP, g, saved_data(node, 1))
        return mul(g, sub(1.0, square(saved_output(node))))


@cython.final
cdef class Sigmoid(UnaryOp):
    cdef cnp.ndarray forward(self, cnp.ndarray x):
        # 1 / (1 + exp(-x)), in one buffer; exp overflows to inf only where the result rounds to 0.
        cdef cnp.ndarray y = unary(loops.NEGATIVE, x)
        y = unary_into(loops.EXP, y)
        y = binary_into(loops.ADD, y, 1.0)
        return unary_into(loops.RECIPROCAL, y)

    cdef object vjp(self, GradNode node, object g, int i):
        if is_ndarray(g):
            return binary_into(loops.SIGMOID_VJP, g, saved_data(node, 1))
        y = saved_output(node)
        return mul(g, mul(y, sub(1.0, y)))


@cython.final
cdef class Relu(UnaryOp):
    cdef cnp.ndarray forward(self, cnp.ndarray x):
        return binary(loops.MAXIMUM, x, 0.0)

    cdef object vjp(self, GradNode node, object g, int i):
        if is_ndarray(g):
            return binary_into(loops.GATE, g, saved_data(node, 1))
        return masked(g, np.greater(saved_data(node, 1), 0))


@cython.final
cdef class Copy(UnaryOp):
    """Another tensor of the same values, and the gradient as it is."""
    cdef cnp.ndarray forward(self, cnp.ndarray x):
        return <cnp.ndarray> cnp.PyArray_NewCopy(x, cnp.NPY_CORDER)

    cdef object vjp(self, GradNode node, object g, int i):
        return g


cdef UnaryOp unary_op(UnaryOp op, str name, InnerLoop loop, bint saves_input, bint saves_output):
    op.name = name
    op.loop = loop
    op.saves_input = saves_input
    op.saves_output = saves_output
    return op


cdef UnaryOp NEGATIVE = unary_op(Negative.__new__(Negative), "negative", loops.NEGATIVE, False, False)
cdef UnaryOp ABSOLUTE = unary_op(Absolute.__new__(Absolute), "absolute", loops.ABSOLUTE, True, False)
cdef UnaryOp EXP = unary_op(Exp.__new__(Exp), "exp", loops.EXP, False, True)
cdef UnaryOp LOG = unary_op(Log.__new__(Log), "log", loops.LOG, True, False)
cdef UnaryOp LOG1P = unary_op(Log1p.__new__(Log1p), "log1p", loops.LOG1P, True, False)
cdef UnaryOp EXPM1 = unary_op(Expm1.__new__(Expm1), "expm1", loops.EXPM1, False, True)
cdef UnaryOp SQRT = unary_op(Sqrt.__new__(Sqrt), "sqrt", loops.SQRT, False, True)
cdef UnaryOp SQUARE = unary_op(Square.__new__(Square), "square", loops.SQUARE, True, False)
cdef UnaryOp RECIPROCAL = unary_op(Reciprocal.__new__(Reciprocal), "reciprocal", loops.RECIPROCAL, False, True)
cdef UnaryOp SIN = unary_op(Sin.__new__(Sin), "sin", loops.SIN, True, False)
cdef UnaryOp COS = unary_op(Cos.__new__(Cos), "cos", loops.COS, True, False)
cdef UnaryOp TANH = unary_op(Tanh.__new__(Tanh), "tanh", loops.TANH, False, True)
cdef UnaryOp SIGMOID = unary_op(Sigmoid.__new__(Sigmoid), "sigmoid", None, False, True)
cdef UnaryOp RELU = unary_op(Relu.__new__(Relu), "relu", None, False, True)
cdef UnaryOp COPY = unary_op(Copy.__new__(Copy), "copy", None, False, False)


cdef object neg(object x):
    return apply1(NEGATIVE, x)


cdef object neg_into(object x):
    return unary_into(loops.NEGATIVE, <cnp.ndarray> x) if is_ndarray(x) else apply1(NEGATIVE, x)


cdef object absolute(object x):
    return apply1(ABSOLUTE, x)


cdef object exp(object x):
    return apply1(EXP, x)


cdef object log(object x):
    return apply1(LOG, x)


cdef object log1p(object x):
    return apply1(LOG1P, x)


cdef object expm1(object x):
    return apply1(EXPM1, x)


cdef object sqrt(object x):
    return apply1(SQRT, x)


cdef object square(object x):
    return apply1(SQUARE, x)


cdef object reciprocal(object x):
    return apply1(RECIPROCAL, x)


cdef object sin(object x):
    return apply1(SIN, x)


cdef object cos(object x):
    return apply1(COS, x)


cdef object tanh(object x):
    return apply1(TANH, x)


cdef object sigmoid(object x):
    return apply1(SIGMOID, x)


cdef object relu(object x):
    return apply1(RELU, x)


cdef object copy(object x):
    return apply1(COPY, x)


# Casts ----------------------------------------------------------------------------------------------------------------


@cython.final
cdef class AsType(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return astype(g, <int> node.aux)


cdef Op ASTYPE = named(AsType.__new__(AsType), "astype")


cdef object astype(object x, int typenum):
    """x in another dtype; x itself where it has it. Recorded between the float dtypes."""
    cdef cnp.ndarray a = array_of(x), out = cast(a, typenum)
    if out is a:
        return x
    if not is_float_type(typenum):
        return wrap(out) if is_variable(x) else out
    return finish(ASTYPE, out, x, None, None, None, cnp.PyArray_TYPE(a))


# Selection ------------------------------------------------------------------------------------------------------------


@cython.final
cdef class Masked(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        return masked(g, node.aux)


@cython.final
cdef class Where(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: condition, the shapes of the inputs (see broadcast_note)
        keep = (<tuple> node.aux)[0]
        shapes = (<tuple> node.aux)[1]
        gi = masked(g, keep if i == 0 else np.logical_not(keep))
        return gi if shapes is None else sum_to(gi, <tuple> shapes[i])


@cython.final
cdef class Clip(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: the masks of x, of low and of high; the shapes of the three
        masks, shapes = <tuple> node.aux
        return sum_to(masked(g, masks[i]), <tuple> shapes[i])


cdef Op MASKED = named(Masked.__new__(Masked), "masked")
cdef Op WHERE = named(Where.__new__(Where), "where")
cdef Op CLIP = named(Clip.__new__(Clip), "clip")


cdef object masked(object g, object keep):
    """g where the bool array is true, else exactly 0; keep broadcasts to g's shape."""
    cdef cnp.ndarray a = array_of(g)
    cdef cnp.ndarray mask = as_array(keep)
    return finish(MASKED, binary(loops.MASK, a, mask), g, None, None, None, mask)


cdef object where(object condition, object a, object b):
    """a where condition holds, else b; NotImplemented where an operand cannot be a tensor."""
    cdef object c = operand(condition, "where"), x, y, dtype
    cdef object keep
    cdef cnp.ndarray out
    x, y = operands((a, b), "where")
    if c is NotImplemented or x is NotImplemented or y is NotImplemented:
        return NotImplemented
    keep = np.asarray(raw(c))
    if keep.dtype != np.bool_:
        keep = keep != 0
    check_broadcast("where", (keep, raw(x), raw(y)))
    dtype = result_type(raw(x), raw(y))
    if is_float_type((<cnp.dtype> dtype).type_num):
        if is_ndarray(raw(x)):
            x = astype(x, (<cnp.dtype> dtype).type_num)
        if is_ndarray(raw(y)):
            y = astype(y, (<cnp.dtype> dtype).type_num)
    out = cast(as_array(np_where(keep, raw(x), raw(y))), (<cnp.dtype> dtype).type_num)
    if node_of(x) is None and node_of(y) is None:
        return finish(WHERE, out, x, y, None, None, None)
    return finish(WHERE, out, x, y, None, None, (
        np.array(keep), None if same_shapes(raw(x), raw(y), out) else (
            raw(x).shape if is_ndarray(raw(x)) else (), raw(y).shape if is_ndarray(raw(y)) else ())))


cdef int check_broadcast(str function, tuple arrays) except -1:
    try:
        np.broadcast_shapes(*[np.shape(a) for a in arrays])
    except ValueError:
        shapes = ", ".join([str(np.shape(a)) for a in arrays])
        raise ValueError(f"{function}: shapes {shapes} do not broadcast: on each axis, counted from the last, lengths "
                         f"must be equal or 1") from None
    return 0


cdef bint same_shapes(object x, object y, cnp.ndarray out):
    return ((not is_ndarray(x) or x.shape == (<object> out).shape)
            and (not is_ndarray(y) or y.shape == (<object> out).shape))


cdef object clip(object x, object low, object high):
    """x between its bounds, of which either may be None."""
    cdef object v, lo, hi
    cdef GradNode node
    cdef list inputs
    cdef cnp.ndarray out
    cdef object a, below, above
    # x stands in for a bound that is not there.
    v, lo, hi = operands((x, x if low is None else low, x if high is None else high), "clip")
    lo = None if low is None else lo
    hi = None if high is None else hi
    if v is NotImplemented or lo is NotImplemented or hi is NotImplemented:
        return NotImplemented
    dtype = result_type(*[raw(part) for part in (v, lo, hi) if part is not None])
    if is_float_type((<cnp.dtype> dtype).type_num):
        v, lo, hi = [astype(part, (<cnp.dtype> dtype).type_num) if part is not None and is_ndarray(raw(part)) else part
                     for part in (v, lo, hi)]
    a = raw(v)
    check_broadcast("clip", tuple([raw(part) for part in (v, lo, hi) if part is not None]))
    out = as_array(quietly(np.clip, (a, None if lo is None else raw(lo), None if hi is None else raw(hi))))
    if out.dtype != dtype:
        out = cast(out, (<cnp.dtype> dtype).type_num)
    inputs = [v, lo, hi]
    if node_of(v) is None and node_of(lo) is None and node_of(hi) is None:
        return wrap(out) if is_variable(v) or is_variable(lo) or is_variable(hi) else out
    if not is_recording():
        return wrap_unrecorded(out)
    # np.clip is minimum(maximum(x, low), high): high wins where the bounds cross.
    shape = (<object> out).shape
    raised = a if lo is None else np.maximum(a, raw(lo))
    below = np.zeros(shape, bool) if lo is None else np.less(a, raw(lo))
    above = np.zeros(shape, bool) if hi is None else np.greater(raised, raw(hi))
    node = new_node(CLIP)
    node.edges = 3
    node.next0 = node_of(v)
    node.next1 = node_of(lo)
    node.next_more = [node_of(hi)]
    node.aux = ((np.logical_not(below | above), below & np.logical_not(above), above),
                tuple([np.shape(raw(part)) if part is not None else () for part in inputs]))
    return wrap_recorded(out, node)
