"""Repeats a step thousands of times and compares what the process holds before and after. Takes the case's name.

Three measures: the blocks that Python's allocator has handed out (any object, wherever it leaked), the references to
the dtypes that every array has (an operation that takes one too many or too few), and the peak of the process's memory
(arrays, which are large here). With the collector off, a cycle counts as a leak.
"""

import contextlib
import ctypes
import gc
import sys
import threading

import numpy as np

import hookgrad as hg
from hookgrad._core.hooks import LambdaInplaceVariableWrapperHook

try:
    import resource
except ImportError:  # Windows
    resource = None

STEPS = 2000
BLOCKS = 60  # what caches and interned objects may take; a leak of one block a step is far beyond
REFERENCES = 60
PEAK = 16 * 2**20  # STEPS arrays of SIZE elements would be more than a hundred megabytes
SIZE = 16_384

C_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_void_p)


@C_HOOK
def succeed(values, size, itemsize, user_data):
    return 0


@C_HOOK
def refuse(values, size, itemsize, user_data):
    return 3


def leaf(size=SIZE, dtype=np.float32):
    return hg.ones((size,), dtype=dtype, requires_grad=True)


def fail(*args):
    raise ArithmeticError("from the hook")


def training_step():
    """Forward, hooks of every kind, an update in place."""
    w, b = leaf(), leaf(1)

    def clip(grad):
        return grad.clip(-1.0, 1.0)

    def descend(t):
        t -= 0.01 * t.grad
        t.clear_grad()

    w.register_hook(clip)
    w.register_post_accumulate_grad_hook(descend)
    b._register_backward_hook(lambda: None)
    seen = []

    def step():
        x = hg.ones((SIZE,))
        y = (w * x + b).tanh()
        y.register_hook(lambda grad: grad * 0.5)
        y.register_hook(lambda grad: hg.autograd.queue_callback(seen.clear))
        z = (y[1:] - y[:-1]) ** 2
        loss = z.mean() + hg.nn.functional.softmax(y.reshape((2, -1))).max() + (y > 0).sum() * 0.1
        loss.backward()
        seen.append(y.grad)
        b.clear_grad()

    return step


def failing_hooks():
    x, w = leaf(), leaf()
    kinds = [x.register_hook, x.register_inplace_hook, x.register_post_accumulate_grad_hook, x._register_backward_hook]
    count = [0]

    def step():
        count[0] += 1
        y = x * w
        z = (y * 2).tanh()
        register = [*kinds, y.register_hook, z.register_hook][count[0] % 6]
        with register(fail if count[0] % 3 else lambda *args: "wrong"), contextlib.suppress(ArithmeticError, TypeError):
            z.sum().backward(retain_graph=bool(count[0] % 2), create_graph=count[0] % 5 == 0)
        y = x * w
        z = (y * 2).tanh()
        with y.register_hook(lambda grad: grad[1:]), contextlib.suppress(ValueError):
            z.sum().backward()
        x.clear_grad()
        w.clear_grad()

    return step


def registration():
    x = leaf(4)

    def step():
        y = x * 2
        handles = [t.register_hook(lambda grad: None) for t in (x, y, x, y)]
        handles += [x.register_inplace_hook(lambda grad: None), x.register_post_accumulate_grad_hook(lambda t: None)]
        handles += [x._register_backward_hook(lambda: None)]
        y.sum().backward()
        for handle in handles[:-1]:
            handle.remove()
        with handles[-1]:
            pass
        handles[0].remove()
        y.register_hook(lambda grad: None)  # goes with its tensor
        x.clear_grad()

    return step


def double_backward():
    x = leaf(64, np.float64)

    def step():
        y = x**3
        y.register_hook(lambda grad: grad * x)
        (first,) = hg.grad(y.sum(), x, create_graph=True)
        (second,) = hg.grad((first * first).sum(), x, create_graph=True)
        second.sum().backward()
        y.sum().backward(create_graph=True)
        x.clear_grad()

    return step


def grad():
    x, w, unused = leaf(), leaf(), leaf()

    def step():
        y = x * w
        y.register_hook(lambda grad: grad * 2)
        hg.grad(y.sum(), [x, y, w, x, unused], allow_unused=True, retain_graph=True)
        with contextlib.suppress(RuntimeError):
            hg.grad(y.sum(), unused, retain_graph=True)
        y.sum().backward(inputs=[w, y])
        with contextlib.suppress(RuntimeError):
            y.sum().backward()
        w.clear_grad()

    return step


def nested_backward():
    x = leaf()

    def step():
        y = x * x
        out = (y * y).sum()
        depth = []

        def hook(grad):
            depth.append(1)
            if len(depth) < 4:
                out.backward(retain_graph=True)
                hg.grad(out, [x, y], retain_graph=True)
            else:
                raise ArithmeticError

        handle = y.register_hook(hook)
        with contextlib.suppress(ArithmeticError):
            out.backward(retain_graph=True)
        handle.remove()  # the hook holds `out`: without this it is a cycle
        out.backward()
        x.clear_grad()

    return step


def sorted_sums():
    x = leaf()

    def step():
        with hg.autograd.sort_sum_gradient(True):
            y = x * 2
            (y + y * 3 + y * x + x).sum().backward()
            handle = x.register_hook(fail)
            with contextlib.suppress(ArithmeticError):
                (x * 2 + x * 3).sum().backward()
            handle.remove()
        x.clear_grad()

    return step


def inplace_hooks():
    x, w = leaf(), leaf()

    def double(grad):
        grad *= 2

    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    def step():
        handles = [x.register_inplace_hook(double)]
        handles += [x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(succeed), 0, succeed))]
        x.grad = hg.ones((SIZE,))
        (x + w).sum().backward()
        handles += [w.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(refuse)))]
        with contextlib.suppress(RuntimeError):
            (x + w).sum().backward()
        for handle in handles:
            handle.remove()
        x.grad[0] = 5
        x.clear_grad()
        w.clear_grad(set_to_zero=True)

    return step


def wrong_arguments():
    x = leaf(3)
    y = x * 2

    def step():
        for wrong in (
            lambda: y.backward(),
            lambda: y.backward(hg.ones((4,))),
            lambda: y.backward("gradient"),
            lambda: hg.autograd.backward([y, 3]),
            lambda: hg.grad(y, [], hg.ones((3,))),
            lambda: hg.tensor([1, 2], requires_grad=True),
            lambda: x.register_hook(3),
            lambda: y.register_inplace_hook(print),
            lambda: hg.tensor(1.0).register_hook(print),
            lambda: setattr(x, "grad", hg.ones((4,))),
            lambda: x.__iadd__(1),
            lambda: hg.autograd.queue_callback(print),
            lambda: LambdaInplaceVariableWrapperHook(0),
        ):
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                wrong()

    return step


def threads():
    x = leaf()

    def work():
        for _ in range(10):
            y = x * 2
            y.register_hook(lambda grad: grad * 2)
            y.sum().backward()

    def step():
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        x.clear_grad()

    return step


CASES = {
    "training step": training_step,
    "failing hooks": failing_hooks,
    "registration": registration,
    "double backward": double_backward,
    "grad": grad,
    "nested backward": nested_backward,
    "sorted sums": sorted_sums,
    "in-place hooks": inplace_hooks,
    "wrong arguments": wrong_arguments,
    "threads": threads,
}


def references():
    return [sys.getrefcount(np.dtype(name)) for name in ("float32", "float64", "int64", "bool")]


def peak():
    """The process's peak memory in bytes."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(case):
    steps = STEPS // 20 if case == "threads" else STEPS
    step = CASES[case]()
    gc.collect()
    gc.disable()
    for _ in range(max(50, steps // 4)):  # until caches are full, and the counters beyond the small integers
        step()
    blocks, counts, high = sys.getallocatedblocks(), references(), peak()
    for _ in range(steps):
        step()
    grown = sys.getallocatedblocks() - blocks
    counted = [after - before for after, before in zip(references(), counts, strict=True)]
    risen = peak() - high
    print(f"{steps} steps: {grown} blocks, references {counted}, peak {risen} bytes")
    bad = grown > BLOCKS or risen > PEAK or any(abs(change) > REFERENCES for change in counted)
    print("growth" if bad else "no growth")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
