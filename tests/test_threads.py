"""Threads: each with graphs of its own, leaves and hooks in common."""

import sys
import threading

import numpy as np
import pytest

import hookgrad as hg

THREADS = 4


@pytest.fixture(autouse=True)
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def leaf(values, dtype=np.float64, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def together(function, count=THREADS):
    """Run function(k) in each thread, started at one moment; the first error of any is raised."""
    barrier = threading.Barrier(count)
    errors = []

    def target(k):
        try:
            barrier.wait(timeout=30)
            function(k)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=target, args=(k,)) for k in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def test_graphs_of_their_own_on_shared_leaves():
    """Small whole numbers: their float64 sums are exact in any order."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    rounds = 150

    def work(k):
        for _ in range(rounds):
            y = x * w + x * float(k)
            (y * 2).sum().backward()

    together(work)
    total = sum(range(THREADS))
    assert x.grad.tolist() == [rounds * 2 * (THREADS * 3 + total), rounds * 2 * (THREADS * 4 + total)]
    assert w.grad.tolist() == [rounds * 2 * THREADS * 1, rounds * 2 * THREADS * 2]


@pytest.mark.parametrize(
    "state", ["no grad yet", "grad looked at", "post-accumulate hook", "in-place hook", "create_graph"]
)
@pytest.mark.parametrize("size", [10, 200_000])
def test_accumulation_loses_nothing(size, state):
    """Large arrays are added without the lock of the interpreter; every contribution counts all the same."""
    rounds, repeats = 4, 10
    for _ in range(repeats):
        x, w = hg.ones((size,), requires_grad=True), hg.ones((size,), requires_grad=True)
        start = 0.0
        if state == "grad looked at":
            x.grad, w.grad = hg.ones((size,)), hg.ones((size,))
            start = 1.0
        elif state == "post-accumulate hook":
            x.register_post_accumulate_grad_hook(lambda t: None)
        elif state == "in-place hook":
            x.register_inplace_hook(lambda g: None)

        def work(k, x=x, w=w):
            for n in range(rounds):
                (x + w).backward(hg.ones((size,)), create_graph=state == "create_graph" and (k + n) % 2 == 0)

        together(work)
        expected = np.full(size, start + THREADS * rounds, np.float32)
        np.testing.assert_array_equal(x.grad.numpy(), expected)
        np.testing.assert_array_equal(w.grad.numpy(), expected)


def test_one_retained_graph_in_several_threads():
    """The same nodes at once: each run keeps what it knows of a node apart from the others'."""
    x = leaf([1.0, 2.0])
    y = x * x
    z = y * 3 + y
    out = (z + y).sum()  # 5 x^2
    hooks = [0]
    lock = threading.Lock()

    def count(g):
        with lock:
            hooks[0] += 1
        assert g.tolist() == [5.0, 5.0]

    y.register_hook(count)
    rounds = 100

    def work(k):
        for _ in range(rounds):
            if k % 2:
                (g,) = hg.grad(out, x, retain_graph=True)
                assert g.tolist() == [10.0, 20.0]
            else:
                out.backward(retain_graph=True)

    together(work)
    assert hooks[0] == THREADS * rounds
    assert x.grad.tolist() == [THREADS // 2 * rounds * 10.0, THREADS // 2 * rounds * 20.0]


def test_hooks_registered_and_removed_while_another_thread_runs():
    x = leaf([1.0, 2.0])
    stop = threading.Event()
    rounds = 300
    added = [0]

    def work(k):
        if k == 0:
            try:
                for _ in range(rounds):
                    y = x * 2
                    y.register_hook(lambda g: None)
                    y.sum().backward()
            finally:
                stop.set()
        else:
            while not stop.is_set():
                handles = [x.register_hook(lambda g: None) for _ in range(5)]
                handles += [
                    x.register_inplace_hook(lambda g: None),
                    x.register_post_accumulate_grad_hook(lambda t: None),
                ]
                handles += [x._register_backward_hook(list)]
                assert all(handle.remove() for handle in handles)
                added[0] += 1

    together(work)
    assert added[0] > 0
    assert x.grad.tolist() == [2.0 * rounds, 2.0 * rounds]
    calls = []
    x.register_hook(calls.append)
    x.sum().backward()
    assert len(calls) == 1  # of all those hooks none is left


def test_ids_are_unique_across_threads():
    x = leaf(1.0)
    ids = [[] for _ in range(THREADS)]

    def work(k):
        y = x * 1
        for _ in range(200):
            ids[k].append(x.register_hook(id).id)
            ids[k].append(y.register_hook(id).id)

    together(work)
    everything = [id for own in ids for id in own]
    assert len(set(everything)) == len(everything) == THREADS * 400
    assert all(own == sorted(own) for own in ids)


def test_a_hook_added_from_another_thread_in_the_middle_of_the_hooks():
    x = leaf(1.0)
    log = []

    def hook(g):
        def add():
            x.register_hook(lambda g: log.append("added"))

        if not log:
            thread = threading.Thread(target=add)
            thread.start()
            thread.join()
        log.append("hook")

    x.register_hook(hook)
    x.backward()
    assert log == ["hook"]
    x.backward()
    assert log == ["hook", "hook", "added"]


def test_a_hook_removed_from_another_thread_does_not_run_any_more():
    x = leaf(1.0)
    log = []

    def hook(g):
        thread = threading.Thread(target=later.remove)
        thread.start()
        thread.join()

    x.register_hook(hook)
    later = x.register_hook(lambda g: log.append("later"))
    x.backward()
    assert log == []


def test_the_mode_is_each_threads_own():
    x = leaf([1.0, 2.0])

    def work(k):
        for _ in range(200):
            with hg.set_grad_enabled(bool(k % 2)):
                y = x * 2
                assert y.requires_grad is bool(k % 2)
                assert hg.is_grad_enabled() is bool(k % 2)
            z = x * 3
            assert z.requires_grad

    together(work)
    assert hg.is_grad_enabled()


def test_an_error_in_one_thread_does_not_touch_the_others():
    x = leaf([1.0, 2.0])
    rounds = 100

    def work(k):
        for _ in range(rounds):
            y = x * 2
            if k == 0:
                with y.register_hook(lambda g: 1 / 0), pytest.raises(ZeroDivisionError):
                    (y * 3).sum().backward()
                assert hg.is_grad_enabled()
            else:
                (y * 3).sum().backward()

    together(work)
    assert x.grad.tolist() == [6.0 * (THREADS - 1) * rounds] * 2


def test_nested_backwards_in_every_thread():
    x = leaf([1.0, 2.0])
    rounds = 40

    def work(k):
        for _ in range(rounds):
            y = x * 3
            out = (y * y).sum()  # 18 x
            depth = []

            def hook(g, out=out, depth=depth):
                if len(depth) < 3:
                    depth.append(1)
                    out.backward(retain_graph=True)

            y.register_hook(hook)
            out.backward(retain_graph=True)

    together(work)
    assert x.grad.tolist() == [18.0 * 4 * THREADS * rounds, 36.0 * 4 * THREADS * rounds]


def test_callbacks_run_in_the_thread_that_queued_them():
    x = leaf(1.0)
    ran = []

    def work(k):
        for _ in range(50):
            y = x * 2
            me = threading.get_ident()
            y.register_hook(
                lambda g, me=me: hg.autograd.queue_callback(lambda: ran.append(me == threading.get_ident()))
            )
            y.backward()

    together(work)
    assert ran == [True] * (50 * THREADS)


def test_double_backward_in_every_thread():
    x = leaf([1.0, 2.0])

    def work(k):
        for _ in range(40):
            y = x**3
            y.register_hook(lambda g: g * 2)
            (first,) = hg.grad(y.sum(), x, create_graph=True)
            assert first.tolist() == [6.0, 24.0]
            (second,) = hg.grad(first.sum(), x)
            assert second.tolist() == [12.0, 24.0]

    together(work)
    assert x.grad is None


def test_graphs_made_in_one_thread_run_and_dropped_in_another():
    x = leaf([1.0, 2.0])
    graphs = [((x * 2).tanh() * 0 + x * float(k)).sum() for k in range(40)]

    def work(k):
        for _ in range(10):
            graphs.pop().backward()

    together(work)
    assert graphs == []
    assert x.grad.tolist() == [sum(range(40))] * 2
