"""What calling one hook costs, by kind: 100 of a kind on one leaf, less the same backward without any."""

import ctypes
import ctypes.util

import numpy as np

import hookgrad as hg
from benchmarks.compiled import compiled_hook
from benchmarks.workloads.base import Goal, Workload, normal
from hookgrad._core.hooks import LambdaInplaceVariableWrapperHook

HOOKS_EACH = 100


class Bare(Workload):
    """One multiplication of 8 float32 and its backward, no hooks."""

    name = "hook-none"
    title = "one multiplication, forward and backward"
    operation = "backward"
    factor = 1.0  # what the hooks together make of the gradient

    x = normal(8)
    w = normal(8, seed=1)
    g = np.ones(8, np.float32)

    def register_hookgrad(self, x):
        """Register the hooks on a hookgrad leaf."""

    def register_torch(self, x):
        """Register the hooks on a PyTorch leaf."""

    def numpy(self):
        def run(x=self.x, w=self.w, g=self.g):
            y = x * w
            return y, (g * w * self.factor,)

        return run

    def hookgrad(self):
        x, w, g = hg.tensor(self.x, requires_grad=True), hg.tensor(self.w), hg.tensor(self.g)
        self.register_hookgrad(x)

        def run():
            x.grad = None
            y = x * w
            y.backward(g)
            return y, (x.grad,)

        return run

    def torch(self):
        import torch

        x, w, g = torch.tensor(self.x, requires_grad=True), torch.tensor(self.w), torch.tensor(self.g)
        self.register_torch(x)

        def run():
            x.grad = None
            y = x * w
            y.backward(g)
            return y, (x.grad,)

        return run


BARE = Bare()


class HooksOfAKind(Bare):
    """100 hooks of one kind."""

    operations = HOOKS_EACH
    operation = "hook call"
    baseline = BARE
    numpy = None  # only a reference for the numbers: NumPy by hand has no hooks
    libraries_with_kind = ("hookgrad",)

    def columns(self):
        return [column for column in super().columns() if column.library in self.libraries_with_kind]

    def libraries(self):
        return ["numpy", *self.libraries_with_kind]

    def prepare(self, library):
        return Bare.numpy(self) if library == "numpy" else super().prepare(library)


def no_op(grad):
    """Only looks."""


def shrink(grad):
    """Edits: returns another gradient."""
    return grad * 0.99


def shrink_in_place(grad):
    grad *= 0.99


class NoOp(HooksOfAKind):
    name = "hook-python"
    title = "a Python hook that does nothing"
    libraries_with_kind = ("hookgrad", "torch")

    def register_hookgrad(self, x):
        for _ in range(HOOKS_EACH):
            x.register_hook(no_op)

    register_torch = register_hookgrad


class Editing(HooksOfAKind):
    name = "hook-python-edit"
    title = "a Python hook that returns `grad * 0.99`"
    libraries_with_kind = ("hookgrad", "torch")
    factor = np.float32(0.99**HOOKS_EACH)

    def register_hookgrad(self, x):
        for _ in range(HOOKS_EACH):
            x.register_hook(shrink)

    register_torch = register_hookgrad


class Compiled(HooksOfAKind):
    name = "hook-compiled"
    title = "a compiled hook that does nothing"
    goals = (Goal(0.02e-6),)

    def register_hookgrad(self, x):
        for _ in range(HOOKS_EACH):
            x.register_hook(compiled_hook())


class InPlace(HooksOfAKind):
    name = "hook-inplace"
    title = "an in-place Python hook, `grad *= 0.99`"
    factor = np.float32(0.99**HOOKS_EACH)

    def register_hookgrad(self, x):
        for _ in range(HOOKS_EACH):
            x.register_inplace_hook(shrink_in_place)


class CFunction(HooksOfAKind):
    """The C library's fegetround stands for a C function: it looks at no argument and returns 0."""

    name = "hook-c"
    title = "an in-place hook that is a C function"

    def register_hookgrad(self, x):
        library = ctypes.CDLL(ctypes.util.find_library("m") or ctypes.util.find_library("ucrtbase"))
        address = ctypes.cast(library.fegetround, ctypes.c_void_p).value
        for _ in range(HOOKS_EACH):
            x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address, keep_alive=library))


class PostAccumulate(HooksOfAKind):
    name = "hook-post"
    title = "a post-accumulate Python hook that does nothing"
    libraries_with_kind = ("hookgrad", "torch")

    def register_hookgrad(self, x):
        for _ in range(HOOKS_EACH):
            x.register_post_accumulate_grad_hook(no_op)

    register_torch = register_hookgrad


HOOKS = (BARE, NoOp(), Editing(), Compiled(), InPlace(), CFunction(), PostAccumulate())
