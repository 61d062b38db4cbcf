"""Recording an operation, and reading back what it saved.

Note [Arrays or tensors]
------------------------
The functions that compute (`elementwise.mul`, `shape.reshape`, ...) take ndarrays and VariableWrappers. From arrays
alone they give an array: nothing is wrapped and nothing recorded. As soon as an operand is a VariableWrapper they give
one, and record it where it needs a gradient and recording is on. So a VJP is written once: a plain backward feeds it
arrays, one with ``create_graph`` feeds it tensors.

An array operand is of a float dtype that its op can use as it is; only the public functions (functions.pyx,
operators.pyx) are given anything else, and wrap it.
"""

import numpy as np

from hookgrad._core.grad_mode cimport is_recording
from hookgrad._core.grad_node cimport SAVED_OUTPUT, new_node
from hookgrad._core.kernels cimport as_array, cast, is_float_type, is_ndarray, quietly
from hookgrad._core.variable cimport is_variable, wrap, wrap_recorded, wrap_unrecorded
from hookgrad._core.versions cimport check_unchanged, now

cnp.import_array()


cdef cnp.ndarray array_of(object x):
    """The array of a tensor, or the array itself."""
    return (<VariableWrapper> x).data if is_variable(x) else <cnp.ndarray?> x


cdef GradNode node_of(object x):
    """The node of a tensor that needs a gradient; None for anything else."""
    return (<VariableWrapper> x).node if is_variable(x) else None


cdef bint is_variable_or_array(object x) noexcept:
    return is_ndarray(x) or is_variable(x)


cdef object operand(object x, str function):
    """x as a tensor, an ndarray or a Python number (bools included); NotImplemented for what is none of these.

    A list of Python floats becomes float64 here; `operands` gives it the dtype that it is used in.

    Raises
    ------
    TypeError, ValueError
        A dtype that is not bool, an integer, float32 or float64; a ragged list.
    """
    if is_variable(x) or type(x) is float or type(x) is int or type(x) is bool:
        return x
    if x is None or isinstance(x, (str, bytes, dict, set)):
        return NotImplemented
    if getattr(type(x), "__array_ufunc__", 0) is None:
        return NotImplemented       # it asks NumPy's operators to leave the operation to it
    if isinstance(x, (list, tuple)) and is_recording() and requires_grad_inside(x):
        raise TypeError(f"{function}: got a list of tensors that require grad, which would lose their gradient on the "
                        f"way into one array; join them with hg.stack or hg.concatenate")
    try:
        a = as_array(x)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None
    if a.dtype.kind == "O" and not isinstance(x, (list, tuple, cnp.ndarray)):
        return NotImplemented
    return checked(a, function)


cdef bint requires_grad_inside(object x):
    """Whether a nested list has a tensor that requires grad."""
    for item in x:
        if is_variable(item):
            if (<VariableWrapper> item).node is not None:
                return True
        elif isinstance(item, (list, tuple)) and requires_grad_inside(item):
            return True
    return False


cdef bint is_weak(object x):
    """Whether x leaves the dtype to the others: a Python number, or a list of Python floats."""
    if isinstance(x, (list, tuple)):
        return not has_numpy_values(x)
    return type(x) is float or type(x) is int or type(x) is bool


cdef object strong_dtype(tuple xs, list values):
    """The float dtype that lists of Python floats are read in: that of the other operands, else float32."""
    cdef list strong = [array_of(value) if is_variable(value) else value
                        for x, value in zip(xs, values) if not is_weak(x) and value is not NotImplemented]
    if strong:
        dtype = np.result_type(*strong)
        if is_float_type((<cnp.dtype> dtype).type_num):
            return dtype
    return np.dtype(np.float32)


cdef list operands(tuple xs, str function):
    """`operand` of each, with lists of Python floats in the dtype of the others."""
    cdef list values = [operand(x, function) for x in xs]
    cdef Py_ssize_t k
    for k in range(len(values)):
        if isinstance(xs[k], (list, tuple)) and cnp.PyArray_TYPE(<cnp.ndarray> values[k]) == cnp.NPY_DOUBLE and (
                is_weak(xs[k])):
            values[k] = cast(<cnp.ndarray> values[k], (<cnp.dtype> strong_dtype(xs, values)).type_num)
    return values


cdef list to_variables(tuple xs, str function):
    """Tensors from operands: Python numbers and lists of Python floats in the dtype of the others.

    Raises
    ------
    TypeError, ValueError
        One cannot be a tensor.
    """
    cdef list values = operands(xs, function)
    cdef Py_ssize_t k
    for k in range(len(values)):
        if type(values[k]) is float or type(values[k]) is int or type(values[k]) is bool:
            if any_strong(xs) or type(values[k]) is float:
                values[k] = np.asarray(values[k], strong_dtype(xs, values))
        values[k] = to_variable(xs[k] if values[k] is NotImplemented else values[k], function)
    return values


cdef bint any_strong(tuple xs):
    for x in xs:
        if not is_weak(x):
            return True
    return False


cdef cnp.ndarray checked(cnp.ndarray a, str function):
    """An array of a dtype that a tensor can have.

    Raises
    ------
    TypeError
        It has another.
    """
    cdef str kind = (<object> a).dtype.kind
    if kind in "biu" or (kind == "f" and cnp.PyArray_ITEMSIZE(a) in (4, 8)):
        return a
    raise TypeError(f"{function}: an array of dtype {(<object> a).dtype} cannot be a tensor: hookgrad takes float32, "
                    f"float64, integers and bool; convert it with .astype")


cdef cnp.ndarray array_from(object x):
    """x as an ndarray; a nested list of Python floats makes float32, as everywhere in hookgrad."""
    cdef cnp.ndarray a = as_array(x)
    if cnp.PyArray_TYPE(a) == cnp.NPY_DOUBLE and isinstance(x, (list, tuple, float)) and not has_numpy_values(x):
        return cast(a, cnp.NPY_FLOAT)
    return a


cdef bint has_numpy_values(object x):
    """Whether a number or a nested list has values whose dtype is NumPy's: arrays, NumPy's numbers, tensors."""
    if isinstance(x, (list, tuple)):
        for item in x:
            if type(item) is not float and type(item) is not int and has_numpy_values(item):
                return True
        return False
    return isinstance(x, (cnp.ndarray, np.generic)) or is_variable(x)


cdef VariableWrapper to_variable(object x, str function):
    """x as a tensor, for a function of that name.

    Raises
    ------
    TypeError, ValueError
        It cannot be one.
    """
    cdef object value
    if is_variable(x):
        return <VariableWrapper> x
    value = operands((x,), function)[0]
    if value is NotImplemented:
        raise TypeError(f"{function}: got {type(x).__name__}, expected a Tensor, an ndarray, a number or a list of "
                        f"numbers")
    return wrap(<cnp.ndarray> value if is_ndarray(value) else checked(array_from(value), function))


cdef object finish(Op op, cnp.ndarray out, object a, object b, object saved0, object saved1, object aux):
    """What an operation of one or two inputs returns: the array, a tensor, or a recorded tensor.

    `saved0` and `saved1` are kept only if the result is recorded; `saved1` may be `out` itself.
    """
    cdef GradNode na, nb, node
    if not is_variable(a) and not is_variable(b):
        return out
    na = node_of(a)
    nb = node_of(b)
    if na is None and nb is None:
        return wrap(out)
    if not is_recording():
        return wrap_unrecorded(out)
    node = new_node(op)
    node.edges = 1 if b is None else 2
    node.next0 = na
    node.next1 = nb
    node.saved0 = saved0
    node.saved1 = saved1
    if saved1 is out:
        node.flags |= SAVED_OUTPUT
    node.aux = aux
    node.clock = now()
    return wrap_recorded(out, node)


cdef object finish_view(Op op, cnp.ndarray out, object x, object aux):
    """`finish` for an operation of one input whose output may share its memory: what is read-only stays so."""
    cdef object result = finish(op, out, x, None, None, None, aux)
    if is_variable(x) and (<VariableWrapper> x).read_only:
        (<VariableWrapper> result).read_only = True
    return result


cdef object attach(object value, GradNode node):
    """A tensor around a saved array, at its own place in the graph."""
    cdef VariableWrapper out
    if node is None or not is_ndarray(value):
        return value
    out = wrap(<cnp.ndarray> value)
    out.node = node
    return out


cdef object saved_data(GradNode node, int k):
    """What the node saved in place k, as data.

    Raises
    ------
    RuntimeError
        It was changed in place since.
    """
    cdef object value = node.saved0 if k == 0 else node.saved1
    if node.clock != now():
        check_unchanged(value, node.clock, node.op.name,
                        "output" if k == 1 and node.flags & SAVED_OUTPUT else f"input {k}")
    return value


cdef object saved(GradNode node, int k):
    """Input k, saved in place k: an array, a number, or under recording a tensor with its history."""
    cdef object value = saved_data(node, k)
    return attach(value, node.next_node(k)) if is_recording() else value


cdef object saved_output(GradNode node):
    """The node's own output, saved in place 1."""
    cdef object value = saved_data(node, 1)
    return attach(value, node) if is_recording() else value


def as_tensor_array(object data, str function, object dtype=None):
    """Data as an array that a tensor can hold, its memory shared where it can be.

    Raises
    ------
    TypeError, ValueError
        It cannot be one: a dtype that tensors do not have, a ragged list.
    """
    cdef object value
    if dtype is None or is_variable(data):
        value = to_variable(data, function).data
    else:
        # Not by way of float32, which Python floats make where no dtype is given.
        value = operand(data, function)
        value = to_variable(data, function).data if value is NotImplemented else np.asarray(value)
    return value if dtype is None else quietly(value.astype, (dtype,), {"copy": False})
