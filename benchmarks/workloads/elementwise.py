"""Single elementwise operations and expressions, small and large."""

from itertools import repeat

import numpy as np

import hookgrad as hg
from benchmarks.workloads.base import Goal, Workload, normal


class RecordedAdd(Workload):
    """``x + y`` on 8 float32, recorded but never run backwards; by hand: NumPy's ``a + b``, which records nothing."""

    name = "add"
    title = "`x + y`, 8 elements, recorded"
    operations = 100
    operation = "addition"
    goals = (Goal(0.6, ("numpy",), required=0.7),)
    both = False

    x = normal(8)
    y = normal(8, seed=1)

    def numpy(self):
        x, y = self.x, self.y

        def run():
            for _ in repeat(None, 100):
                z = x + y
            return z, ()

        return run

    def hookgrad(self):
        x, y = hg.tensor(self.x, requires_grad=True), hg.tensor(self.y, requires_grad=self.both)

        def run():
            for _ in repeat(None, 100):
                z = x + y
            return z, ()

        return run

    def torch(self):
        import torch

        x, y = torch.tensor(self.x, requires_grad=True), torch.tensor(self.y, requires_grad=self.both)

        def run():
            for _ in repeat(None, 100):
                z = x + y
            return z, ()

        return run

    def autograd(self):
        from autograd import make_vjp

        def add(x, y):
            for _ in repeat(None, 100):
                z = x + y
            return z

        # Recording is by tracing a function: 100 operations share the set-up.
        trace = make_vjp(add, argnum=(0, 1) if self.both else 0)
        return lambda: (trace(self.x, self.y)[1], ())


class RecordedAddBoth(RecordedAdd):
    name = "add-both"
    title = "`x + y`, 8 elements, both need a gradient"
    goals = ()
    both = True


class Million(Workload):
    """(x y + exp x).tanh().sum() on a million float32, both inputs need a gradient."""

    name = "million"
    title = "`(x*y + exp(x)).tanh().sum()`, a million elements"
    goals = (Goal(1.0, ("torch_all",)),)
    parallel = True
    rtol = 1e-3

    x = normal(1_000_000)
    y = normal(1_000_000, seed=1)

    def numpy(self):
        def run(x=self.x, y=self.y):
            e = np.exp(x)
            t = np.tanh(x * y + e)
            loss = t.sum()
            d = 1 - t * t
            return loss, (d * (y + e), d * x)

        return run

    def hookgrad(self):
        x, y = (hg.tensor(data, requires_grad=True) for data in (self.x, self.y))

        def run():
            x.grad = y.grad = None
            loss = (x * y + hg.exp(x)).tanh().sum()
            loss.backward()
            return loss, (x.grad, y.grad)

        return run

    def torch(self):
        import torch

        x, y = (torch.tensor(data, requires_grad=True) for data in (self.x, self.y))

        def run():
            x.grad = y.grad = None
            loss = (x * y + torch.exp(x)).tanh().sum()
            loss.backward()
            return loss, (x.grad, y.grad)

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import value_and_grad

        step = value_and_grad(lambda x, y: anp.sum(anp.tanh(x * y + anp.exp(x))), argnum=(0, 1))
        return lambda: step(self.x, self.y)


ELEMENTWISE = (RecordedAdd(), RecordedAddBoth(), Million())
