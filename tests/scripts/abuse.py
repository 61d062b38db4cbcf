"""Random programs whose hooks do anything at all. Takes a first seed and a number of programs.

Nothing may crash or hang; every error is one that the library or a hook raised; when the program is gone, so are its
tensors, the mode is as before, and a backward is right.
"""

import gc
import random
import sys
import weakref

import numpy as np

import hookgrad as hg

EXPECTED = (ValueError, TypeError, RuntimeError, ArithmeticError, RecursionError, MemoryError)


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors, self.handles, self.kept, self.dead = [], [], [], []
        self.depth = 0
        self.budget = 400  # actions, those of hooks included

    def any(self, pool):
        return self.random.choice(pool)

    def recorded(self):
        """A tensor that needs a gradient, if one is found."""
        t = self.any(self.tensors)
        for _ in range(6):
            if t.requires_grad:
                break
            t = self.any(self.tensors)
        return t

    def keep(self, t):
        self.dead.append(weakref.ref(t))
        self.tensors.append(t)
        if len(self.tensors) > 30:
            self.tensors.pop(self.random.randrange(30))

    def leaf(self):
        size = 2 if self.random.random() < 0.97 else 3
        self.keep(hg.tensor(np.arange(1.0, size + 1), requires_grad=self.random.random() < 0.95))

    def combine(self):
        a, b = self.recorded(), self.any(self.tensors)
        self.keep(
            self.any(
                [
                    lambda: a + b,
                    lambda: a * b,
                    lambda: a * 0.5 - b,
                    lambda: a.tanh(),
                    lambda: hg.stack([a, a, b]).sum(axis=0),
                    lambda: a[::-1],
                    lambda: a.sum() * b,
                    lambda: a.detach(),
                    lambda: hg.maximum(a, b),
                ]
            )()
        )

    def hook(self):
        choice = self.random.random()

        def run(argument=None):
            if argument is not None and self.random.random() < 0.3:
                self.kept.append(argument)
            with hg.set_grad_enabled(hg.is_grad_enabled() or choice < 0.4):
                for _ in range(self.random.randint(0, 3) if choice < 0.8 else 0):
                    self.act()
            result = self.random.random()
            if argument is None or result < 0.75:
                return None
            if result < 0.9:
                return argument * 2
            if result < 0.97:
                return argument
            return self.any([1, argument[:0], np.ones(2), hg.ones((2,)), argument.numpy(), "no"])

        return run

    def register(self):
        t = self.recorded()
        kinds = [t.register_hook, t.register_inplace_hook, t.register_post_accumulate_grad_hook]
        kinds.append(t._register_backward_hook)
        kind = self.any(kinds) if t.is_leaf or self.random.random() < 0.05 else t.register_hook
        handle = kind(self.hook())
        self.handles.append(handle)
        if self.random.random() < 0.2:
            self.handles.pop(0)

    def remove(self):
        if self.handles:
            self.any(self.handles).remove()

    def drop(self):
        pool = self.any([self.tensors, self.handles, self.kept])
        if self.random.random() < 0.05:
            pool.clear()
        elif pool:
            pool.pop(self.random.randrange(len(pool)))

    def collect(self):
        gc.collect(self.any([0, 0, 0, 1, 2]))

    def fail(self):
        raise ArithmeticError("a hook's own error")

    def gradient(self, t):
        return self.any([hg.ones(t.shape, dtype=t.dtype), np.ones(t.shape), t, t if t.size > 1 else None])

    def backward(self):
        t = self.recorded()
        self.depth += 1
        try:
            if self.depth > 8:
                return
            inputs = None if self.random.random() < 0.85 else [self.recorded() for _ in range(2)]
            t.backward(
                self.gradient(t),
                retain_graph=self.random.random() < 0.85,
                create_graph=self.random.random() < 0.3,
                inputs=inputs,
            )
        finally:
            self.depth -= 1

    def grad(self):
        t = self.recorded()
        self.depth += 1
        try:
            if self.depth > 8:
                return
            for g in hg.grad(
                t,
                [self.recorded() for _ in range(self.random.randint(1, 3))],
                self.gradient(t),
                retain_graph=self.random.random() < 0.85,
                create_graph=self.random.random() < 0.3,
                allow_unused=True,
                run_leaf_hooks=self.random.random() < 0.5,
            ):
                if g is not None:
                    self.keep(g)
        finally:
            self.depth -= 1

    def change(self):
        t = self.any(self.tensors)
        what = self.random.random()
        if what < 0.1:
            t.stop_gradient = not t.stop_gradient
        elif what < 0.25:
            t.grad = self.any([None, hg.ones(t.shape, dtype=t.dtype), self.any(self.tensors)])
        elif what < 0.35:
            t.data = np.ones(t.shape, t.dtype)
        elif what < 0.45:
            with hg.no_grad():
                t *= 2
        elif what < 0.8 and t.grad is not None:
            self.keep(t.grad)
        elif what < 0.9:
            hg.set_grad_enabled(self.random.random() < 0.8)
        else:
            hg.autograd.queue_callback(self.hook())

    def act(self):
        if self.budget <= 0:
            return
        self.budget -= 1
        if not self.tensors:
            return self.leaf()
        actions = [self.remove, self.drop, self.collect, self.change, self.change, self.leaf]
        actions += [self.combine, self.register, self.register, self.backward, self.backward, self.grad] * 3
        self.any([self.fail] if self.random.random() < 0.01 else actions)()
        return None

    def run(self):
        for _ in range(3):
            self.leaf()
        while self.budget > 0:
            try:
                self.act()
            except EXPECTED:
                hg.set_grad_enabled(True)


def main(first, count):
    for seed in range(first, first + count):
        sort = seed % 2 == 0
        with hg.autograd.sort_sum_gradient(sort), hg.autograd.retain_interior_grads(seed % 3 > 0):
            program = Program(seed)
            program.run()
        hg.set_grad_enabled(True)
        dead = program.dead
        del program
        gc.collect()
        alive = sum(ref() is not None for ref in dead)
        assert alive == 0, f"seed {seed}: {alive} tensors of a program that is gone are alive"
        x = hg.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 4.0], f"seed {seed}: {x.grad}"
    print("survived")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
