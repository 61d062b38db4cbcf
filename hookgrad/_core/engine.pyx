"""The engines: from the outputs backwards through the recorded graph.

The order is fixed: of the nodes whose contributions are all there, leaves come first, then the latest-created node.

Plan of a run
-------------
1. Discover the nodes that the roots reach, and count for each the contributions that will come (`discover`); where
   only some targets are asked for, mark what they need and count along that (`prune`).
2. Give the roots their gradients; a node with nothing to come is ready (`seed`).
3. While a node is ready (`execute`, `process`):
   3.1 take the sum of its contributions;
   3.2 a leaf: its gradient hooks, then it is staged or, where it has reduce hooks, written and hooked at once;
   3.3 an interior tensor: the raw sum becomes its ``.grad``, then its gradient hooks run;
   3.4 the VJP for each input that needs a gradient, delivered to the input's node;
   3.5 drop what the node saved, unless the graph is retained.
4. Write the staged sums into the leaves' ``.grad`` (`finish`).
5. Run the final callbacks.
If 1 to 4 fail, `roll_back` makes the run unhappened, but for leaves with reduce hooks.

Note [Claim or overflow]
------------------------
What a run knows of a node (`RunState`) lies in the node itself, where it costs no look-up. But a hook may start a
backward over the very nodes that an outer run is amid, and so may another thread. So a run *claims* a node's state by
writing its own id there, if the id that it finds is no active run's; else it keeps a state of its own in a dictionary
(`overflow`). Ids are never used twice, so a state that a finished or failed run left behind is simply stale.

Note [What stays alive]
-----------------------
The engine holds the roots, and edges are never removed from a node, so every discovered node outlives the run whatever
hooks drop; pointers to nodes and states are borrowed. A tensor is held while its hooks run and once it is staged.
"""

cimport cython
cimport numpy as cnp

from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdlib cimport free, qsort, realloc

from hookgrad._core.accumulator cimport EagerGradientAccumulator, SortedGradientAccumulator, own_copy
from hookgrad._core.ops.elementwise cimport copy
from hookgrad._core.grad_mode cimport set_recording
from hookgrad._core.grad_node cimport FREED, LEAF
from hookgrad._core.hook_map cimport FINAL, INPLACE, POST_ACCUMULATE
from hookgrad._core.hooks cimport describe, run_final_hooks
from hookgrad._core.kernels cimport is_ndarray, recycle
from hookgrad._core.variable cimport wrap

cnp.import_array()

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) PyObject *hookgrad_engine = NULL;
    #else
    static __thread PyObject *hookgrad_engine = NULL;
    #endif
    """
    PyObject *current_engine "hookgrad_engine"     # innermost of this thread, borrowed

cdef enum StateFlags:
    NEEDED = 1
    TARGET = 2
    QUEUED = 4

cdef int64_t LEAVES_FIRST = <int64_t> 1 << 62
cdef int64_t AFTER_ALL = (<int64_t> 1 << 62) - 1

cdef int64_t last_run_id = 0
cdef PyObject *newest_engine = NULL     # head of the list of active engines
cdef int active_engines = 0

cdef bint sorts_sums = False
cdef bint retains_interior_grads = True


@cython.final
cdef class OverflowState:
    """A run's state of a node whose own place another run has claimed."""
    cdef RunState state

    def __dealloc__(self):
        Py_XDECREF(self.state.inner_var)


cdef bint is_active(int64_t run_id) noexcept:
    cdef PyObject *engine = newest_engine
    while engine != NULL:
        if (<Engine> engine).run_id == run_id:
            return True
        engine = (<Engine> engine).older
    return False


cdef int by_sequence(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<Ready *> a).priority, y = (<Ready *> b).priority
    return (x > y) - (x < y)


cdef class Engine:
    """The traversal that `BasicEngine` and `PartialGradEngine` share; they differ in what becomes of gradients."""

    def __dealloc__(self):
        free(self.heap)

    # The run ----------------------------------------------------------------------------------------------------------

    cdef int run(self, list grads) except -1:
        """One whole backward from the roots; grads are theirs, arrays or (under create_graph) tensors."""
        global last_run_id, newest_engine, active_engines, current_engine
        cdef bint recording, succeeded = False
        last_run_id += 1
        self.run_id = last_run_id
        self.callbacks = []
        self.accumulator = (SortedGradientAccumulator.__new__(SortedGradientAccumulator) if sorts_sums
                            else EagerGradientAccumulator.__new__(EagerGradientAccumulator))
        self.outer = current_engine
        current_engine = <PyObject *> self
        self.older = newest_engine
        if newest_engine != NULL:
            (<Engine> newest_engine).newer = <PyObject *> self
        newest_engine = <PyObject *> self
        active_engines += 1
        recording = set_recording(self.create_graph)
        try:
            self.discover()
            self.seed(grads)
            self.execute()
            self.finish()
            succeeded = True
        finally:
            if not succeeded:
                self.roll_back()
            set_recording(recording)
            current_engine = self.outer
            if self.newer != NULL:
                (<Engine> self.newer).older = self.older
            else:
                newest_engine = self.older
            if self.older != NULL:
                (<Engine> self.older).newer = self.newer
            active_engines -= 1
            self.overflow = None
        self.run_callbacks()
        return 0

    cdef int run_callbacks(self) except -1:
        """Run the final callbacks, unrecorded as hooks are."""
        cdef bint recording
        for callback in self.callbacks:
            recording = set_recording(False)
            try:
                if isinstance(callback, tuple):
                    run_final_hooks(<tuple> (<tuple> callback)[0], <str> (<tuple> callback)[1])
                else:
                    callback()
            finally:
                set_recording(recording)
        return 0

    cdef int roll_back(self) except -1:
        """Drop the sums of a failed run. No allocation, so that it works when memory ran out."""
        cdef RunState *state = self.first
        cdef RunState *following
        cdef PyObject *inner_var
        while state != NULL:
            # Dropping a sum may run a hook's own code, which may claim the state once its run is over.
            following = state.next
            inner_var = state.inner_var
            state.inner_var = NULL
            state.run = 0
            Py_XDECREF(inner_var)
            state = following
        return 0

    # States -----------------------------------------------------------------------------------------------------------

    cdef RunState *state_of(self, GradNode node) except? NULL:
        """This run's state of a node; NULL where it was not discovered. See Note [Claim or overflow]."""
        cdef object own
        if node.state.run == self.run_id:
            return &node.state
        if self.overflow is not None:
            own = self.overflow.get(node)
            if own is not None:
                return &(<OverflowState> own).state
        return NULL

    cdef RunState *claim(self, GradNode node) except NULL:
        """A fresh state for a node that was just discovered, at the end of the list."""
        cdef RunState *state = &node.state
        cdef OverflowState own
        if state.run != 0 and active_engines > 1 and is_active(state.run):
            own = OverflowState.__new__(OverflowState)
            if self.overflow is None:
                self.overflow = {}
            self.overflow[node] = own
            state = &own.state
        state.run = self.run_id
        state.pending = 0
        state.flags = 0
        state.node = <PyObject *> node
        state.next = NULL
        if self.last == NULL:
            self.first = state
        else:
            self.last.next = state
        self.last = state
        return state

    # 1. Discovery -----------------------------------------------------------------------------------------------------

    cdef int discover(self) except -1:
        cdef RunState *state
        cdef RunState *next_state
        cdef GradNode node, next_node
        cdef int64_t oldest = -1
        cdef int i
        if self.pruned:
            # An edge leads to an older node, so nothing older than all targets can need one.
            for node in self.targets:
                if oldest < 0 or node.sequence < oldest:
                    oldest = node.sequence
        for node in self.roots:
            if self.state_of(node) == NULL:
                self.claim(node)
        # The list grows while it is walked: breadth first, without a queue of its own.
        state = self.first
        while state != NULL:
            node = <GradNode> state.node
            if node.flags & FREED and not self.pruned:
                raise_freed(node)
            for i in range(node.edges):
                next_node = node.next_node(i)
                if next_node is None or next_node.sequence < oldest:
                    continue
                next_state = &next_node.state if next_node.state.run == self.run_id else self.state_of(next_node)
                if next_state == NULL:
                    next_state = self.claim(next_node)
                next_state.pending += 1
            state = state.next
        if self.pruned:
            self.prune()
        return 0

    cdef int prune(self) except -1:
        """Mark the nodes that lead to a target, and count contributions along them alone."""
        cdef RunState *state
        cdef RunState *next_state
        cdef GradNode node, next_node
        cdef Py_ssize_t k, count
        cdef int i
        for node in self.targets:
            state = self.state_of(node)
            if state != NULL:
                state.flags |= TARGET
        # Sorted by age, every node comes after all that it leads to. The heap, not in use yet, holds the order.
        state = self.first
        while state != NULL:
            self.push(state)
            state.pending = 0
            state.flags &= ~QUEUED
            state = state.next
        count = self.heap_size
        self.heap_size = 0
        for k in range(count):
            self.heap[k].priority = (<GradNode> self.heap[k].state.node).sequence
        qsort(self.heap, count, sizeof(Ready), by_sequence)
        for k in range(count):
            state = self.heap[k].state
            node = <GradNode> state.node
            if state.flags & TARGET:
                state.flags |= NEEDED
            for i in range(node.edges):
                next_node = node.next_node(i)
                if next_node is None:
                    continue
                next_state = self.state_of(next_node)
                if next_state != NULL and next_state.flags & NEEDED:
                    state.flags |= NEEDED
                    if node.flags & FREED:
                        raise_freed(node)
        for k in range(count):
            state = self.heap[k].state
            if not state.flags & NEEDED:
                continue
            node = <GradNode> state.node
            for i in range(node.edges):
                next_node = node.next_node(i)
                if next_node is None:
                    continue
                next_state = self.state_of(next_node)
                if next_state != NULL and next_state.flags & NEEDED:
                    next_state.pending += 1
        return 0

    # 2. Seeds ---------------------------------------------------------------------------------------------------------

    cdef int seed(self, list grads) except -1:
        cdef RunState *state
        cdef Py_ssize_t k
        for k in range(len(self.roots)):
            state = self.state_of(<GradNode> self.roots[k])
            if self.pruned and not state.flags & NEEDED:
                continue
            self.accumulator.sum_gradient(state, grads[k], AFTER_ALL)
            if state.pending == 0 and not state.flags & QUEUED:
                self.push(state)
        return 0

    # 3. Execution -----------------------------------------------------------------------------------------------------

    cdef int execute(self) except -1:
        cdef RunState *state
        cdef int countdown = 4096
        while True:
            state = self.pop()
            if state == NULL:
                return 0
            self.process(<GradNode> state.node, state)
            countdown -= 1
            if countdown == 0:
                PyErr_CheckSignals()
                countdown = 4096

    cdef int process(self, GradNode node, RunState *state) except -1:
        cdef GradNode next_node
        cdef RunState *next_state
        cdef object g, gi
        cdef int i, last = -1
        # 3.1
        g = self.accumulator.sum_completed(state)
        # 3.2
        if node.flags & LEAF:
            if g is not None:
                self.leaf_gradient(node, state, g)
            return 0
        # 3.3
        if g is not None and (node.output != NULL or node.hooks is not None or state.flags & TARGET):
            g = self.interior_gradient(node, state, g)
        # 3.4
        for i in range(node.edges):
            next_node = node.next_node(i)
            if next_node is not None and (not self.pruned or self.is_needed(next_node)):
                last = i
        if last < 0:
            return 0
        if node.flags & FREED:
            raise_freed(node)
        for i in range(last + 1):
            next_node = node.next_node(i)
            if next_node is None or (self.pruned and not self.is_needed(next_node)):
                continue
            next_state = &next_node.state if next_node.state.run == self.run_id else self.state_of(next_node)
            if g is not None:
                if i == last:
                    gi = node.op.vjp(node, g, i)
                else:
                    # A VJP may overwrite a `g` with a single reference, and this is not the last that reads it.
                    Py_INCREF(g)
                    try:
                        gi = node.op.vjp(node, g, i)
                    finally:
                        Py_DECREF(g)
                if gi is not None:
                    self.accumulator.sum_gradient(next_state, gi, node.sequence)
                gi = None
            next_state.pending -= 1
            if next_state.pending == 0:
                self.push(next_state)
        # 3.5
        if not self.retain_graph:
            node.free_saved()
        recycle(<PyObject *> g)
        return 0

    cdef bint is_needed(self, GradNode node) except -1:
        cdef RunState *state = self.state_of(node)
        return state != NULL and bool(state.flags & NEEDED)

    cdef object interior_gradient(self, GradNode node, RunState *state, object g):
        """What flows on from an interior tensor whose gradient is g."""
        raise NotImplementedError

    cdef int leaf_gradient(self, GradNode node, RunState *state, object g) except -1:
        """Take the gradient of a leaf."""
        raise NotImplementedError

    # 4. The end -------------------------------------------------------------------------------------------------------

    cdef int finish(self) except -1:
        return self.accumulator.commit()

    # The ready nodes --------------------------------------------------------------------------------------------------

    cdef int push(self, RunState *state) except -1:
        cdef GradNode node = <GradNode> state.node
        cdef int64_t priority = node.sequence
        cdef Py_ssize_t k = self.heap_size, parent
        cdef Ready *grown
        if node.flags & LEAF:
            priority += LEAVES_FIRST
        if k == self.heap_room:
            grown = <Ready *> realloc(self.heap, (2 * k + 16) * sizeof(Ready))
            if grown == NULL:
                raise MemoryError("the engine's heap of ready nodes")
            self.heap = grown
            self.heap_room = 2 * k + 16
        while k > 0:
            parent = (k - 1) >> 1
            if self.heap[parent].priority >= priority:
                break
            self.heap[k] = self.heap[parent]
            k = parent
        self.heap[k].priority = priority
        self.heap[k].state = state
        state.flags |= QUEUED
        self.heap_size += 1
        return 0

    cdef RunState *pop(self) noexcept:
        """The ready node of the highest priority; NULL where none is."""
        cdef RunState *top
        cdef Ready moved
        cdef Py_ssize_t k = 0, child, size
        if self.heap_size == 0:
            return NULL
        top = self.heap[0].state
        self.heap_size -= 1
        size = self.heap_size
        if size > 0:
            moved = self.heap[size]
            while True:
                child = 2 * k + 1
                if child >= size:
                    break
                if child + 1 < size and self.heap[child + 1].priority > self.heap[child].priority:
                    child += 1
                if self.heap[child].priority <= moved.priority:
                    break
                self.heap[k] = self.heap[child]
                k = child
            self.heap[k] = moved
        return top


cdef int raise_freed(GradNode node) except -1:
    raise RuntimeError(
        f"backward through {node.op.name} a second time: what it saved was freed by the first. Run the forward again, "
        f"or pass retain_graph=True to the first backward() or grad(). If the leaves were to change in between, as in "
        f"w = w - rate * w.grad, the new w is no leaf but a part of the old graph: under no_grad(), write "
        f"w -= rate * w.grad")


cdef VariableWrapper alias(VariableWrapper g):
    """Another tensor at the same place in the graph, with memory of its own: a ``.grad`` is nobody else's tensor."""
    cdef VariableWrapper out = wrap(<cnp.ndarray> cnp.PyArray_NewCopy(g.data, cnp.NPY_CORDER))
    out.node = g.node
    return out


@cython.final
cdef class BasicEngine(Engine):
    """``backward()``: accumulates into the leaves."""

    cdef object interior_gradient(self, GradNode node, RunState *state, object g):
        cdef VariableWrapper tensor
        if node.output != NULL and (state.flags & TARGET or (self.fills_interior and not self.pruned)):
            tensor = <VariableWrapper> node.output
            self.replaced.append(tensor)
            self.replaced.append(tensor.stored_grad)
            tensor.stored_grad = g if is_ndarray(g) else alias(<VariableWrapper> g)
            tensor.owns_grad = False
            tensor.grad_writes += 1
        return self.accumulator.call_gradient_hooks(node, g)

    cdef int leaf_gradient(self, GradNode node, RunState *state, object g) except -1:
        cdef VariableWrapper leaf
        cdef tuple reduce_hooks = (), final_hooks = ()
        if node.hooks is not None:
            # Taken before any hook runs: one that is added now waits for the next backward.
            if node.hooks.reduce_hooks:
                reduce_hooks = node.hooks.of_kind(INPLACE, POST_ACCUMULATE)
            if node.hooks.final_hooks:
                final_hooks = node.hooks.of_kind(FINAL, FINAL)
            g = self.accumulator.call_gradient_hooks(node, g)
        if node.output == NULL:
            return 0        # nobody holds the leaf any more
        leaf = <VariableWrapper> node.output
        if final_hooks:
            self.callbacks.append((final_hooks, describe(node, leaf, leaf.shape)))
        if reduce_hooks:
            self.accumulator.accumulate(leaf, g)
            self.accumulator.call_reduce_hooks(node, leaf, reduce_hooks)
        else:
            self.accumulator.stage(leaf, g)
        return 0

    cdef int finish(self) except -1:
        self.accumulator.commit()
        self.replaced = None
        return 0

    cdef int roll_back(self) except -1:
        cdef Py_ssize_t k
        Engine.roll_back(self)
        if self.replaced is not None:
            for k in range(len(self.replaced) - 2, -1, -2):
                (<VariableWrapper> self.replaced[k]).stored_grad = self.replaced[k + 1]
        return 0


@cython.final
cdef class PartialGradEngine(Engine):
    """``grad()``: the gradients of chosen inputs, nothing written to any ``.grad``."""

    cdef object interior_gradient(self, GradNode node, RunState *state, object g):
        cdef object hooked = self.accumulator.call_gradient_hooks(node, g)
        if state.flags & TARGET:
            self.captured[node] = hooked
        return hooked

    cdef int leaf_gradient(self, GradNode node, RunState *state, object g) except -1:
        self.captured[node] = self.accumulator.call_gradient_hooks(node, g) if self.run_leaf_hooks else g
        return 0


# The two entries ------------------------------------------------------------------------------------------------------


def run_backward(list roots not None, list grads not None, inputs, bint retain_graph, bint create_graph):
    """Accumulate gradients into the leaves.

    Parameters
    ----------
    roots : list of VariableWrapper
        They require grad.
    grads : list of VariableWrapper
        Of the roots' shapes and dtypes.
    inputs : list of VariableWrapper or None
        Only these get their ``.grad``; None: all leaves, and all interior tensors that are alive.
    retain_graph, create_graph : bool
    """
    cdef BasicEngine engine = BasicEngine.__new__(BasicEngine)
    engine.fills_interior = retains_interior_grads
    engine.replaced = []
    prepare(engine, roots, inputs, retain_graph, create_graph)
    engine.run(grads if create_graph else arrays(grads))


def run_grad(list roots not None, list grads not None, list inputs not None, bint retain_graph, bint create_graph,
             bint run_leaf_hooks):
    """The gradients of inputs, in their order; None for an input that the roots do not depend on."""
    cdef PartialGradEngine engine = PartialGradEngine.__new__(PartialGradEngine)
    cdef list results = []
    cdef dict wrapped = {}
    cdef object g
    cdef bint recording
    engine.run_leaf_hooks = run_leaf_hooks
    engine.captured = {}
    prepare(engine, roots, inputs, retain_graph, create_graph)
    engine.run(grads if create_graph else arrays(grads))
    recording = set_recording(create_graph)
    try:
        for node in engine.targets:
            g = engine.captured.pop(node, None)
            if g is not None:
                # Private memory: a result may be changed in place.
                g = own_copy(g)
                g = wrap(<cnp.ndarray> g) if is_ndarray(g) else g
                wrapped[node] = g
            elif node in wrapped:
                g = copy(wrapped[node])     # the same input a second time
            results.append(g)
    finally:
        set_recording(recording)
    return results


cdef int prepare(Engine engine, list roots, object inputs, bint retain_graph, bint create_graph) except -1:
    engine.roots = [(<VariableWrapper?> root).node for root in roots]
    engine.pruned = inputs is not None
    engine.targets = [] if inputs is None else [(<VariableWrapper?> x).node for x in inputs]
    engine.retain_graph = retain_graph
    engine.create_graph = create_graph
    return 0


cdef list arrays(list tensors):
    return [(<VariableWrapper> tensor).data for tensor in tensors]


# What users set -------------------------------------------------------------------------------------------------------


def queue_callback(callback):
    """Call a function without arguments when the backward that is running in this thread is over.

    Callbacks run in the order in which they were queued, after every ``.grad`` is written; not at all if the backward
    fails.

    Parameters
    ----------
    callback : callable

    Raises
    ------
    RuntimeError
        No backward is running in this thread: call it from a hook.
    TypeError
        `callback` is not callable.
    """
    if not callable(callback):
        raise TypeError(f"queue_callback: got {type(callback).__name__}, expected a callable")
    if current_engine == NULL:
        raise RuntimeError("queue_callback: no backward is running in this thread; call it from a hook")
    (<Engine> current_engine).callbacks.append(callback)


def exchange_sort_sum_gradient(bint mode):
    """Set whether sums follow the order of the forward; the setting before is returned."""
    global sorts_sums
    cdef bint before = sorts_sums
    sorts_sums = mode
    return before


def exchange_retain_interior_grads(bint mode):
    """Set whether living interior tensors get their ``.grad``; the setting before is returned."""
    global retains_interior_grads
    cdef bint before = retains_interior_grads
    retains_interior_grads = mode
    return before


def settings():
    """The settings of the engines, by name."""
    return {"sort_sum_gradient": sorts_sums, "retain_interior_grads": retains_interior_grads}
