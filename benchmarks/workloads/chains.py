"""Graphs of many small operations: where the cost of a node shows."""

import numpy as np

import hookgrad as hg
from benchmarks.workloads.base import Goal, Workload, normal

LENGTH = 100


def no_op(grad):
    """A hook that only looks."""


class Chain(Workload):
    """100 times ``y = y * w`` on 8 float32 from a leaf x, then backward with a given gradient; w is a constant."""

    name = "chain"
    title = "chain of 100 multiplications, 8 elements"
    goals = (Goal(1 / 20, ("torch",), required=1 / 15), Goal(0.35, ("numpy",), required=0.45))

    x = normal(8)
    w = 1 + normal(8, scale=0.01, seed=1)
    g = np.ones(8, np.float32)

    def numpy(self):
        def run(x=self.x, w=self.w, g=self.g):
            y = x
            for _ in range(LENGTH):
                y = y * w
            for _ in range(LENGTH):
                g = g * w
            return y, (g,)

        return run

    def hookgrad(self):
        x, w, g = hg.tensor(self.x, requires_grad=True), hg.tensor(self.w), hg.tensor(self.g)

        def run():
            x.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
            y.backward(g)
            return y, (x.grad,)

        return run

    def torch(self):
        import torch

        x, w, g = torch.tensor(self.x, requires_grad=True), torch.tensor(self.w), torch.tensor(self.g)

        def run():
            x.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
            y.backward(g)
            return y, (x.grad,)

        return run

    def autograd(self):
        from autograd import make_vjp

        def chain(x):
            y = x
            for _ in range(LENGTH):
                y = y * self.w
            return y

        trace = make_vjp(chain)

        def run():
            vjp, y = trace(self.x)
            return y, (vjp(self.g),)

        return run


class HookedChain(Workload):
    """`Chain` with a Python hook that does nothing registered on each of the 100 interior tensors."""

    name = "chain-hooks"
    title = "chain of 100, a no-op Python hook on each"
    goals = (Goal(1 / 20, ("torch",), required=1 / 15),)

    x, w, g = Chain.x, Chain.w, Chain.g

    def hookgrad(self):
        x, w, g = hg.tensor(self.x, requires_grad=True), hg.tensor(self.w), hg.tensor(self.g)

        def run():
            x.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
                y.register_hook(no_op)
            y.backward(g)
            return y, (x.grad,)

        return run

    def torch(self):
        import torch

        x, w, g = torch.tensor(self.x, requires_grad=True), torch.tensor(self.w), torch.tensor(self.g)

        def run():
            x.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
                y.register_hook(no_op)
            y.backward(g)
            return y, (x.grad,)

        return run


class ChainBoth(Chain):
    """`Chain` with w a leaf too: every node saves both operands, and w's gradient is a sum of 100."""

    name = "chain-both"
    title = "chain of 100, both operands need a gradient"
    goals = ()

    def numpy(self):
        def run(x=self.x, w=self.w, g=self.g):
            inputs = []
            y = x
            for _ in range(LENGTH):
                inputs.append(y)
                y = y * w
            gw = np.zeros_like(w)
            for before in reversed(inputs):
                gw += g * before
                g = g * w
            return y, (g, gw)

        return run

    def hookgrad(self):
        x, w = (hg.tensor(data, requires_grad=True) for data in (self.x, self.w))
        g = hg.tensor(self.g)

        def run():
            x.grad = w.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
            y.backward(g)
            return y, (x.grad, w.grad)

        return run

    def torch(self):
        import torch

        x, w = (torch.tensor(data, requires_grad=True) for data in (self.x, self.w))
        g = torch.tensor(self.g)

        def run():
            x.grad = w.grad = None
            y = x
            for _ in range(LENGTH):
                y = y * w
            y.backward(g)
            return y, (x.grad, w.grad)

        return run

    def autograd(self):
        from autograd import make_vjp

        def chain(x, w):
            y = x
            for _ in range(LENGTH):
                y = y * w
            return y

        trace = make_vjp(chain, argnum=(0, 1))

        def run():
            vjp, y = trace(self.x, self.w)
            return y, vjp(self.g)

        return run


class FanOut(Workload):
    """One leaf used 100 times: the sum of ``x * c`` over 100 constants c."""

    name = "fan-out"
    title = "one leaf of 8 elements used 100 times"

    x = normal(8)
    constants = tuple(normal(LENGTH, 8, seed=1))
    g = np.ones(8, np.float32)

    def numpy(self):
        def run(x=self.x, g=self.g):
            total = x * self.constants[0]
            for c in self.constants[1:]:
                total = total + x * c
            gx = g * self.constants[0]
            for c in self.constants[1:]:
                gx += g * c
            return total, (gx,)

        return run

    def hookgrad(self):
        x, g = hg.tensor(self.x, requires_grad=True), hg.tensor(self.g)
        first, *others = (hg.tensor(c) for c in self.constants)

        def run():
            x.grad = None
            total = x * first
            for c in others:
                total = total + x * c
            total.backward(g)
            return total, (x.grad,)

        return run

    def torch(self):
        import torch

        x, g = torch.tensor(self.x, requires_grad=True), torch.tensor(self.g)
        first, *others = (torch.tensor(c) for c in self.constants)

        def run():
            x.grad = None
            total = x * first
            for c in others:
                total = total + x * c
            total.backward(g)
            return total, (x.grad,)

        return run

    def autograd(self):
        from autograd import make_vjp

        def fan(x):
            total = x * self.constants[0]
            for c in self.constants[1:]:
                total = total + x * c
            return total

        trace = make_vjp(fan)

        def run():
            vjp, total = trace(self.x)
            return total, (vjp(self.g),)

        return run


class Accumulation(Workload):
    """Gradients of 100 small least-squares losses, accumulated in one leaf over 100 backwards."""

    name = "accumulate"
    title = "least squares, 4 x 16, accumulated over 100 backwards"
    operations = LENGTH
    operation = "backward"

    w = normal(16)
    inputs = tuple(normal(LENGTH, 4, 16, seed=1))
    targets = tuple(normal(LENGTH, 4, seed=2))

    def numpy(self):
        def run(w=self.w):
            grad = np.zeros_like(w)
            for x, t in zip(self.inputs, self.targets, strict=True):
                r = x @ w - t
                loss = (r * r).sum()
                grad += (2 * r) @ x
            return loss, (grad,)

        return run

    def hookgrad(self):
        w = hg.tensor(self.w, requires_grad=True)
        data = [(hg.tensor(x), hg.tensor(t)) for x, t in zip(self.inputs, self.targets, strict=True)]

        def run():
            w.grad = None
            for x, t in data:
                r = x @ w - t
                loss = (r * r).sum()
                loss.backward()
            return loss, (w.grad,)

        return run

    def torch(self):
        import torch

        w = torch.tensor(self.w, requires_grad=True)
        data = [(torch.tensor(x), torch.tensor(t)) for x, t in zip(self.inputs, self.targets, strict=True)]

        def run():
            w.grad = None
            for x, t in data:
                r = x @ w - t
                loss = (r * r).sum()
                loss.backward()
            return loss, (w.grad,)

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import value_and_grad

        def squares(w, x, t):
            r = anp.dot(x, w) - t
            return anp.sum(r * r)

        step = value_and_grad(squares)

        def run():
            grad = np.zeros_like(self.w)
            for x, t in zip(self.inputs, self.targets, strict=True):
                loss, g = step(self.w, x, t)
                grad += g
            return loss, (grad,)

        return run


CHAINS = (Chain(), HookedChain(), ChainBoth(), FanOut(), Accumulation())
