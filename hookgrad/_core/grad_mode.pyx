"""Whether operations are recorded, for each thread.

A thread starts with recording on. The contexts that users see (`no_grad` and the like) are in ``hookgrad/autograd``;
the engines turn recording off, or on for ``create_graph``, while they run.
"""

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int hookgrad_recording = 1;
    #else
    static __thread int hookgrad_recording = 1;
    #endif
    """
    int hookgrad_recording


cdef bint is_recording() noexcept nogil:
    return hookgrad_recording


cdef bint set_recording(bint mode) noexcept nogil:
    """Set this thread's mode; the mode before is returned."""
    global hookgrad_recording
    cdef bint before = hookgrad_recording
    hookgrad_recording = mode
    return before


def is_grad_enabled():
    """Whether operations of this thread are recorded.

    Examples
    --------
    >>> import hookgrad as hg
    >>> with hg.no_grad():
    ...     hg.is_grad_enabled()
    False
    """
    return is_recording()


def exchange_grad_enabled(bint mode):
    """Set this thread's mode; the mode before is returned."""
    return set_recording(mode)
