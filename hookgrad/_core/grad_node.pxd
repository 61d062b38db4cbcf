"""The nodes of the recorded graph."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from hookgrad._core.hook_map cimport HookMap


cdef class Op:
    """One differentiable operation: a name and the vector-Jacobian product (VJP) of its forward."""
    cdef readonly str name

    cdef object vjp(self, GradNode node, object g, int i)


# What one engine run knows of one node. See Note [Claim or overflow] in engine.pyx.
cdef struct RunState:
    int64_t run             # the run that claimed this state
    int pending             # contributions that are still to come
    int flags               # NEEDED, CAPTURED
    PyObject *inner_var     # the sum of the contributions so far, owned
    PyObject *node          # borrowed
    RunState *next          # in the order of discovery


cdef enum NodeFlags:
    LEAF = 1                # the sink of a leaf: no VJP, no edges
    FREED = 2               # what it saved is gone
    SAVED_OUTPUT = 4        # saved1 is the node's own output


cdef class GradNode:
    cdef Op op
    cdef readonly int64_t sequence      # order of creation: an edge always leads to a smaller one
    cdef int flags
    cdef int edges                      # how many inputs
    cdef GradNode next0                 # the nodes that made the inputs; None: needs no gradient
    cdef GradNode next1
    cdef list next_more                 # inputs 2, 3, ...
    cdef PyObject *output               # the living VariableWrapper that this node made, borrowed
    cdef HookMap hooks                  # that variable's hooks, shared with it; None: none
    cdef object saved0                  # arrays and numbers that the VJP reads
    cdef object saved1
    cdef object aux                     # shapes, axes and other constants of the op
    cdef int64_t clock                  # when the arrays were saved (see versions.pyx)
    cdef RunState state

    cdef inline GradNode next_node(self, int i):
        if i == 0:
            return self.next0
        if i == 1:
            return self.next1
        return <GradNode> self.next_more[i - 2]

    cdef int free_saved(self) except -1


cdef Op named(Op op, str name)
cdef GradNode new_node(Op op)
cdef GradNode new_leaf()
