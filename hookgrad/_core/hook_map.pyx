"""The ordered map of a tensor's hooks: from an id that is never used twice to the hook.

Note [Hooks that change the map while it is iterated]
-----------------------------------------------------
A loop over hooks goes over an immutable tuple, made once and kept until the map changes. A hook added meanwhile is in
the next tuple only, so it waits for the next backward; a removed one is marked, and the loop looks at the mark before
each call, so it does not run any more. Nothing is locked and nothing is copied on the way.

Note [Map and helpers]
----------------------
A map owns its hooks; a helper owns nothing, so that it keeps neither tensor nor hook alive. It points to the map, and
the map to its living helpers, without owning: a list through the helpers themselves, which a helper leaves when it
dies, and of which the map clears every pointer when it dies. Nothing in this depends on the map's hooks, since the
garbage collector may empty their dictionary long before the map is deallocated.
"""

import os

cimport cython

cdef extern from *:
    """
    #define hookgrad_frame_code(frame) ((PyObject *) PyFrame_GetCode(frame))
    """
    ctypedef struct PyFrameObject
    PyFrameObject *PyEval_GetFrame()            # borrowed
    object PyFrame_GetCode "hookgrad_frame_code"(PyFrameObject *)
    int PyFrame_GetLasti(PyFrameObject *)

# Ids accumulate over the life of the process, so that one is never used twice, not even on another tensor.
cdef int64_t next_id = 0

cdef str package = os.path.dirname(os.path.dirname(__file__)) + os.sep
cdef object user_code = None        # the code that registered last, known to lie outside the package


cdef class Hook:
    """A registered hook: what it is called with is up to its kind; when it was registered, and where, is here."""

    cdef object target(self):
        """What a user would call the hook: the function or object that was registered."""
        return self

    @property
    def where(self):
        """The ``file:line`` that registered the hook."""
        if self.code is None:
            return "<unknown>"
        line = self.code.co_firstlineno
        for start, stop, number in self.code.co_lines():
            if start <= self.instruction < stop and number is not None:
                line = number
        return f"{self.code.co_filename}:{line}"

    @property
    def label(self):
        """The registered function's qualified name, or its repr where it has none."""
        target = self.target()
        return getattr(target, "__qualname__", None) or repr(target)


cdef int note_place(Hook hook) except -1:
    """Remember the innermost Python frame outside hookgrad. Its line is worked out when somebody asks."""
    global user_code
    cdef PyFrameObject *innermost = PyEval_GetFrame()
    cdef object code, frame
    if innermost == NULL:
        return 0
    code = PyFrame_GetCode(innermost)
    hook.instruction = PyFrame_GetLasti(innermost)
    if code is not user_code:
        if (<str> code.co_filename).startswith(package):
            frame = <object> <PyObject *> innermost
            while frame is not None and (<str> frame.f_code.co_filename).startswith(package):
                frame = frame.f_back
            if frame is None:
                return 0
            code = frame.f_code
            hook.instruction = frame.f_lasti
        else:
            user_code = code
    hook.code = code
    return 0


@cython.final
@cython.freelist(64)
cdef class HookMap:
    """An ordered map from id to hook; adding and removing take constant time."""

    def __dealloc__(self):
        # See Note [Map and helpers].
        cdef PyObject *helper = self.helpers
        while helper != NULL:
            (<HookRemoveHelper> helper).map = NULL
            helper = (<HookRemoveHelper> helper).after

    def __len__(self):
        return len(self.all())

    cdef HookRemoveHelper add(self, Hook hook, HookKind kind):
        """Append a hook, and give the handle that removes it."""
        global next_id
        cdef HookRemoveHelper helper = HookRemoveHelper.__new__(HookRemoveHelper)
        hook.kind = kind
        hook.id = next_id
        next_id += 1
        note_place(hook)
        if self.hooks is None and self.only is None:
            self.only = hook
        else:
            if self.hooks is None:
                self.hooks = {self.only.id: self.only}
                self.only = None
            self.hooks[hook.id] = hook
        helper.id = hook.id
        helper.map = <PyObject *> self
        helper.after = self.helpers
        if self.helpers != NULL:
            (<HookRemoveHelper> self.helpers).before = <PyObject *> helper
        self.helpers = <PyObject *> helper
        if kind == GRADIENT:
            self.cached = None
        elif kind == FINAL:
            self.final_hooks += 1
        else:
            self.reduce_hooks += 1
        return helper

    cdef bint remove(self, int64_t id) except -1:
        """Remove the hook with this id; whether it was there."""
        cdef Hook hook
        if self.hooks is not None:
            hook = self.hooks.pop(id, None)
            if hook is None:
                return False
        elif self.only is not None and self.only.id == id:
            hook = self.only
            self.only = None
        else:
            return False
        hook.removed = True
        if hook.kind == GRADIENT:
            self.cached = None
        elif hook.kind == FINAL:
            self.final_hooks -= 1
        else:
            self.reduce_hooks -= 1
        return True

    cdef list all(self):
        """All hooks, in the order of registration."""
        if self.hooks is not None:
            return list(self.hooks.values())
        return [] if self.only is None else [self.only]

    cdef tuple of_kind(self, int first, int last):
        """The hooks whose kind lies between first and last, in the order of registration."""
        cdef Hook hook
        cdef list found = []
        for hook in self.all():
            if first <= hook.kind <= last:
                found.append(hook)
        return tuple(found)

    cdef tuple gradient_hooks(self):
        """The gradient hooks, in the order of registration."""
        if self.cached is None:
            self.cached = self.of_kind(GRADIENT, GRADIENT)
        return self.cached


@cython.final
@cython.freelist(64)
cdef class HookRemoveHelper:
    """What registering a hook returns: removes it again.

    It does not keep the tensor alive, nor the hook. As a context manager it removes the hook at the end.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1.], requires_grad=True)
    >>> with x.register_hook(lambda grad: grad * 2):
    ...     (x * 3).backward()
    >>> x.grad
    Tensor([6.], dtype=float32)
    """

    def __init__(self):
        raise TypeError("HookRemoveHelper is what register_hook returns; it is not made by calling it")

    def __dealloc__(self):
        if self.map == NULL:
            return
        if self.before != NULL:
            (<HookRemoveHelper> self.before).after = self.after
        else:
            (<HookMap> self.map).helpers = self.after
        if self.after != NULL:
            (<HookRemoveHelper> self.after).before = self.before

    def remove(self):
        """Remove the hook: True the first time, False after, or when tensor and graph are gone."""
        return self.map != NULL and (<HookMap> self.map).remove(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()

    def __repr__(self):
        return f"HookRemoveHelper(id={self.id})"
