"""Graphs too deep for anything recursive, on a thread with a small stack. Takes the name of a case."""

import sys
import threading

import hookgrad as hg

MILLION = 1_000_000
DEEP = 50_000  # a hundred times what a recursion would survive on this stack


def chain(x, length):
    y = x
    for _ in range(length):
        y = y * 1.0
    return y


def run():
    x = hg.ones((2,), requires_grad=True)
    y = chain(x, MILLION)
    y.backward(hg.ones((2,)))
    del y
    assert x.grad.tolist() == [1.0, 1.0]


def retained():
    x = hg.ones((2,), requires_grad=True)
    y = chain(x, MILLION)
    y.backward(hg.ones((2,)), retain_graph=True)
    y.backward(hg.ones((2,)), retain_graph=True)
    del y
    assert x.grad.tolist() == [2.0, 2.0]


def dropped():
    x = hg.ones((2,), requires_grad=True)
    y = chain(x, MILLION)
    del y
    z = chain(x, 10)
    z.backward(hg.ones((2,)))
    assert x.grad.tolist() == [1.0, 1.0]


def branches():
    """Nodes with two inputs, each with a chain behind it, one of them shared."""
    x = hg.ones((2,), requires_grad=True)
    for backward in (False, True):
        left = right = x
        for _ in range(DEEP):
            left = left * 1.0
            right = left + right * 0.0
        if backward:
            right.backward(hg.ones((2,)))
        del left, right
    assert x.grad.tolist() == [1.0, 1.0]


def lists():
    """The deep edge is an input beyond the second."""
    x = hg.ones((1,), requires_grad=True)
    for backward in (False, True):
        y = x
        for _ in range(DEEP):
            y = hg.stack([x, x, y])[2]
        if backward:
            y.backward()
        del y
    assert x.grad.tolist() == [1.0]


def hooks():
    x = hg.ones((2,), requires_grad=True)
    calls = [0]

    def count(grad):
        calls[0] += 1

    y = x
    for _ in range(DEEP):
        y = y * 1.0
        y.register_hook(count)
    y.backward(hg.ones((2,)))
    del y
    assert calls[0] == DEEP


def closures():
    """Each hook holds the tensor before."""
    x = hg.ones((2,), requires_grad=True)
    y = x
    for _ in range(DEEP):
        z = y * 1.0
        z.register_hook(lambda grad, y=y: None)
        y = z
    del y, z


def failed():
    x = hg.ones((2,), requires_grad=True)

    def stop(grad):
        raise KeyError

    handle = x.register_hook(stop)
    y = chain(x, 4 * DEEP)
    try:
        y.backward(hg.ones((2,)), retain_graph=True)
    except KeyError:
        handle.remove()
    y.backward(hg.ones((2,)))
    assert x.grad.tolist() == [1.0, 1.0]


def create_graph():
    x = hg.ones((2,), requires_grad=True)
    y = chain(x, DEEP) * x
    (g,) = hg.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    del y, g
    assert x.grad.tolist() == [2.0, 2.0]
    x.clear_grad()
    y = chain(x, DEEP) * x
    y.sum().backward(create_graph=True)
    del y
    x.clear_grad()


def held():
    """Every tensor is alive and gets its .grad."""
    x = hg.ones((2,), requires_grad=True)
    tensors = [x]
    for _ in range(DEEP):
        tensors.append(tensors[-1] * 1.0)
    tensors[-1].backward(hg.ones((2,)), retain_graph=True)
    assert tensors[1].grad.tolist() == [1.0, 1.0]
    tensors.clear()
    assert x.grad.tolist() == [1.0, 1.0]


def grads():
    """A chain of tensors, each the .grad of the one before."""
    first = last = hg.ones((1,))
    for _ in range(4 * DEEP):
        last.grad = hg.ones((1,))
        last = last.grad
    del first, last


def main(case):
    outcome = []

    def target():
        globals()[case]()
        outcome.append("done")

    # What a thread has on macOS. CPython 3.13 itself nests deallocations so deep that a chain of closures needs more.
    threading.stack_size((8192 if case == "closures" else 512) * 1024)
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    print(*outcome)


if __name__ == "__main__":
    main(sys.argv[1])
