"""The hook classes, and the loops that call them.

Two abstract classes, as in the design that this follows: a `VariableWrapperHook` maps a gradient to a gradient and
never changes its input; an `InplaceVariableWrapperHook` changes a leaf's accumulated gradient. They share only the
record of their registration (`Hook`), and are managed by the `VariableWrapper` they are registered on.

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
from hookgrad._core.hook_map cimport FINAL, GRADIENT, INPLACE, POST_ACCUMULATE
from hookgrad._core.kernels cimport as_array, is_ndarray, same_shape
from hookgrad._core.variable cimport is_variable, wrap
from hookgrad._core.versions cimport mark_changed

cnp.import_array()


# The classes ----------------------------------------------------------------------------------------------------------


cdef class VariableWrapperHook(Hook):
    """Takes a gradient, returns a gradient of the same shape and dtype, or None to leave it. Never changes its input.

    Abstract: subclass it in Cython and override ``cdef VariableWrapper call(self, VariableWrapper grad)``.
    """

    cdef VariableWrapper call(self, VariableWrapper grad):
        raise NotImplementedError(
            f"{type(self).__name__} does not override `cdef VariableWrapper call(self, VariableWrapper grad)`")


cdef class PyVariableWrapperHook(VariableWrapperHook):
    """Calls a Python function with the gradient."""

    cdef object target(self):
        return self.function

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


cdef class InplaceVariableWrapperHook(Hook):
    """Takes a leaf's accumulated gradient and changes it in place.

    Abstract: subclass it in Cython and override ``cdef int call(self, VariableWrapper grad) except -1``.
    """

    cdef int call(self, VariableWrapper grad) except -1:
        raise NotImplementedError(
            f"{type(self).__name__} does not override `cdef int call(self, VariableWrapper grad) except -1`")


cdef class PyInplaceVariableWrapperHook(InplaceVariableWrapperHook):
    """Calls a Python function with the accumulated gradient; what it returns must be None or its argument."""

    cdef object target(self):
        return self.function

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


cdef int add_hook_note(object error, tuple hooks, Py_ssize_t position, str tensor) except -1:
    """Say on an exception which hook it came from. It propagates as it is."""
    cdef Hook hook = <Hook> hooks[position]
    try:
        error.add_note(f"raised in hook {position + 1} of {len(hooks)}, {hook.label}, registered at {hook.where}, "
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


cdef int check_result(Hook hook, VariableWrapper result, VariableWrapper grad) except -1:
    """Whether a hook's result can stand for the gradient.

    Raises
    ------
    ValueError
        Another shape.
    TypeError
        Another dtype.
    """
    if not same_shape(result.data, grad.data):
        raise ValueError(f"hook {hook.label} returned shape {result.shape}, expected the gradient's, {grad.shape}")
    if cnp.PyArray_TYPE(result.data) != cnp.PyArray_TYPE(grad.data):
        raise TypeError(f"hook {hook.label} returned dtype {result.dtype}, expected the gradient's, {grad.dtype}: "
                        f"convert it with .astype('{grad.dtype}')")
    return 0


cdef object run_gradient_hooks(GradNode node, object g):
    """g after the gradient hooks of the node's tensor: an array for an array, a tensor for a tensor.

    Each runs on the result of the one before, in the order of registration.
    """
    cdef Hook hook = node.hooks.only        # nearly always there is one, and then no tuple is needed
    cdef tuple hooks = None
    cdef Py_ssize_t k = 0, count = 1
    cdef VariableWrapper grad, result
    cdef bint plain = is_ndarray(g), recording
    if hook is None:
        hooks = node.hooks.gradient_hooks()
        count = len(hooks)
        if count == 0:
            return g
    elif hook.kind != GRADIENT:
        return g
    recording = is_recording()
    grad = shown(g)
    try:
        while k < count:
            if hooks is not None:
                hook = <Hook> hooks[k]
            if not hook.removed:
                result = (<VariableWrapperHook> hook).call(grad)
                set_recording(recording)
                if result is not None and result is not grad:
                    check_result(hook, result, grad)
                    g = result.data if plain else result
                    grad = shown(g)
                elif plain and grad.node is not None:
                    grad = shown(g)     # the hook made its own leaf of it
            k += 1
    except BaseException as error:
        add_hook_note(error, (hook,) if hooks is None else hooks, k, describe(
            node, <VariableWrapper> node.output if node.output != NULL else None, grad.shape))
        raise
    return g


# Hooks on a leaf's accumulated gradient -------------------------------------------------------------------------------


cdef int run_reduce_hooks(GradNode node, VariableWrapper leaf, tuple hooks) except -1:
    """Run a leaf's in-place and post-accumulate hooks, in the order of registration.

    In-place hooks get the tensor that is ``leaf.grad``; its buffer is contiguous and the leaf's own.
    """
    cdef Py_ssize_t k = 0, count = len(hooks)
    cdef bint recording = is_recording()
    cdef VariableWrapper grad
    cdef object result
    try:
        while k < count:
            if not (<Hook> hooks[k]).removed:
                if (<Hook> hooks[k]).kind == INPLACE:
                    if leaf.stored_grad is not None:    # an earlier hook may have cleared it
                        grad = leaf.grad
                        if grad.node is not None or grad.read_only or not is_private(grad.data):
                            grad = wrap(<cnp.ndarray> cnp.PyArray_NewCopy(grad.data, cnp.NPY_CORDER))
                            leaf.stored_grad = grad
                        mark_changed(grad.data)
                        (<InplaceVariableWrapperHook> hooks[k]).call(grad)
                else:
                    result = (<FunctionHook> hooks[k]).function(leaf)
                    if result is not None and result is not leaf:
                        raise TypeError(
                            f"post-accumulate hook {(<Hook> hooks[k]).label} returned {type(result).__name__}, "
                            f"expected None: it must change the leaf itself (w -= 0.1 * w.grad)")
                set_recording(recording)
            k += 1
    except BaseException as error:
        add_hook_note(error, hooks, k, describe(node, leaf, leaf.shape))
        raise
    return 0


cdef inline bint is_private(cnp.ndarray a) noexcept:
    """Whether an array can be handed out for changing: contiguous, writeable, memory of its own."""
    cdef int want = cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA
    return (cnp.PyArray_FLAGS(a) & want) == want


cdef int run_final_hooks(tuple hooks, str tensor) except -1:
    """Run the callbacks of a leaf after the whole backward."""
    cdef Py_ssize_t k = 0, count = len(hooks)
    try:
        while k < count:
            if not (<Hook> hooks[k]).removed:
                (<FunctionHook> hooks[k]).function()
            k += 1
    except BaseException as error:
        add_hook_note(error, hooks, k, tensor)
        raise
    return 0


# Registration ---------------------------------------------------------------------------------------------------------


cdef class FunctionHook(Hook):
    """A Python function that is called with the leaf (post-accumulate), or with nothing (final)."""
    cdef object function

    cdef object target(self):
        return self.function


# A compiled hook may be registered on many tensors, so each registration has an object of its own.

cdef class SharedHook(VariableWrapperHook):
    cdef VariableWrapperHook shared

    cdef VariableWrapper call(self, VariableWrapper grad):
        return self.shared.call(grad)

    cdef object target(self):
        return self.shared.target()


cdef class SharedInplaceHook(InplaceVariableWrapperHook):
    cdef InplaceVariableWrapperHook shared

    cdef int call(self, VariableWrapper grad) except -1:
        return self.shared.call(grad)

    cdef object target(self):
        return self.shared.target()


cdef int require_callable(str method, object hook, str or_else) except -1:
    if not callable(hook):
        raise TypeError(f"{method}: got {type(hook).__name__} {hook!r}, expected a callable{or_else}")
    return 0


cdef int require_grad(str method, VariableWrapper tensor) except -1:
    if tensor.node is None:
        raise RuntimeError(f"Cannot register hook on a tensor that stop gradient. {method}: {why_no_grad(tensor)}")
    return 0


cdef int require_leaf(str method, VariableWrapper tensor) except -1:
    if not tensor.node.flags & LEAF:
        raise ValueError(
            f"{method}: only leaves accumulate gradients, and this is an interior "
            f"{describe(tensor.node, tensor, tensor.shape)}; use register_hook")
    return 0


def register_hook(VariableWrapper self not None, hook):
    """Have a function see, and if it likes replace, this tensor's gradient in every backward.

    It gets the sum of all contributions of one backward, once a backward. Hooks run in the order of registration, each
    on the result of the one before. A leaf's result is added to its ``.grad``; an interior tensor's flows upstream and
    does not change the tensor's own ``.grad``.

    Parameters
    ----------
    hook : callable or VariableWrapperHook
        ``hook(grad)`` gets a read-only tensor of this tensor's shape and dtype, and returns another (or an ndarray), or
        None to leave it.

    Returns
    -------
    HookRemoveHelper

    Raises
    ------
    RuntimeError
        The tensor does not require grad.
    TypeError
        The hook is not callable.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1., 2.], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> (x * 3).sum().backward()
    >>> x.grad
    Tensor([6., 6.], dtype=float32)
    >>> handle.remove()
    True
    """
    cdef PyVariableWrapperHook function
    cdef SharedHook compiled
    if isinstance(hook, VariableWrapperHook):
        compiled = SharedHook.__new__(SharedHook)
        compiled.shared = hook
        require_grad("register_hook", self)
        return self.add_hook(compiled, GRADIENT)
    require_callable("register_hook", hook, " or a VariableWrapperHook")
    require_grad("register_hook", self)
    function = PyVariableWrapperHook.__new__(PyVariableWrapperHook)
    function.function = hook
    return self.add_hook(function, GRADIENT)


def register_inplace_hook(VariableWrapper self not None, hook):
    """Have a function change this leaf's accumulated gradient in place, as soon as a backward has added to it.

    Parameters
    ----------
    hook : callable or InplaceVariableWrapperHook
        ``hook(grad)`` gets ``self.grad``, whose memory is its own, and changes it (``grad *= 0.5``).

    Returns
    -------
    HookRemoveHelper

    Raises
    ------
    ValueError
        The tensor is not a leaf.
    RuntimeError
        It does not require grad.
    TypeError
        The hook is not callable.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1., 2.], requires_grad=True)
    >>> def halve(grad):
    ...     grad *= 0.5
    >>> handle = x.register_inplace_hook(halve)
    >>> (x * 3).sum().backward()
    >>> x.grad
    Tensor([1.5, 1.5], dtype=float32)
    """
    cdef PyInplaceVariableWrapperHook function
    cdef SharedInplaceHook compiled = None
    if isinstance(hook, InplaceVariableWrapperHook):
        compiled = SharedInplaceHook.__new__(SharedInplaceHook)
        compiled.shared = hook
    else:
        require_callable("register_inplace_hook", hook, " or an InplaceVariableWrapperHook")
    require_grad("register_inplace_hook", self)
    require_leaf("register_inplace_hook", self)
    if compiled is not None:
        return self.add_hook(compiled, INPLACE)
    function = PyInplaceVariableWrapperHook.__new__(PyInplaceVariableWrapperHook)
    function.function = hook
    return self.add_hook(function, INPLACE)


def register_post_accumulate_grad_hook(VariableWrapper self not None, hook):
    """Call a function with this leaf as soon as a backward has added to its ``.grad``: the place for an update.

    Parameters
    ----------
    hook : callable
        ``hook(tensor)``; recording is off, so the tensor may be changed in place.

    Returns
    -------
    HookRemoveHelper

    Raises
    ------
    ValueError
        The tensor is not a leaf.
    RuntimeError
        It does not require grad.
    TypeError
        The hook is not callable.

    Examples
    --------
    >>> import hookgrad as hg
    >>> w = hg.tensor([1., 2.], requires_grad=True)
    >>> def descend(w):
    ...     w -= 0.1 * w.grad
    ...     w.clear_grad()
    >>> handle = w.register_post_accumulate_grad_hook(descend)
    >>> (w * w).sum().backward()
    >>> w
    Tensor([0.8, 1.6], dtype=float32, requires_grad=True)
    """
    cdef FunctionHook function
    require_callable("register_post_accumulate_grad_hook", hook, "")
    require_grad("register_post_accumulate_grad_hook", self)
    require_leaf("register_post_accumulate_grad_hook", self)
    function = FunctionHook.__new__(FunctionHook)
    function.function = hook
    return self.add_hook(function, POST_ACCUMULATE)


def _register_backward_hook(VariableWrapper self not None, hook):
    """Call a function without arguments when a whole backward that reached this leaf is over.

    Parameters
    ----------
    hook : callable

    Returns
    -------
    HookRemoveHelper

    Raises
    ------
    ValueError
        The tensor is not a leaf, or does not require grad.
    TypeError
        The hook is not callable.
    """
    cdef FunctionHook function
    require_callable("_register_backward_hook", hook, "")
    if self.node is None:
        raise ValueError(f"_register_backward_hook: {why_no_grad(self)}")
    require_leaf("_register_backward_hook", self)
    function = FunctionHook.__new__(FunctionHook)
    function.function = hook
    return self.add_hook(function, FINAL)


cdef str why_no_grad(VariableWrapper variable):
    """Why a tensor needs no gradient, and what to do."""
    if variable.read_only:
        return "this is a gradient that a hook was given, which is read-only and needs no grad"
    if variable.dtype.kind != "f":
        return (f"this tensor of dtype {variable.dtype} is data and has no gradient; only float32 and float64 can "
                f"require grad")
    if variable.unrecorded:
        return ("this tensor was computed while recording was off (no_grad), so no gradient flows to it; compute it "
                "outside no_grad(), or make a leaf of it with t.stop_gradient = False")
    return ("this tensor is a constant, or was made from constants alone; make the leaves with requires_grad=True, or "
            "set t.stop_gradient = False first")
