"""The engines: from the outputs backwards through the recorded graph."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from hookgrad._core.accumulator cimport GradientAccumulator
from hookgrad._core.grad_node cimport GradNode, RunState
from hookgrad._core.variable cimport VariableWrapper


cdef struct Ready:
    int64_t priority
    RunState *state


cdef class Engine:
    cdef int64_t run_id
    cdef bint create_graph
    cdef bint retain_graph
    cdef bint pruned                # only what `targets` need is run
    cdef list roots                 # nodes
    cdef list targets               # nodes
    cdef GradientAccumulator accumulator
    cdef list callbacks             # what runs when all is over
    cdef dict overflow              # node -> OverflowState
    cdef RunState *first            # the discovered nodes, in the order of discovery
    cdef RunState *last
    cdef Ready *heap                # the ready nodes, a max-heap
    cdef Py_ssize_t heap_size, heap_room
    cdef PyObject *outer            # the engine that runs around this one in this thread, borrowed
    cdef PyObject *older            # the active engines of all threads, a doubly linked list, borrowed
    cdef PyObject *newer

    cdef int run(self, list grads) except -1
    cdef int run_callbacks(self) except -1
    cdef RunState *state_of(self, GradNode node) except? NULL
    cdef RunState *claim(self, GradNode node) except NULL
    cdef int discover(self) except -1
    cdef int prune(self) except -1
    cdef int seed(self, list grads) except -1
    cdef int execute(self) except -1
    cdef int process(self, GradNode node, RunState *state) except -1
    cdef bint is_needed(self, GradNode node) except -1
    cdef int push(self, RunState *state) except -1
    cdef RunState *pop(self) noexcept
    cdef int finish(self) except -1
    cdef int roll_back(self) except -1
    cdef object interior_gradient(self, GradNode node, RunState *state, object g)
    cdef int leaf_gradient(self, GradNode node, RunState *state, object g) except -1


cdef class BasicEngine(Engine):
    cdef bint fills_interior
    cdef list replaced              # interior tensor, its .grad before, ...


cdef class PartialGradEngine(Engine):
    cdef bint run_leaf_hooks
    cdef dict captured              # node -> gradient
