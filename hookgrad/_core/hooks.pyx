"""The hook classes, and the loops that call them.

Two abstract classes and no common one, as in the design that this follows: a `VariableWrapperHook` maps a gradient to
a gradient and never changes its input; an `InplaceVariableWrapperHook` changes a leaf's accumulated gradient. Both are
managed by the `VariableWrapper` they are registered on.

Note [What a hook may do]
-------------------------
Anything: register and remove hooks (Note [Hooks that change the map while it is iterated] in hook_map.pyx), run
`backward` or `grad` on any graph (Note [Claim or overflow] in engine.pyx), drop tensors, raise, keep its gradient. The
loops hold references to all that they still need, and reset the recording mode after each hook. A hook that keeps its
gradient thereby holds a reference to the array, which keeps the engine from reusing its memory.
"""

import numpy as np

cimport numpy as cnp

from hookgrad._core.grad_mode cimport is_recording, set_recording
from hookgrad._core.grad_node cimport LEAF
from hookgrad._core.hook_map cimport FINAL, GRADIENT, INPLACE, POST_ACCUMULATE, HookEntry, HookKind
from hookgrad._core.kernels cimport as_array, is_ndarray, same_shape
from hookgrad._core.variable cimport is_variable, wrap
from hookgrad._core.versions cimport mark_changed

cnp.import_array()


# The classes ----------------------------------------------------------------------------------------------------------


cdef class VariableWrapperHook:
    """Takes a gradient, returns a gradient of the same shape and dtype, or None to leave it. Never changes its input.

    Abstract: subclass it in Cython and override ``cdef VariableWrapper call(self, VariableWrapper grad)``.
    """

    cdef VariableWrapper call(self, VariableWrapper grad):
        raise NotImplementedError(
            f"{type(self).__name__} does not override `cdef VariableWrapper call(self, VariableWrapper grad)`")


cdef class PyVariableWrapperHook(VariableWrapperHook):
    """Calls a Python function with the gradient."""

    def __init__(self, function):
        if not callable(function):
            raise TypeError(f"PyVariableWrapperHook: got {type(function).__name__}, expected a callable")
        self.function = function

    cdef VariableWrapper call(self, VariableWrapper grad):
        cdef object result = self.function(grad)
        if result is None or is_variable(result):
            return result
        if isinstance(result, (cnp.ndarray, np.floating)):
            return wrap(as_array(result))
        raise TypeError(
            f"hook {name_of(self.function)} returned {type(result).__name__}, expected a Tensor, an ndarray or None")


cdef class InplaceVariableWrapperHook:
    """Takes a leaf's accumulated gradient and changes it in place.

    Abstract: subclass it in Cython and override ``cdef int call(self, VariableWrapper grad) except -1``.
    """

    cdef int call(self, VariableWrapper grad) except -1:
        raise NotImplementedError(
            f"{type(self).__name__} does not override `cdef int call(self, VariableWrapper grad) except -1`")


cdef class PyInplaceVariableWrapperHook(InplaceVariableWrapperHook):
    """Calls a Python function with the accumulated gradient; what it returns must be None or its argument."""

    def __init__(self, function):
        if not callable(function):
            raise TypeError(f"PyInplaceVariableWrapperHook: got {type(function).__name__}, expected a callable")
        self.function = function

    cdef int call(self, VariableWrapper grad) except -1:
        cdef object result = self.function(grad)
        if result is not None and result is not grad:
            raise TypeError(
                f"in-place hook {name_of(self.function)} returned {type(result).__name__}, expected None: it must "
                f"change its argument (grad *= 2), or be registered with register_hook")
        return 0


cdef class LambdaInplaceVariableWrapperHook(InplaceVariableWrapperHook):
    """Calls a C function with the accumulated gradient: no Python in the call, and no GIL.

    Parameters
    ----------
    function : int
        The address of ``int f(void *values, Py_ssize_t size, Py_ssize_t itemsize, void *user_data)``, which changes
        `size` contiguous values of `itemsize` bytes (4 for float32, 8 for float64) and returns 0 for success.
    user_data : int, default 0
        The address that it gets as its last argument.
    keep_alive : object, optional
        Kept as long as the hook: what owns the function and its data.
    """

    def __init__(self, size_t function, size_t user_data=0, keep_alive=None):
        if function == 0:
            raise ValueError("LambdaInplaceVariableWrapperHook: the function's address is 0")
        self.function = <inplace_function> function
        self.user_data = <void *> user_data
        self.keep_alive = keep_alive

    cdef int call(self, VariableWrapper grad) except -1:
        cdef cnp.ndarray a = grad.data
        cdef void *values = cnp.PyArray_DATA(a)
        cdef Py_ssize_t size = cnp.PyArray_SIZE(a), itemsize = cnp.PyArray_ITEMSIZE(a)
        cdef int status
        if self.function == NULL:
            raise RuntimeError("LambdaInplaceVariableWrapperHook: its __init__ was not called, so it has no function")
        with nogil:
            status = self.function(values, size, itemsize, self.user_data)
        if status != 0:
            raise RuntimeError(f"the C function of an in-place hook returned {status}, expected 0")
        return 0


# Words for messages ---------------------------------------------------------------------------------------------------


cdef str name_of(object function):
    return getattr(function, "__qualname__", None) or repr(function)


cdef str describe(GradNode node, VariableWrapper variable, object shape):
    """The tensor in an error: its name, its shape, and what made it."""
    cdef object name = None
    if variable is not None:
        name = variable.name
    if name is None and node is not None and node.hooks is not None:
        name = node.hooks.owner_name
    made = "a leaf" if node is None or node.flags & LEAF else f"made by {node.op.name}"
    return f"tensor {repr(name) + ' ' if name is not None else ''}of shape {shape}, {made}"


cdef int add_hook_note(object error, HookEntry entry, Py_ssize_t position, Py_ssize_t count, str tensor) except -1:
    """Say on an exception which hook it came from. It propagates as it is."""
    try:
        error.add_note(f"raised in hook {position + 1} of {count}, {entry.label}, registered at {entry.where}, "
                       f"on the {tensor}")
    except Exception:
        pass        # an exception type that takes no notes; the error itself matters more
    return 0


# Gradient hooks -------------------------------------------------------------------------------------------------------


cdef VariableWrapper shown(object g):
    """The gradient as hooks see it: read-only, at its place in the graph if it has one."""
    cdef VariableWrapper out
    if is_ndarray(g):
        out = wrap(<cnp.ndarray> g)
    else:
        out = wrap((<VariableWrapper> g).data)
        out.node = (<VariableWrapper> g).node
    out.read_only = True
    return out


cdef int check_result(HookEntry entry, VariableWrapper result, VariableWrapper grad) except -1:
    """Whether a hook's result can stand for the gradient.

    Raises
    ------
    ValueError
        Another shape.
    TypeError
        Another dtype.
    """
    if not same_shape(result.data, grad.data):
        raise ValueError(f"hook {entry.label} returned shape {result.shape}, expected the gradient's, {grad.shape}")
    if cnp.PyArray_TYPE(result.data) != cnp.PyArray_TYPE(grad.data):
        raise TypeError(f"hook {entry.label} returned dtype {result.dtype}, expected the gradient's, {grad.dtype}: "
                        f"convert it with .astype('{grad.dtype}')")
    return 0


cdef object run_gradient_hooks(GradNode node, object g):
    """g after the gradient hooks of the node's tensor: an array for an array, a tensor for a tensor.

    Each runs on the result of the one before, in the order of registration.
    """
    cdef tuple entries = node.hooks.gradient_hooks()
    cdef Py_ssize_t k, count = len(entries)
    cdef HookEntry entry = None
    cdef VariableWrapper grad, result
    cdef bint plain = is_ndarray(g), recording
    if count == 0:
        return g
    recording = is_recording()
    grad = shown(g)
    k = 0
    try:
        while k < count:
            entry = <HookEntry> entries[k]
            if not entry.removed:
                result = (<VariableWrapperHook> entry.hook).call(grad)
                set_recording(recording)
                if result is not None and result is not grad:
                    check_result(entry, result, grad)
                    g = result.data if plain else result
                    grad = shown(g)
                elif plain and grad.node is not None:
                    grad = shown(g)     # the hook made its own leaf of it
            k += 1
    except BaseException as error:
        add_hook_note(error, entry, k, count, describe(
            node, <VariableWrapper> node.output if node.output != NULL else None, grad.shape))
        raise
    return g


# Hooks on a leaf's accumulated gradient -------------------------------------------------------------------------------


cdef int run_reduce_hooks(GradNode node, VariableWrapper leaf, tuple entries) except -1:
    """Run a leaf's in-place and post-accumulate hooks, in the order of registration.

    In-place hooks get the tensor that is ``leaf.grad``; its buffer is contiguous and the leaf's own.
    """
    cdef Py_ssize_t k = 0, count = len(entries)
    cdef HookEntry entry = None
    cdef bint recording = is_recording()
    cdef VariableWrapper grad
    try:
        while k < count:
            entry = <HookEntry> entries[k]
            if not entry.removed:
                if entry.kind == INPLACE:
                    if leaf.stored_grad is not None:    # an earlier hook may have cleared it
                        grad = leaf.grad
                        if grad.node is not None or grad.read_only or not is_private(grad.data):
                            grad = wrap(<cnp.ndarray> cnp.PyArray_NewCopy(grad.data, cnp.NPY_CORDER))
                            leaf.stored_grad = grad
                        mark_changed(grad.data)
                        (<InplaceVariableWrapperHook> entry.hook).call(grad)
                else:
                    entry.hook.function(leaf)
                set_recording(recording)
            k += 1
    except BaseException as error:
        add_hook_note(error, entry, k, count, describe(node, leaf, leaf.shape))
        raise
    return 0


cdef inline bint is_private(cnp.ndarray a) noexcept:
    """Whether an array can be handed out for changing: contiguous, writeable, memory of its own."""
    cdef int want = cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA
    return (cnp.PyArray_FLAGS(a) & want) == want


cdef int run_final_hooks(tuple entries, str tensor) except -1:
    """Run the callbacks of a leaf after the whole backward."""
    cdef Py_ssize_t k = 0, count = len(entries)
    cdef HookEntry entry = None
    try:
        while k < count:
            entry = <HookEntry> entries[k]
            if not entry.removed:
                entry.hook.function()
            k += 1
    except BaseException as error:
        add_hook_note(error, entry, k, count, tensor)
        raise
    return 0


# Registration ---------------------------------------------------------------------------------------------------------


cdef class PostAccumulateHook:
    """Calls a Python function with the leaf."""
    cdef readonly object function

    def __init__(self, function):
        self.function = function


cdef class FinalHook:
    """Calls a Python function without arguments."""
    cdef readonly object function

    def __init__(self, function):
        self.function = function


cdef tuple METHODS = ("register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook",
                      "_register_backward_hook")


def register(VariableWrapper variable not None, hook, int kind):
    """Register a hook of one kind on a tensor.

    Parameters
    ----------
    variable : VariableWrapper
    hook : callable, VariableWrapperHook or InplaceVariableWrapperHook
    kind : int
        0 gradient, 1 in-place, 2 post-accumulate, 3 after the whole backward.

    Returns
    -------
    (HookMap, int)
        The tensor's map and the hook's id in it.

    Raises
    ------
    TypeError
        The hook is not callable.
    RuntimeError
        The tensor does not require grad.
    ValueError
        A kind that only leaves have, on an interior tensor.
    """
    cdef str method = METHODS[kind]
    cdef object wrapped
    cdef HookEntry entry
    cdef type compiled = VariableWrapperHook if kind == GRADIENT else InplaceVariableWrapperHook
    if kind <= INPLACE and isinstance(hook, compiled):
        wrapped = hook
    elif not callable(hook):
        raise TypeError(f"{method}: got {type(hook).__name__} {hook!r}, expected a callable"
                        + (f" or a {compiled.__name__}" if kind <= INPLACE else ""))
    elif kind == GRADIENT:
        wrapped = PyVariableWrapperHook(hook)
    elif kind == INPLACE:
        wrapped = PyInplaceVariableWrapperHook(hook)
    elif kind == POST_ACCUMULATE:
        wrapped = PostAccumulateHook(hook)
    else:
        wrapped = FinalHook(hook)
    if variable.node is None:
        message = why_no_grad(variable)
        if kind == FINAL:
            raise ValueError(f"{method}: {message}")
        raise RuntimeError(f"Cannot register hook on a tensor that stop gradient. {method}: {message}")
    if kind != GRADIENT and not variable.node.flags & LEAF:
        raise ValueError(
            f"{method}: only leaves accumulate gradients, and this is an interior {describe(variable.node, variable, variable.shape)}; "
            f"use register_hook")
    entry = variable.add_hook(wrapped, <HookKind> kind)
    return variable.hooks, entry.id


cdef str why_no_grad(VariableWrapper variable):
    """Why a tensor needs no gradient, and what to do."""
    if variable.read_only:
        return "this is a gradient that a hook was given, which is read-only and needs no grad"
    if variable.dtype.kind != "f":
        return (f"this tensor of dtype {variable.dtype} is data and has no gradient; only float32 and float64 can "
                f"require grad")
    if not is_recording():
        return ("this tensor does not require grad, and recording is off here (no_grad); make it with recording on, "
                "or set t.stop_gradient = False on a leaf")
    return ("this tensor does not require grad: it is a constant, or was made from constants or under no_grad; make "
            "the leaves with requires_grad=True, or set t.stop_gradient = False first")
