"""The ordered map of a tensor's hooks: from an id that is never used twice to the hook.

Note [Hooks that change the map while it is iterated]
-----------------------------------------------------
A loop over hooks goes over an immutable tuple, made once and kept until the map changes. A hook added meanwhile is in
the next tuple only, so it waits for the next backward; a removed one is marked on its entry, which the loop looks at
before each call, so it does not run any more. Nothing is locked and nothing is copied on the way.
"""

from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject *PyEval_GetFrame()         # borrowed

# Ids accumulate over the life of the process, so that one is never used twice, not even on another tensor.
cdef int64_t next_id = 0


cdef class HookEntry:
    """One registration: the hook, its kind, and where it was registered."""

    @property
    def where(self):
        """The ``file:line`` that registered the hook."""
        if self.code is None:
            return "<unknown>"
        return f"{self.code.co_filename}:{self.line}"

    @property
    def label(self):
        """The hook's qualified name, or its repr where it has none."""
        target = getattr(self.hook, "function", self.hook)
        return getattr(target, "__qualname__", None) or repr(target)


cdef class HookMap:
    """An ordered map from id to hook; adding and removing take constant time."""

    def __cinit__(self):
        self.entries = {}

    def __len__(self):
        return len(self.entries)

    cdef HookEntry add(self, object hook, HookKind kind):
        """Append a hook; the place of registration is the innermost frame outside hookgrad."""
        global next_id
        cdef HookEntry entry = HookEntry.__new__(HookEntry)
        cdef PyObject *innermost = PyEval_GetFrame()
        cdef object frame = <object> innermost if innermost != NULL else None
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hookgrad":
            frame = frame.f_back
        if frame is not None:
            entry.code = frame.f_code
            entry.line = frame.f_lineno
        entry.hook = hook
        entry.kind = kind
        entry.id = next_id
        self.entries[entry.id] = entry
        next_id += 1
        self.cached = None
        if kind == FINAL:
            self.has_final_hooks = True
        elif kind != GRADIENT:
            self.has_reduce_hooks = True
        return entry

    def remove(self, int64_t id):
        """Remove the hook with this id; whether it was there."""
        cdef HookEntry entry = self.entries.pop(id, None)
        if entry is None:
            return False
        entry.removed = True
        self.cached = None
        if entry.kind != GRADIENT:
            self.has_final_hooks = len(self.of_kind(FINAL, FINAL)) > 0
            self.has_reduce_hooks = len(self.of_kind(INPLACE, POST_ACCUMULATE)) > 0
        return True

    cdef tuple of_kind(self, int first, int last):
        """The entries whose kind lies between first and last, in the order of registration."""
        cdef HookEntry entry
        cdef list found = []
        for entry in self.entries.values():
            if first <= entry.kind <= last:
                found.append(entry)
        return tuple(found)

    cdef tuple gradient_hooks(self):
        """The gradient hooks, in the order of registration."""
        if self.cached is None:
            self.cached = self.of_kind(GRADIENT, GRADIENT)
        return self.cached
