"""Random programs with random hooks, in hookgrad and in PyTorch: the same values, the same gradients, and every hook
sees the same.

A program is a list of choices; `Program` carries it out in either library, which differ in a few names.
"""

import numpy as np
import pytest

import hookgrad as hg

torch = pytest.importorskip("torch", reason="the differential test needs PyTorch")

PROGRAMS = 200
SHAPES = [(), (3,), (2, 3), (1, 3), (2, 1)]


class Hookgrad:
    name = "hookgrad"

    @staticmethod
    def leaf(values):
        return hg.tensor(values, requires_grad=True)

    tensor = staticmethod(hg.tensor)
    clip = staticmethod(lambda t, low, high: t.clip(low, high))
    sum = staticmethod(lambda t, axis: t.sum(axis=axis, keepdims=True))
    backward = staticmethod(lambda t, g, retain, create: t.backward(g, retain_graph=retain, create_graph=create))
    no_grad = staticmethod(hg.no_grad)

    @staticmethod
    def grad(outputs, inputs, grads, create_graph=False):
        return hg.grad(
            outputs, inputs, grads, retain_graph=True, create_graph=create_graph, allow_unused=True, run_leaf_hooks=True
        )

    @staticmethod
    def inplace_hook(t, factor):
        def scale(grad):
            grad *= factor

        return t.register_inplace_hook(scale)

    array = staticmethod(lambda t: np.array(t.numpy()))


class Torch:
    name = "torch"

    @staticmethod
    def leaf(values):
        return torch.tensor(values, requires_grad=True)

    tensor = staticmethod(torch.tensor)
    clip = staticmethod(lambda t, low, high: t.clamp(low, high))
    sum = staticmethod(lambda t, axis: t.sum(dim=axis, keepdim=True))
    backward = staticmethod(lambda t, g, retain, create: t.backward(g, retain_graph=retain, create_graph=create))
    no_grad = staticmethod(torch.no_grad)

    @staticmethod
    def grad(outputs, inputs, grads, create_graph=False):
        return torch.autograd.grad(
            outputs, inputs, grads, retain_graph=True, create_graph=create_graph, allow_unused=True
        )

    @staticmethod
    def inplace_hook(t, factor):
        def scale(t):
            t.grad.mul_(factor)

        return t.register_post_accumulate_grad_hook(scale)

    array = staticmethod(lambda t: t.detach().numpy(force=True).copy())


UNARY = [
    "tanh",
    "sin",
    "cos",
    "sigmoid",
    "square",
    "exp of tanh",
    "negative",
    "clip",
    "relu",
    "abs",
    "sqrt",
    "reciprocal",
]
OF_TWO = ["add", "subtract", "multiply", "divide", "maximum", "twice"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "twice", "square"]
SHAPED = ["sum", "transpose", "item", "reshape", "matmul"]
HOOKS = ["look", "scale", "shift", "square", "clip", "tanh", "array"]


class Program:
    """One random program: made once from its seed, run in each library."""

    def __init__(self, seed, dtype=np.float64):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        choose = self.rng.choice
        self.leaves = [self.values(SHAPES[choose(len(SHAPES))]) for _ in range(self.rng.integers(1, 4))]
        self.steps = []
        for _ in range(self.rng.integers(6, 15)):
            kind = choose(["unary", "binary", "shaped"], p=[0.4, 0.4, 0.2])
            op = choose({"unary": UNARY, "binary": BINARY, "shaped": SHAPED}[kind])
            self.steps.append((op, *self.rng.random(3)))
        self.hooks = [
            (choose(HOOKS), self.rng.random(), round(self.rng.uniform(-2, 2), 2), self.rng.random() < 0.15)
            for _ in range(self.rng.integers(2, 9))
        ]
        self.reduce_hooks = [
            (choose(["in place", "post"]), self.rng.random(), round(self.rng.uniform(-2, 2), 2))
            for _ in range(self.rng.integers(0, 4))
        ]
        self.dropped = self.rng.random(20) < 0.3
        self.root_gradient = self.rng.standard_normal(8)
        self.backwards = int(self.rng.integers(1, 4))
        self.wanted = self.rng.random(4)

    def values(self, shape):
        return self.rng.standard_normal(shape).astype(self.dtype)

    def forward(self, lib):
        """(leaves, all tensors): each step works on tensors that are there."""
        leaves = [lib.leaf(values) for values in self.leaves]
        tensors = list(leaves)
        for op, i, j, k in self.steps:
            a = tensors[int(i * len(tensors))]
            b = tensors[int(j * len(tensors))]
            tensors.append(self.step(lib, op, a, b, k))
        return leaves, tensors

    def upstream_of_root(self):
        """The positions of the tensors that the last one depends on, itself included."""
        depends = [{k} for k in range(len(self.leaves))]
        for op, i, j, _ in self.steps:
            k = len(depends)
            both = depends[int(j * k)] if op in OF_TWO else set()
            depends.append({k} | depends[int(i * k)] | both)
        return sorted(depends[-1])

    def step(self, lib, op, a, b, k):
        nd = len(a.shape)
        if op == "twice":
            return a * b + a
        if op == "square":
            return a * a
        if op == "exp of tanh":
            return a.tanh().exp()
        if op == "negative":
            return -a
        if op == "clip":
            return lib.clip(a, -0.7, 0.7)
        if op == "sqrt":
            return (a * a + 0.5).sqrt()
        if op == "reciprocal":
            return 1 / (a * a + 1)
        if op in ("add", "subtract", "multiply", "divide", "maximum"):
            if op == "add":
                return a + b
            if op == "subtract":
                return a - b
            if op == "multiply":
                return (a * b).tanh()
            if op == "divide":
                return a / (b * b + 1)
            return hg.maximum(a, b) if lib is Hookgrad else torch.maximum(a, b)
        if op == "sum":
            return lib.sum(a, int(k * nd)) if nd else a * 2
        if op == "transpose":
            return a.T.reshape(tuple(a.shape)) if nd == 2 else a + 1
        if op == "item":
            return a[int(k * a.shape[0])] if nd else a * 0.5
        if op == "reshape":
            return (a.reshape((-1,)) * 1.5).reshape(tuple(a.shape))
        if op == "matmul":
            return a @ a.T @ a if nd == 2 else a * 3
        return getattr(a, op)()

    def run(self, lib):
        """All numbers that the program gives: values, what each hook saw, and the gradients."""
        saw = []
        leaves, tensors = self.forward(lib)
        results = [("value", lib.array(t)) for t in tensors]
        handles = []
        for k, t in enumerate(tensors):
            t.register_hook(self.look(lib, saw, ("first", k)))
        for n, (kind, i, number, removed) in enumerate(self.hooks):
            k = int(i * len(tensors))
            handle = tensors[k].register_hook(self.hook(lib, saw, kind, number, ("hook", n, k)))
            if removed:
                handles.append(handle)
        for k, t in enumerate(tensors):
            t.register_hook(self.look(lib, saw, ("last", k)))
        for kind, i, number in self.reduce_hooks:
            k = int(i * len(leaves))
            if kind == "in place":
                lib.inplace_hook(leaves[k], number)
            else:
                leaves[k].register_post_accumulate_grad_hook(
                    lambda t, k=k: saw.append((("post", k), lib.array(t.grad)))
                )
        root = tensors[-1]
        gradient = self.root_gradient[: int(np.prod(root.shape))].reshape(tuple(root.shape)).astype(self.dtype)
        reached = self.upstream_of_root()
        for w in self.wanted:
            # One input at a time: of several, PyTorch gives those on the way to others without their own hooks.
            (g,) = lib.grad([root], [tensors[reached[int(w * len(reached))]]], [lib.tensor(gradient)])
            results.append(("grad", lib.array(g)))
        for k, drop in enumerate(self.dropped[: len(tensors) - len(leaves)]):
            if drop and len(leaves) + k < len(tensors) - 1:
                tensors[len(leaves) + k] = None
        for n in range(self.backwards):
            if n == 1:
                for handle in handles:
                    handle.remove()
            lib.backward(root, lib.tensor(gradient * (n + 1)), True, False)
        results += [("leaf", None if t.grad is None else lib.array(t.grad)) for t in leaves]
        return results, saw

    @staticmethod
    def look(lib, saw, place):
        return lambda g: saw.append((place, lib.array(g)))

    @staticmethod
    def hook(lib, saw, kind, number, place):
        def hook(g):
            saw.append((place, lib.array(g)))
            if kind == "scale":
                return g * number
            if kind == "shift":
                return g + number
            if kind == "square":
                return g * g * 0.1
            if kind == "clip":
                return lib.clip(g, -abs(number), abs(number))
            if kind == "tanh":
                return g.tanh()
            if kind == "array":
                return lib.tensor(lib.array(g) * 0.5)
            return None

        return hook

    def second_order(self, lib):
        """The gradients of the leaves, and those of their squares' sum, with hooks in between."""
        leaves, tensors = self.forward(lib)
        for kind, i, number, _ in self.hooks:
            tensors[int(i * len(tensors))].register_hook(self.hook(lib, [], kind, number, None))
        root = tensors[-1]
        gradient = lib.tensor(np.ones(tuple(root.shape), self.dtype))
        first = [g for g in lib.grad([root], leaves, [gradient], create_graph=True) if g is not None]
        total = sum((g * g).sum() for g in first)
        second = lib.grad([total], leaves, None) if total.requires_grad else [None] * len(leaves)
        # None, and zeros: a gradient that does not depend on the leaf
        zeros = [np.zeros(values.shape, self.dtype) for values in self.leaves]
        second = [zero if g is None else lib.array(g) for g, zero in zip(second, zeros, strict=True)]
        return [lib.array(g) for g in first] + second


def assert_same(ours, theirs, **tolerance):
    assert (ours is None) == (theirs is None)
    if ours is not None:
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, **tolerance)


def by_place(saw):
    """What each hook saw, backward after backward; the order among tensors is each library's own."""
    places = {}
    for place, array in saw:
        places.setdefault(place, []).append(array)
    return places


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed):
    program = Program(seed)
    ours, our_hooks = program.run(Hookgrad)
    theirs, their_hooks = program.run(Torch)
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        assert_same(a, b, rtol=1e-9, atol=1e-11)
    ours, theirs = by_place(our_hooks), by_place(their_hooks)
    assert ours.keys() == theirs.keys()
    for place, arrays in ours.items():
        assert len(arrays) == len(theirs[place]), place
        for a, b in zip(arrays, theirs[place], strict=True):
            assert_same(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(0, PROGRAMS, 4))
def test_random_programs_in_float32(seed):
    program = Program(seed, np.float32)
    ours, our_hooks = program.run(Hookgrad)
    theirs, their_hooks = program.run(Torch)
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        assert_same(a, b, rtol=2e-3, atol=2e-4)
    assert by_place(our_hooks).keys() == by_place(their_hooks).keys()


@pytest.mark.parametrize("seed", range(0, PROGRAMS, 2))
def test_second_order(seed):
    program = Program(seed)
    ours, theirs = program.second_order(Hookgrad), program.second_order(Torch)
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b, rtol=1e-8, atol=1e-9)


def test_the_programs_are_worth_running():
    """They reach leaves, hooks change something, and second derivatives are not all zero."""
    programs = [Program(seed) for seed in range(PROGRAMS)]
    assert sum(len(program.upstream_of_root()) for program in programs) > 4 * PROGRAMS
    second = [program.second_order(Hookgrad)[-1] for program in programs[:50]]
    assert sum(np.any(g != 0) for g in second) > 10
