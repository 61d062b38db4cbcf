"""The operators of a tensor, as slots of a compiled class: no Python frame between `a + b` and its inner loop."""

cimport cython
cimport numpy as cnp

import numpy as np

from hookgrad._core.ops cimport elementwise as ew
from hookgrad._core cimport inner_loops as loops
from hookgrad._core.grad_mode cimport is_recording
from hookgrad._core.ops.indexing cimport getitem
from hookgrad._core.kernels cimport as_array, binary_out, is_float_type, quietly
from hookgrad._core.ops.products cimport matmul
from hookgrad._core.record cimport array_of, node_of, operands, to_variables
from hookgrad._core.variable cimport VariableWrapper, is_variable, wrap
from hookgrad._core.versions cimport mark_changed

cnp.import_array()


cdef object compare(object ufunc, object a, object b):
    """A comparison: data, never recorded."""
    cdef object x, y
    x, y = operands((a, b), ufunc.__name__)
    if x is NotImplemented or y is NotImplemented:
        return NotImplemented
    return wrap(as_array(ufunc(array_of(x) if is_variable(x) else x, array_of(y) if is_variable(y) else y)))


cdef object data_operator(object ufunc, object a, object b):
    """An operator whose derivative is zero or that is for integers: data, never recorded."""
    cdef object x, y
    x, y = operands((a, b), ufunc.__name__)
    if x is NotImplemented or y is NotImplemented:
        return NotImplemented
    return wrap(as_array(quietly(ufunc, (array_of(x) if is_variable(x) else x, array_of(y) if is_variable(y) else y))))


cdef object product(object a, object b):
    """a @ b, for any operands that `matmul` can promote."""
    cdef object x, y
    x, y = operands((a, b), "matmul")
    if x is NotImplemented or y is NotImplemented:
        return NotImplemented
    x, y = to_variables((x, y), "matmul")
    return matmul_checked(x, y)


cdef object matmul_checked(VariableWrapper a, VariableWrapper b):
    cdef int ta = cnp.PyArray_TYPE(a.data), tb = cnp.PyArray_TYPE(b.data)
    if cnp.PyArray_NDIM(a.data) == 0 or cnp.PyArray_NDIM(b.data) == 0:
        raise ValueError(f"matmul: got shapes {a.shape} and {b.shape}, expected at least one axis each; use * for a "
                         f"number")
    if ta == tb and is_float_type(ta):
        return matmul(a, b)
    dtype = np.result_type(a.data, b.data)
    if is_float_type((<cnp.dtype> dtype).type_num):
        return matmul(ew.astype(a, (<cnp.dtype> dtype).type_num), ew.astype(b, (<cnp.dtype> dtype).type_num))
    return wrap(as_array(np.matmul(a.data, b.data)))


cdef object change(VariableWrapper self, loops.InnerLoop loop, object other):
    """self = loop(self, other) in self's memory."""
    cdef object value = operands((self, other), f"in-place {loop.name}")[1]
    if value is NotImplemented:
        if getattr(type(other), "__array_ufunc__", 0) is None:
            return value        # the other type's own operator has its turn
        # Not returned: Python would take it for the result, by way of the slot for sequences.
        raise TypeError(f"in-place {loop.name}: got {type(other).__name__}, expected a Tensor, an ndarray or a number")
    if self.read_only:
        raise RuntimeError(f"in-place {loop.name}: a gradient given to a hook is read-only; return a new tensor from "
                           f"the hook (return grad * 2), or use register_inplace_hook")
    if is_recording():
        if self.node is not None and self.is_leaf:
            raise RuntimeError(f"in-place {loop.name}: a leaf that requires grad cannot be changed while operations "
                               f"are recorded; do it under no_grad()")
        if self.node is not None or node_of(value) is not None:
            raise RuntimeError(f"in-place {loop.name}: an in-place change is not recorded where a gradient is needed; "
                               f"write y = y + x for y += x, or do it under no_grad()")
    binary_out(loop, self.data, array_of(value) if is_variable(value) else value)
    mark_changed(self.data)
    return self


@cython.c_api_binop_methods(True)
cdef class TensorBase(VariableWrapper):
    """`VariableWrapper` with Python's operators. `hookgrad.Tensor` adds names and methods."""

    # Arithmetic. With c_api_binop_methods, `a` may be any object and `b` the tensor.

    def __add__(a, b):
        return ew.add(a, b)

    def __sub__(a, b):
        return ew.sub(a, b)

    def __mul__(a, b):
        return ew.mul(a, b)

    def __truediv__(a, b):
        return ew.div(a, b)

    def __pow__(a, b, modulo):
        if modulo is not None:
            return NotImplemented
        return ew.power(a, b)

    def __matmul__(a, b):
        return product(a, b)

    def __floordiv__(a, b):
        return data_operator(np.floor_divide, a, b)

    def __mod__(a, b):
        return ew.remainder(a, b)

    def __and__(a, b):
        return data_operator(np.bitwise_and, a, b)

    def __or__(a, b):
        return data_operator(np.bitwise_or, a, b)

    def __xor__(a, b):
        return data_operator(np.bitwise_xor, a, b)

    def __neg__(self):
        return ew.neg(self)

    def __pos__(self):
        return ew.copy(self) if is_float_type(cnp.PyArray_TYPE(self.data)) else wrap(self.data.copy())

    def __abs__(self):
        return ew.absolute(self)

    def __invert__(self):
        return wrap(as_array(np.invert(self.data)))

    # In place.

    def __iadd__(self, other):
        return change(self, loops.ADD, other)

    def __isub__(self, other):
        return change(self, loops.SUBTRACT, other)

    def __imul__(self, other):
        return change(self, loops.MULTIPLY, other)

    def __itruediv__(self, other):
        return change(self, loops.DIVIDE, other)

    def __ipow__(self, other):
        return change(self, loops.POWER, other)

    def __setitem__(self, index, value):
        cdef object new = operands((self, value), "setitem")[1]
        if new is NotImplemented:
            raise TypeError(f"setitem: got {type(value).__name__}, expected a Tensor, an ndarray or a number")
        if self.read_only:
            raise RuntimeError("setitem: a gradient given to a hook is read-only; return a new tensor from the hook")
        if is_recording() and (self.node is not None or node_of(new) is not None):
            raise RuntimeError("setitem: an in-place change is not recorded where a gradient is needed; use "
                               "where(mask, value, t), or do it under no_grad()")
        if is_variable(index):
            index = (<VariableWrapper> index).data
        elif type(index) is tuple:
            index = tuple([(<VariableWrapper> part).data if is_variable(part) else part for part in index])
        (<object> self.data)[index] = array_of(new) if is_variable(new) else new
        mark_changed(self.data)

    # Comparison, and identity as the hash.

    def __eq__(self, other):
        return compare(np.equal, self, other)

    def __ne__(self, other):
        return compare(np.not_equal, self, other)

    def __lt__(self, other):
        return compare(np.less, self, other)

    def __le__(self, other):
        return compare(np.less_equal, self, other)

    def __gt__(self, other):
        return compare(np.greater, self, other)

    def __ge__(self, other):
        return compare(np.greater_equal, self, other)

    def __hash__(self):
        return <Py_hash_t> (<size_t> <void *> self >> 4)

    # Sequence and conversion.

    def __getitem__(self, index):
        return getitem(self, index)

    def __len__(self):
        if cnp.PyArray_NDIM(self.data) == 0:
            raise TypeError("len: a tensor with no axes has no length")
        return cnp.PyArray_DIMS(self.data)[0]

    def __iter__(self):
        if cnp.PyArray_NDIM(self.data) == 0:
            raise TypeError("iteration over a tensor with no axes; use .item() for its value")
        return iter([getitem(self, i) for i in range(len(self))])

    def __contains__(self, value):
        return value in self.data if not is_variable(value) else (<VariableWrapper> value).data in self.data

    def __bool__(self):
        if cnp.PyArray_SIZE(self.data) != 1:
            raise ValueError(f"bool: a tensor of shape {self.shape} has {self.size} elements, and only one has a truth "
                             f"value; use .any() or .all()")
        return bool((<object> self.data).item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype.kind not in "biu" or cnp.PyArray_NDIM(self.data) != 0:
            raise TypeError(f"index: got a tensor of dtype {self.dtype} and shape {self.shape}, expected one integer")
        return int(self.item())

    def item(self, *index):
        """One element as a Python number: the only one, or the one at `index`.

        Raises
        ------
        ValueError
            There are several elements and no index.
        """
        if not index and cnp.PyArray_SIZE(self.data) != 1:
            raise ValueError(f"item: a tensor of shape {self.shape} has {self.size} elements, expected 1; give an "
                             f"index")
        return (<object> self.data).item(*index)

    def tolist(self):
        """The elements as nested lists of Python numbers; a Python number for a tensor without axes."""
        return (<object> self.data).tolist()
