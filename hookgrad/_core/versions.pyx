"""In-place changes of arrays, and the check that a saved array was not changed.

Design
------
One clock counts every in-place change in the process. A node notes the clock when it saves arrays, which costs one
load. When its VJP reads them and the clock stands where it stood, nothing was changed anywhere, which is nearly
always; only otherwise is the array's own record looked up. A record belongs to the array that owns the memory, so
all views share it.
"""

import weakref
from collections import deque

from hookgrad._core.kernels cimport is_ndarray

cdef int64_t clock = 0
cdef dict records = {}      # id of the owner -> its Record, for arrays that were changed at least once


cdef class Record:
    """How often one owner of memory was changed, and when last."""
    cdef int64_t version
    cdef int64_t last
    cdef object recent          # the clock at the latest changes
    cdef object owner           # a weak reference that removes the record


cdef int64_t now() noexcept nogil:
    return clock


cdef object owner_of(object a):
    """The object at the end of the chain of bases."""
    while isinstance(a, cnp.ndarray) and a.base is not None:
        a = a.base
    return a


cdef int mark_changed(cnp.ndarray a) except -1:
    """Note that a's memory is changed in place."""
    global clock
    cdef object owner = owner_of(a)
    cdef size_t key = <size_t> <void *> owner
    cdef Record record = records.get(key)
    if record is None:
        record = Record.__new__(Record)
        record.recent = deque(maxlen=64)
        try:
            record.owner = weakref.ref(owner, lambda _, key=key: records.pop(key, None))
        except TypeError:
            record.owner = owner    # a buffer that takes no weak references: the record keeps it
        records[key] = record
    clock += 1
    record.version += 1
    record.last = clock
    record.recent.append(clock)
    return 0


cdef int check_unchanged(object saved, int64_t saved_clock, str op, str what) except -1:
    """Raise if a saved array was changed since the clock stood at `saved_clock`.

    Raises
    ------
    RuntimeError
        It was; the message has the op, the array's shape and both versions.
    """
    cdef Record record
    cdef int64_t since
    if clock == saved_clock or not is_ndarray(saved):
        return 0
    cdef object owner = owner_of(saved)
    record = records.get(<size_t> <void *> owner)
    if record is None or record.last <= saved_clock:
        return 0
    since = sum([1 for stamp in record.recent if stamp > saved_clock])
    raise RuntimeError(
        f"{op}: the {what} that it saved for backward, of shape {saved.shape}, was changed in place: it was saved at "
        f"version {record.version - since} and is now at version {record.version}. Change a copy, or make the "
        f"change after backward()")
