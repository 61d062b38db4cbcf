"""The compiled value type: an array, its place in the graph, its gradient and its hooks.

What is promised under threads: every method is atomic under the GIL; one tensor may be used in the graphs of several
threads, and hooks may be registered from any of them.
"""

cimport cython

from hookgrad._core.grad_node cimport LEAF, new_leaf
from hookgrad._core.kernels cimport as_array, is_exclusive, is_float_type, is_ndarray, recycle

cnp.import_array()

# Note [A Python subclass at the price of a compiled class]
# ---------------------------------------------------------
# Results are of a Python subclass (`Tensor`), and a Python class pays for what this one does not use: slots that look
# methods up by name, an allocation for each instance, a deallocator that looks for a dict, slots and finalizers. So its
# type object is given the compiled base's own slots, a free list, and a deallocator that goes straight to the base's.
# No other way of making an instance is left open, since an instance without an array would be a crash.
cdef extern from *:
    """
    #define HOOKGRAD_FREE_TENSORS 1024
    static PyTypeObject *hookgrad_tensor = NULL;
    static destructor hookgrad_base_dealloc = NULL;
    static newfunc hookgrad_base_new = NULL;
    static void (*hookgrad_before_dealloc)(PyObject *) = NULL;
    static PyObject *hookgrad_free_tensors[HOOKGRAD_FREE_TENSORS];
    static int hookgrad_free_count = 0;

    static PyObject *hookgrad_tensor_alloc(PyTypeObject *type, Py_ssize_t items) {
        PyObject *o;
        if (hookgrad_free_count == 0)
            return PyType_GenericAlloc(type, items);
        o = hookgrad_free_tensors[--hookgrad_free_count];
        memset(o, 0, (size_t) type->tp_basicsize);
        PyObject_Init(o, type);
        PyObject_GC_Track(o);
        return o;
    }

    static void hookgrad_tensor_free(void *o) {
        if (hookgrad_free_count < HOOKGRAD_FREE_TENSORS && Py_TYPE((PyObject *) o) == hookgrad_tensor)
            hookgrad_free_tensors[hookgrad_free_count++] = (PyObject *) o;
        else
            PyObject_GC_Del(o);
    }

    static void hookgrad_tensor_dealloc(PyObject *o) {
        PyTypeObject *type = Py_TYPE(o);
        PyObject_GC_UnTrack(o);     /* first: what follows may run the garbage collector */
        hookgrad_before_dealloc(o);
        hookgrad_base_dealloc(o);
        Py_DECREF(type);    /* as instances of heap types own a reference to their type */
    }

    static PyObject *hookgrad_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        PyErr_Format(PyExc_TypeError, "%s is not made by calling it; use hookgrad.tensor(data) or asarray(data)",
                     type->tp_name);
        return NULL;
    }

    static void hookgrad_adopt_type(PyObject *cls, PyObject *root, void (*before_dealloc)(PyObject *)) {
        PyTypeObject *type = (PyTypeObject *) cls, *base = type->tp_base;
        hookgrad_before_dealloc = before_dealloc;
        hookgrad_base_new = ((PyTypeObject *) root)->tp_new;
        ((PyTypeObject *) root)->tp_new = base->tp_new = type->tp_new = hookgrad_refuse_new;
        ((PyTypeObject *) root)->tp_vectorcall = base->tp_vectorcall = NULL;
        if (base->tp_as_number != NULL)
            *type->tp_as_number = *base->tp_as_number;
        if (base->tp_as_mapping != NULL)
            *type->tp_as_mapping = *base->tp_as_mapping;
        type->tp_richcompare = base->tp_richcompare;
        type->tp_hash = base->tp_hash;
        type->tp_iter = base->tp_iter;
        hookgrad_tensor = type;
        hookgrad_base_dealloc = ((PyTypeObject *) root)->tp_dealloc;
        type->tp_alloc = hookgrad_tensor_alloc;
        type->tp_free = hookgrad_tensor_free;
        type->tp_dealloc = hookgrad_tensor_dealloc;
        PyType_Modified(type);
    }

    static PyObject *hookgrad_new_tensor(PyObject *no_arguments) {
        return hookgrad_base_new(hookgrad_tensor, no_arguments, NULL);
    }
    """
    Py_ssize_t reference_count "Py_REFCNT"(PyObject *) noexcept
    void hookgrad_adopt_type(PyObject *cls, PyObject *root, void (*before_dealloc)(PyObject *) noexcept)
    VariableWrapper hookgrad_new_tensor(tuple no_arguments)

cdef tuple NO_ARGUMENTS = ()


cdef void unlink(PyObject *tensor) noexcept:
    """Clear the node's pointer back to a tensor that dies or leaves it. See Note [Ownership] in grad_node.pyx."""
    # The tensor's reference count may be 0, so nothing here may take a reference to it.
    cdef PyObject *node = <PyObject *> (<VariableWrapper> tensor).node
    if node != <PyObject *> None and (<GradNode> node).output == tensor:
        (<GradNode> node).output = NULL


cdef void drop_grads(PyObject *tensor) noexcept:
    """Drop a gradient, its gradient, and so on, without recursion."""
    cdef object g = (<VariableWrapper> tensor).stored_grad
    cdef object after
    (<VariableWrapper> tensor).stored_grad = None
    while is_variable(g) and reference_count(<PyObject *> g) == 1:
        after = (<VariableWrapper> g).stored_grad
        (<VariableWrapper> g).stored_grad = None
        g = after
        after = None


cdef void before_dealloc(PyObject *tensor) noexcept:
    """What is to do with a tensor whose reference count is 0 before its fields are cleared."""
    unlink(tensor)
    if <PyObject *> (<VariableWrapper> tensor).stored_grad != <PyObject *> None:
        drop_grads(tensor)
    recycle(<PyObject *> (<VariableWrapper> tensor).data)


@cython.no_gc_clear
cdef class VariableWrapper:
    """An array with a gradient: the compiled part of `hookgrad.Tensor`.

    Its hooks are its own: an ordered map from an accumulating int64 id to the hook, managed here and nowhere else.
    The node that made an interior tensor shares the map, so that hooks live as long as the graph does.
    """

    cdef int set_node(self, GradNode node) except -1:
        """Change the tensor's place in the graph; a new node takes over the hooks."""
        unlink(<PyObject *> self)
        self.node = node
        if node is not None:
            node.output = <PyObject *> self
            node.hooks = self.hooks
        return 0

    cdef HookRemoveHelper add_hook(self, Hook hook, HookKind kind):
        if self.hooks is None and self.node is not None:
            self.hooks = self.node.hooks    # another tensor at the same place may have made it
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
        if is_variable(value) and (<VariableWrapper> value).read_only:
            # A hook's gradient is not to be changed by way of self.
            a = <cnp.ndarray> cnp.PyArray_NewCopy(a, cnp.NPY_CORDER)
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
            # The node of a leaf that was frozen is the one that graphs built before lead to.
            self.set_node(new_leaf() if self.frozen is None else self.frozen)
            self.frozen = None
        else:
            if self.node.flags & LEAF:
                self.frozen = self.node
            else:
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
            # Interior gradients share their memory with others until somebody looks.
            if not self.owns_grad and not is_exclusive(<PyObject *> self.stored_grad):
                self.stored_grad = cnp.PyArray_NewCopy(<cnp.ndarray> self.stored_grad, cnp.NPY_CORDER)
            self.stored_grad = wrap(<cnp.ndarray> self.stored_grad)
        return self.stored_grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not is_variable(value):
                raise TypeError(f"grad: got {type(value).__name__}, expected a Tensor of shape {self.shape} and dtype "
                                f"{self.dtype}, or None")
            if leads_to(<VariableWrapper> value, self):
                raise RuntimeError("grad: a tensor cannot be its own gradient, nor a gradient's; use a copy")
            if value.shape != self.shape:
                raise ValueError(f"grad: got shape {value.shape}, expected the tensor's own, {self.shape}")
            if value.dtype != self.dtype:
                raise TypeError(f"grad: got dtype {value.dtype}, expected the tensor's own, {self.dtype}")
        self.stored_grad = value
        self.grad_writes += 1

    @grad.deleter
    def grad(self):
        self.stored_grad = None
        self.grad_writes += 1


cdef bint leads_to(VariableWrapper start, VariableWrapper end):
    """Whether `end` is start, its gradient, its gradient's gradient, and so on."""
    cdef object tensor = start
    while is_variable(tensor):
        if tensor is end:
            return True
        tensor = (<VariableWrapper> tensor).stored_grad
    return False


cdef VariableWrapper wrap(cnp.ndarray data):
    """A new tensor around an array, outside the graph."""
    cdef VariableWrapper out = hookgrad_new_tensor(NO_ARGUMENTS)
    out.data = data
    return out


cdef VariableWrapper wrap_unrecorded(cnp.ndarray data):
    """A new tensor that would need a gradient, were recording not off."""
    cdef VariableWrapper out = wrap(data)
    out.unrecorded = True
    return out


cdef VariableWrapper wrap_recorded(cnp.ndarray data, GradNode node):
    """A new tensor that `node` made."""
    cdef VariableWrapper out = hookgrad_new_tensor(NO_ARGUMENTS)
    out.data = data
    out.node = node
    node.output = <PyObject *> out
    return out


def set_tensor_type(type cls not None):
    """Make results of this direct, empty subclass; called once by the Python layer.

    See Note [A Python subclass at the price of a compiled class].

    Raises
    ------
    TypeError
        It is no subclass of `VariableWrapper`, has fields of its own, or overrides an operator.
    """
    global TensorType
    if not issubclass(cls, VariableWrapper) or cls.__basicsize__ != VariableWrapper.__basicsize__:
        raise TypeError(f"set_tensor_type: {cls.__name__} is not a subclass of VariableWrapper with __slots__ = ()")
    for name in ("__add__", "__eq__", "__hash__", "__getitem__", "__len__", "__iter__", "__bool__", "__del__"):
        if name in cls.__dict__:
            raise TypeError(f"set_tensor_type: {cls.__name__} overrides {name}, which belongs in the compiled base")
    TensorType = cls
    hookgrad_adopt_type(<PyObject *> cls, <PyObject *> VariableWrapper, before_dealloc)


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


def hook_count(VariableWrapper variable not None):
    """How many hooks a tensor has, of all kinds."""
    return 0 if variable.hooks is None else len(variable.hooks)
