"""The nodes of the recorded graph.

Note [Ownership]
----------------
A node owns its inputs' nodes (``next0``, ``next1``, ``next_more``) and the arrays that it saved; never a tensor. A
tensor owns its node. A node points back to the living tensor that it made, without owning it (``output``); the tensor
clears that pointer when it dies or leaves the node. For this to be always possible the garbage collector must not take
the tensor's reference to its node away, so `VariableWrapper` is ``no_gc_clear``: a cycle through tensors is broken at
the hooks, closures or containers that it must go through, since a tensor's other references are to arrays and to
gradients, which form no cycle (the setter of ``.grad`` sees to that).

So there are no reference cycles but those that a user's hooks make, and dropping the last tensor frees the graph at
once. Deallocating a long chain does not recurse (``trashcan``).
"""

cimport cython

from hookgrad._core.kernels cimport recycle

cdef int64_t last_sequence = 0


cdef class Op:
    """One differentiable operation.

    `vjp(node, g, i)` gives the gradient of input i from the gradient `g` of the output: in arrays where `g` is an
    array, in recorded operations where `g` is a `VariableWrapper` (``create_graph``). It is written once, with
    functions that take either.
    """

    cdef object vjp(self, GradNode node, object g, int i):
        raise NotImplementedError(f"{self.name} has no derivative")

    def __repr__(self):
        return f"Op({self.name})"


@cython.final
@cython.freelist(1024)
@cython.trashcan(True)
cdef class GradNode:
    """One recorded operation, and the place where the gradient of its output is summed."""

    cdef int free_saved(self) except -1:
        """Drop what the VJP reads; a later backward through this node is an error."""
        self.flags |= FREED
        recycle(<PyObject *> self.saved0)
        recycle(<PyObject *> self.saved1)
        self.saved0 = None
        self.saved1 = None
        return 0

    def name(self):
        """The name of the operation, as in ``MultiplyBackward``."""
        if self.flags & LEAF:
            return "AccumulateGrad"
        return "".join([part.capitalize() for part in self.op.name.split("_")]) + "Backward"

    @property
    def next_functions(self):
        """The nodes that made the inputs, in order; None for an input that needs no gradient."""
        return tuple([self.next_node(i) for i in range(self.edges)])

    def __repr__(self):
        return f"<{self.name()} at {<size_t> <void *> self:#x}>"


cdef Op named(Op op, str name):
    """Name an op, on its way into its module's constant."""
    op.name = name
    return op


cdef extern from *:
    """
    static void hookgrad_forbid_new(PyObject *type) {
        ((PyTypeObject *) type)->tp_new = NULL;
        ((PyTypeObject *) type)->tp_vectorcall = NULL;
        PyType_Modified((PyTypeObject *) type);
    }
    """
    void hookgrad_forbid_new(PyObject *type)

# A node without an op would be a crash, so Python cannot make one; `new_node` does not go through the type.
hookgrad_forbid_new(<PyObject *> GradNode)


cdef GradNode new_node(Op op):
    global last_sequence
    cdef GradNode node = GradNode.__new__(GradNode)
    last_sequence += 1
    node.sequence = last_sequence
    node.op = op
    return node


cdef GradNode new_leaf():
    """The sink of a leaf that requires grad."""
    cdef GradNode node = new_node(None)
    node.flags = LEAF
    return node
