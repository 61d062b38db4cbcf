"""The nodes of the recorded graph.

Note [Ownership]
----------------
A node owns its inputs' nodes (``next0``, ``next1``, ``next_more``) and the arrays that it saved; never a tensor. A
tensor owns its node. A node points back to the tensor it made without owning it: ``node.output`` and the tensor's
``back`` are a pair of plain pointers, and whichever side dies first clears the other's. They are separate from the
tensor's owning reference, because the garbage collector may clear that one before the tensor is deallocated.

So there are no reference cycles, and dropping the last tensor frees the graph at once. Deallocating a long chain does
not recurse (``trashcan``).
"""

cimport cython

from cpython.ref cimport Py_XDECREF

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
@cython.freelist(256)
@cython.trashcan(True)
cdef class GradNode:
    """One recorded operation, and the place where the gradient of its output is summed."""

    def __dealloc__(self):
        if self.output_back != NULL:
            self.output_back[0] = NULL
        Py_XDECREF(self.state.inner_var)

    cdef int free_saved(self) except -1:
        """Drop what the VJP reads; a later backward through this node is an error."""
        self.flags |= FREED
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
