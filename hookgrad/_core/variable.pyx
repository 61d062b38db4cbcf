"""The compiled value type: an array, its place in the graph, its gradient and its hooks.

What is promised under threads: every method is atomic under the GIL; one tensor may be used in the graphs of several
threads, and hooks may be registered from any of them.
"""

cimport cython

import numpy as np

from hookgrad._core.grad_node cimport LEAF, new_leaf
from hookgrad._core.hook_map cimport GRADIENT
from hookgrad._core.kernels cimport as_array, is_float_type, is_ndarray

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *, object, PyObject *)

cdef tuple NO_ARGUMENTS = ()
cdef PyTypeObject *tensor_type = NULL


@cython.freelist(256)
cdef class VariableWrapper:
    """An array with a gradient: the compiled part of `hookgrad.Tensor`.

    Its hooks are its own: an ordered map from an accumulating int64 id to the hook, managed here and nowhere else.
    The node that made an interior tensor shares the map, so that hooks live as long as the graph does.
    """

    def __dealloc__(self):
        # See Note [Ownership] in grad_node.pyx.
        if self.back != NULL:
            (<GradNode> self.back).output = NULL
            (<GradNode> self.back).output_back = NULL

    cdef int set_node(self, GradNode node) except -1:
        """Change the tensor's place in the graph; a new node takes over the hooks."""
        if self.back != NULL:
            (<GradNode> self.back).output = NULL
            (<GradNode> self.back).output_back = NULL
            self.back = NULL
        self.node = node
        if node is not None:
            node.output = <PyObject *> self
            node.output_back = &self.back
            self.back = <PyObject *> node
            node.hooks = self.hooks
        return 0

    cdef HookEntry add_hook(self, object hook, HookKind kind):
        if self.hooks is None:
            self.hooks = HookMap.__new__(HookMap)
            self.hooks.owner_name = self.name
            if self.node is not None:
                self.node.hooks = self.hooks
        return self.hooks.add(hook, kind)

    # The array ------------------------------------------------------------------------------------------------------

    @property
    def shape(self):
        """The lengths of the axes, a tuple of ints."""
        return (<object> self.data).shape

    @property
    def dtype(self):
        """The NumPy dtype."""
        return (<object> self.data).dtype

    @property
    def ndim(self):
        """The number of axes."""
        return cnp.PyArray_NDIM(self.data)

    @property
    def size(self):
        """The number of elements."""
        return cnp.PyArray_SIZE(self.data)

    @property
    def itemsize(self):
        """Bytes of one element."""
        return cnp.PyArray_ITEMSIZE(self.data)

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return cnp.PyArray_NBYTES(self.data)

    def numpy(self):
        """The values as an ndarray that shares this tensor's memory.

        It is read-only while the tensor requires grad, and for a gradient that a hook was given: a change behind
        hookgrad's back would make gradients wrong. ``t.numpy().copy()`` may be changed.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import hookgrad as hg
        >>> hg.tensor([1., 2.]).numpy()
        array([1., 2.], dtype=float32)
        """
        cdef cnp.ndarray view
        if self.node is None and not self.read_only:
            return self.data
        view = <cnp.ndarray> (<object> self.data).view()
        cnp.PyArray_CLEARFLAGS(view, cnp.NPY_ARRAY_WRITEABLE)
        return view

    def detach(self):
        """A tensor of the same memory outside the graph: it needs no grad and has no hooks."""
        cdef VariableWrapper out = wrap(self.data)
        out.read_only = self.read_only
        return out

    @property
    def data(self):
        """The values without their history: `detach`.

        Setting it replaces the values by another array or tensor of the same shape and dtype, outside the graph; hooks
        and ``.grad`` stay.
        """
        return self.detach()

    @data.setter
    def data(self, value):
        cdef cnp.ndarray a
        if self.read_only:
            raise RuntimeError("data: a gradient given to a hook is read-only; return a new tensor from the hook")
        a = (<VariableWrapper> value).data if is_variable(value) else as_array(value)
        if (<object> a).shape != self.shape or (<object> a).dtype != self.dtype:
            raise ValueError(
                f"data: got shape {(<object> a).shape} and dtype {(<object> a).dtype}, expected the tensor's own, "
                f"{self.shape} and {self.dtype}")
        self.data = a

    # The graph ------------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self):
        """Whether gradients flow to this tensor.

        On a leaf it can be set both ways. On an interior tensor True changes nothing and False cuts the graph here, as
        an in-place `detach` would.
        """
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, bint value):
        if value == (self.node is not None):
            return
        if value:
            if not is_float_type(cnp.PyArray_TYPE(self.data)):
                raise RuntimeError(
                    f"requires_grad: a tensor of dtype {self.dtype} is data and has no gradient; only float32 and "
                    f"float64 can require grad: convert it with .astype('float32')")
            if self.read_only:
                raise RuntimeError("requires_grad: a gradient given to a hook is read-only; use grad.detach()")
            self.set_node(new_leaf())
        else:
            if not self.node.flags & LEAF:
                self.hooks = None       # they stay with the version that they were put on
            self.set_node(None)

    @property
    def stop_gradient(self):
        """``not requires_grad``, in the words of the design that hookgrad follows."""
        return self.node is None

    @stop_gradient.setter
    def stop_gradient(self, bint value):
        self.requires_grad = not value

    @property
    def is_leaf(self):
        """Whether the tensor was made by the user, not by a recorded operation."""
        return self.node is None or bool(self.node.flags & LEAF)

    @property
    def grad_fn(self):
        """The node that made this tensor; None for a leaf."""
        return None if self.node is None or self.node.flags & LEAF else self.node

    @property
    def grad(self):
        """The gradient that backward left here; None before.

        A leaf's accumulates over backwards; an interior tensor's is the last backward's raw sum, before its hooks. It
        can be set to a tensor of the same shape and dtype, or to None.
        """
        if is_ndarray(self.stored_grad):
            self.stored_grad = wrap(<cnp.ndarray> self.stored_grad)
        return self.stored_grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not is_variable(value):
                raise TypeError(f"grad: got {type(value).__name__}, expected a Tensor of shape {self.shape} and dtype "
                                f"{self.dtype}, or None")
            if value is self:
                raise RuntimeError("grad: a tensor cannot be its own gradient; use a copy")
            if value.shape != self.shape:
                raise ValueError(f"grad: got shape {value.shape}, expected the tensor's own, {self.shape}")
            if value.dtype != self.dtype:
                raise TypeError(f"grad: got dtype {value.dtype}, expected the tensor's own, {self.dtype}")
        self.stored_grad = value

    @grad.deleter
    def grad(self):
        self.stored_grad = None


cdef VariableWrapper wrap(cnp.ndarray data):
    """A new tensor around an array, outside the graph."""
    cdef VariableWrapper out = <VariableWrapper> tensor_type.tp_new(tensor_type, NO_ARGUMENTS, NULL)
    out.data = data
    return out


cdef VariableWrapper wrap_recorded(cnp.ndarray data, GradNode node):
    """A new tensor that `node` made."""
    cdef VariableWrapper out = <VariableWrapper> tensor_type.tp_new(tensor_type, NO_ARGUMENTS, NULL)
    out.data = data
    out.node = node
    out.back = <PyObject *> node
    node.output = <PyObject *> out
    node.output_back = &out.back
    return out


def set_tensor_type(type cls):
    """Make results of this subclass of `VariableWrapper`; called once by the Python layer."""
    global TensorType, tensor_type
    if not issubclass(cls, VariableWrapper):
        raise TypeError(f"set_tensor_type: {cls.__name__} is not a subclass of VariableWrapper")
    TensorType = cls
    tensor_type = <PyTypeObject *> cls


def make_tensor(object array, bint requires_grad=False, object name=None):
    """A tensor around an array whose memory is shared where it is aligned and in native byte order.

    Raises
    ------
    RuntimeError
        `requires_grad` for an array that is not float32 or float64.
    """
    cdef VariableWrapper out = wrap(as_array(array))
    out.name = name
    if requires_grad:
        out.requires_grad = True
    return out


def gradient_hook_count(VariableWrapper variable not None):
    """How many gradient hooks a tensor has."""
    return 0 if variable.hooks is None else len(variable.hooks.gradient_hooks())


set_tensor_type(VariableWrapper)
