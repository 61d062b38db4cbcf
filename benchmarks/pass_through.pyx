"""A compiled hook that does nothing, as a user of hookgrad would write one."""

from hookgrad cimport VariableWrapper, VariableWrapperHook


cdef class PassThrough(VariableWrapperHook):
    """Leaves the gradient as it is."""

    cdef VariableWrapper call(self, VariableWrapper grad):
        return None
