"""Sums a tensor's gradient within one backward, and accumulates a leaf's across backwards.

*Sum* and *accumulate* are two things: contributions of one backward are summed into ``inner_var``, in the tensor's
node; the sum is then, hooks done, accumulated into the leaf's ``.grad``, which lasts over backwards. An engine makes
one accumulator for its run.

Note [All or nothing]
---------------------
A leaf's sum is staged and added to ``.grad`` when the whole traversal has succeeded, so that a failed backward changes
no ``.grad``. Only a leaf with in-place or post-accumulate hooks is written at once, since they must see it. It costs no
copy: a sum that nobody else holds is adopted as ``.grad``.
"""

cimport cython
cimport numpy as cnp

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from hookgrad._core.ops cimport elementwise
from hookgrad._core.hooks cimport run_gradient_hooks, run_reduce_hooks
from hookgrad._core.inner_loops cimport ADD
from hookgrad._core.kernels cimport add_to, binary, binary_into, is_exclusive, is_ndarray, may_overlap, same_shape
from hookgrad._core.variable cimport wrap
from hookgrad._core.versions cimport mark_changed

cnp.import_array()

cdef extern from *:
    """
    #define hookgrad_count(x) Py_REFCNT(x)
    """
    Py_ssize_t refcount "hookgrad_count"(object) noexcept


cdef inline object take(RunState *state):
    """What ``inner_var`` holds, no longer owned by the state."""
    cdef object value = <object> state.inner_var
    Py_DECREF(value)
    state.inner_var = NULL
    return value


cdef inline int put(RunState *state, object value) except -1:
    Py_INCREF(value)
    state.inner_var = <PyObject *> value
    return 0


cdef object added(object total, object g):
    """total + g, in total's or g's memory where nobody else holds it. The caller gives both up."""
    if not is_ndarray(total) or not is_ndarray(g):
        return elementwise.add(total, g)
    if not is_exclusive(<PyObject *> total) and is_exclusive(<PyObject *> g):
        return binary_into(ADD, g, total)
    return binary_into(ADD, total, g)


cdef object own_copy(object g):
    """A gradient that shares its memory with nothing: g itself where that is so already."""
    if is_ndarray(g):
        return g if is_exclusive(<PyObject *> g) else cnp.PyArray_NewCopy(<cnp.ndarray> g, cnp.NPY_CORDER)
    if refcount(g) == 1 and not (<VariableWrapper> g).read_only and (
            is_exclusive(<PyObject *> (<VariableWrapper> g).data)):
        return g
    return elementwise.copy(g)


cdef class GradientAccumulator:
    """Sums gradients within one backward and accumulates those of leaves. Abstract: the two kinds differ in the sum."""

    def __cinit__(self):
        self.staged = []

    cdef int sum_gradient(self, RunState *state, object g, int64_t sequence) except -1:
        """Take one contribution to a tensor's gradient, from the consumer with this sequence number."""
        raise NotImplementedError

    cdef object sum_completed(self, RunState *state):
        """The sum of the contributions, which the state no longer holds; None where there was none."""
        raise NotImplementedError

    cdef object call_gradient_hooks(self, GradNode node, object g):
        """The sum after the tensor's gradient hooks."""
        return g if node.hooks is None else run_gradient_hooks(node, g)

    cdef int accumulate(self, VariableWrapper leaf, object g) except -1:
        """Add a sum to a leaf's ``.grad``. See Note [All or nothing]."""
        cdef unsigned int writes = leaf.grad_writes
        return place(leaf, g, writes, new_grad(leaf, g))

    cdef int call_reduce_hooks(self, GradNode node, VariableWrapper leaf, tuple hooks) except -1:
        """Run the hooks on the accumulated gradient of a leaf."""
        return run_reduce_hooks(node, leaf, hooks)

    cdef int stage(self, VariableWrapper leaf, object g) except -1:
        """Keep a leaf's sum for `commit`."""
        self.staged.append(leaf)
        self.staged.append(g)
        return 0

    cdef int commit(self) except -1:
        """Accumulate all staged sums."""
        cdef list staged = self.staged
        cdef list writes = [], grads = []
        cdef Py_ssize_t k
        cdef object g
        # First all that can fail, then all that changes a .grad.
        for k in range(0, len(staged), 2):
            g = staged[k + 1]
            staged[k + 1] = None        # so that `g` is the only reference, and can be adopted
            writes.append((<VariableWrapper> staged[k]).grad_writes)
            grads.append(new_grad(<VariableWrapper> staged[k], g))
            staged[k + 1] = g
        for k in range(0, len(staged), 2):
            place(<VariableWrapper> staged[k], staged[k + 1], writes[k // 2], grads[k // 2])
        self.staged = []
        return 0


cdef object new_grad(VariableWrapper leaf, object g):
    """What a leaf's ``.grad`` becomes by accumulating g; None where g can be added to it in place."""
    cdef object old = leaf.stored_grad
    cdef VariableWrapper held
    if old is None:
        return own_copy(g)
    if is_ndarray(old):
        if not is_ndarray(g):
            return elementwise.add(wrap(<cnp.ndarray> old), g)
        return None if leaf.owns_grad else binary(ADD, old, g)
    held = <VariableWrapper> old
    if not is_ndarray(g):
        return elementwise.add(held, g)
    if held.node is None and not held.read_only and (
            cnp.PyArray_FLAGS(held.data) & cnp.NPY_ARRAY_CARRAY == cnp.NPY_ARRAY_CARRAY) and (
            same_shape(held.data, <cnp.ndarray> g)) and (
            is_exclusive(<PyObject *> g) or not may_overlap(held.data, <cnp.ndarray> g)):
        mark_changed(held.data)
        return None
    return binary(ADD, held.data, g)


cdef int place(VariableWrapper leaf, object g, unsigned int writes, object new) except -1:
    """Make the change that `new_grad` prepared when ``.grad`` had been written so often.

    Large copies and sums release the GIL, so another thread that shares the leaf may have written it since: then the
    change is prepared again. The comparison and the write, and an addition in place, happen under the GIL.
    """
    while leaf.grad_writes != writes:
        writes = leaf.grad_writes
        new = new_grad(leaf, g)
    if new is not None:
        leaf.stored_grad = new
        leaf.owns_grad = True
    elif is_ndarray(leaf.stored_grad):
        add_to(<cnp.ndarray> leaf.stored_grad, <cnp.ndarray> g)
    else:
        add_to((<VariableWrapper> leaf.stored_grad).data, <cnp.ndarray> g)
    leaf.grad_writes += 1
    return 0


@cython.final
cdef class EagerGradientAccumulator(GradientAccumulator):
    """Adds on arrival. The first contribution is adopted, later ones are added in place where that is safe."""

    cdef int sum_gradient(self, RunState *state, object g, int64_t sequence) except -1:
        if state.inner_var == NULL:
            return put(state, g)
        return put(state, added(take(state), g))

    cdef object sum_completed(self, RunState *state):
        return None if state.inner_var == NULL else take(state)


@cython.final
cdef class SortedGradientAccumulator(GradientAccumulator):
    """Adds in the order in which the forward ran, whatever the order of arrival; ``inner_var`` lists what came."""

    cdef int sum_gradient(self, RunState *state, object g, int64_t sequence) except -1:
        cdef list contributions
        if state.inner_var == NULL:
            contributions = []
            put(state, contributions)
        contributions = <list> <object> state.inner_var
        contributions.append((sequence, len(contributions), g))
        return 0

    cdef object sum_completed(self, RunState *state):
        cdef list contributions
        cdef object total = None, g
        if state.inner_var == NULL:
            return None
        contributions = take(state)
        contributions.sort(key=by_sequence)
        for k in range(len(contributions)):
            g = (<tuple> contributions[k])[2]
            contributions[k] = None
            total = g if total is None else added(total, g)
        return total


def by_sequence(contribution):
    return contribution[:2]
