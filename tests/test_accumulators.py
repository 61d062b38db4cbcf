"""Sums within one backward: on arrival, or in the order of the forward, exactly."""

import tracemalloc

import numpy as np
import pytest

import hookgrad as hg


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def fold(contributions):
    """The sum from left to right, each step rounded to the dtype."""
    total = contributions[0]
    for g in contributions[1:]:
        total = total + g
    return total


def terms(x, factors):
    """The sum of x * k, each product made in the order of the factors."""
    products = [x * float(k) for k in factors]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total


BIG = np.float32(1e8)  # adding 1 to it changes nothing in float32
ORDERS = {
    "the big ones first": ([BIG, -BIG, np.float32(1)], 1.0, 0.0),
    "the one in between": ([BIG, np.float32(1), -BIG], 0.0, 0.0),
    "the one first": ([np.float32(1), BIG, -BIG], 0.0, 1.0),
    "two ones": ([np.float32(1), np.float32(1), BIG, -BIG, np.float32(1)], 1.0, 2.0),
}


@pytest.mark.parametrize(("factors", "forward", "arrival"), ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_the_sum(factors, forward, arrival):
    assert fold(factors) == forward  # the arithmetic behind the expected values
    assert fold(factors[::-1]) == arrival
    for sort, expected in ((True, forward), (False, arrival)):
        x = leaf(1.0)
        with hg.autograd.sort_sum_gradient(sort):
            terms(x, factors).backward()
        assert x.grad.item() == expected


@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_many_contributions_bit_for_bit(count, interior):
    rng = np.random.default_rng(count)
    factors = (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 7, count)).astype(np.float32)
    forward, arrival = fold(factors), fold(factors[::-1])
    for sort, expected in ((True, forward), (False, arrival)):
        x = leaf([1.0, 1.0])
        t = x * 1 if interior else x
        seen = []
        t.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        with hg.autograd.sort_sum_gradient(sort):
            terms(t, factors).sum().backward()
        assert seen == [[expected.item()] * 2]
        assert x.grad.tolist() == [expected.item()] * 2
        if interior:
            assert t.grad.tolist() == [expected.item()] * 2


def test_the_orders_differ_for_these_numbers():
    # otherwise the test above could not tell one accumulator from the other
    rng = np.random.default_rng(100)
    factors = (rng.standard_normal(100) * 10.0 ** rng.integers(-6, 7, 100)).astype(np.float32)
    assert fold(factors) != fold(factors[::-1])


def test_sorted_whatever_the_order_of_arrival():
    """The consumers are joined in another order than they were made in."""
    factors = [BIG, np.float32(1), -BIG, np.float32(3)]
    for join in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        x = leaf(1.0)
        products = [x * float(k) for k in factors]
        total = products[join[0]]
        for k in join[1:]:
            total = total + products[k]
        with hg.autograd.sort_sum_gradient(True):
            total.backward()
        assert x.grad.item() == fold(factors) == 3.0


def test_both_inputs_of_one_operation_come_in_their_order():
    # d(x * y) with x is y: the contribution of the first input, then the second's, between two others
    for sort in (True, False):
        x = leaf(BIG)
        with hg.autograd.sort_sum_gradient(sort):
            (x * -2.0 + x * x + x * 1.0).backward()
        order = [np.float32(-2), BIG, BIG, np.float32(1)]
        expected = fold(order) if sort else fold([np.float32(1), BIG, BIG, np.float32(-2)])
        assert x.grad.item() == expected


def test_the_sum_is_one_thing_and_accumulation_another():
    # .grad is added to in the order of the backwards, in both modes
    for sort in (True, False):
        x = leaf(1.0)
        x.grad = hg.tensor(float(BIG))
        with hg.autograd.sort_sum_gradient(sort):
            terms(x, [1.0, 1.0]).backward()  # 1e8 + (1 + 1), not (1e8 + 1) + 1
        assert x.grad.item() == BIG + np.float32(2)


def test_the_mode_holds_until_it_is_changed_and_a_context_restores_it():
    factors, forward, arrival = ORDERS["the one first"]

    def run():
        x = leaf(1.0)
        terms(x, factors).backward()
        return x.grad.item()

    assert run() == arrival  # off by default
    hg.autograd.sort_sum_gradient(True)
    try:
        assert run() == forward
        with hg.autograd.sort_sum_gradient(False):
            assert run() == arrival
            with hg.autograd.sort_sum_gradient():
                assert run() == forward
            assert run() == arrival
        assert run() == forward
    finally:
        hg.autograd.sort_sum_gradient(False)
    with pytest.raises(KeyError), hg.autograd.sort_sum_gradient(True):
        raise KeyError
    assert run() == arrival


def test_the_mode_at_the_start_of_a_backward_holds_for_all_of_it():
    factors, forward, _ = ORDERS["the one first"]
    x = leaf(1.0)
    y = x * 1
    out = terms(y, factors)
    out.register_hook(lambda g: hg.autograd.sort_sum_gradient(False) and None)
    with hg.autograd.sort_sum_gradient(True):
        out.backward()
    assert x.grad.item() == forward
    hg.autograd.sort_sum_gradient(False)


@pytest.mark.parametrize("sort", [False, True])
def test_grad_and_create_graph_sum_in_the_same_order(sort):
    for factors, forward, arrival in ORDERS.values():
        expected = forward if sort else arrival
        x = leaf(1.0)
        with hg.autograd.sort_sum_gradient(sort):
            (plain,) = hg.grad(terms(x, factors), x)
            (recorded,) = hg.grad(terms(x, factors), x, create_graph=True)
        assert plain.item() == expected
        assert recorded.item() == expected


@pytest.mark.parametrize("sort", [False, True])
def test_hooks_results_are_what_is_summed(sort):
    x = leaf(1.0)
    a, b, c = x * 1, x * 1, x * 1
    a.register_hook(lambda g: g * float(BIG))
    b.register_hook(lambda g: g * -float(BIG))
    with hg.autograd.sort_sum_gradient(sort):
        (a + b + c).backward()
    assert x.grad.item() == (1.0 if sort else 0.0)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_summing_does_not_write_into_what_others_hold(sort, create_graph):
    """A contribution may be a root gradient, another tensor's sum or a broadcast number."""
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    kept = []
    v = hg.tensor([10.0, 20.0])
    a = x + w
    b = a + x
    a.register_hook(kept.append)
    b.register_hook(kept.append)
    c = b + w + x
    with hg.autograd.sort_sum_gradient(sort):
        hg.autograd.backward([c, x.sum()], [v, None], create_graph=create_graph)
    assert [g.tolist() for g in kept] == [[10.0, 20.0]] * 2
    assert v.tolist() == [10.0, 20.0]
    assert x.grad.tolist() == [31.0, 61.0]
    assert w.grad.tolist() == [20.0, 40.0]


@pytest.mark.parametrize("sort", [False, True])
def test_second_derivatives_under_both(sort):
    x = leaf([1.0, 2.0], np.float64)
    with hg.autograd.sort_sum_gradient(sort):
        y = x * x
        (first,) = hg.grad((y * x + y * 2 + x * 3).sum(), x, create_graph=True)  # 3 x^2 + 4 x + 3
        (second,) = hg.grad(first.sum(), x)
    assert first.tolist() == [10.0, 23.0]
    assert second.tolist() == [10.0, 16.0]


@pytest.mark.parametrize("sort", [False, True])
def test_a_tensor_that_only_none_reaches(sort):
    """Of a pruned graph, only what is needed is summed."""
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    with hg.autograd.sort_sum_gradient(sort):
        assert [g if g is None else g.item() for g in hg.grad(y * y, [w, leaf(1.0)], allow_unused=True)] == [24.0, None]


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (50_000,)])
def test_shapes(shape, sort):
    x = hg.ones(shape, requires_grad=True)
    with hg.autograd.sort_sum_gradient(sort):
        terms(x, [1.0, 2.0, 3.0]).sum().backward()
        terms(x, [1.0, 2.0, 3.0]).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, 12, np.float32))


@pytest.mark.parametrize("size", [8, 40_000])
def test_a_gradient_that_lies_in_grads_own_memory(size):
    x = hg.ones((size,), requires_grad=True)
    x.grad = hg.tensor(np.arange(size, dtype=np.float32))
    x.backward(x.grad[::-1])
    assert x.grad.tolist() == [size - 1.0] * size
    x.register_hook(lambda g: x.grad[::-1])
    x.backward(hg.ones((size,)))
    assert x.grad.tolist() == [2 * (size - 1.0)] * size


def test_grads_array_resized_behind_its_back():
    """An array that was handed out outside a graph is the tensor's own; NumPy lets its owner do anything."""
    x = hg.ones((6,), requires_grad=True)
    x.sum().backward()
    x.grad.numpy().resize((200_000,), refcheck=False)
    with pytest.raises(ValueError, match="broadcast"):
        (x * 2.0).sum().backward()
    x.grad = None
    (x * 2.0).sum().backward()
    assert x.grad.tolist() == [2.0] * 6


def test_an_interior_grad_that_nobody_shares_is_not_copied():
    """Reading `.grad` makes it the reader's own; where it was nobody else's, that costs nothing."""
    x = hg.ones((1_000_000,), requires_grad=True)
    y = x * 2.0
    z = y * 3.0  # its derivative makes a new array, which then is y's alone
    z.register_hook(lambda g: g * 1.0)
    z.backward(hg.ones((1_000_000,)), inputs=[y])
    tracemalloc.start()
    try:
        grad = y.grad
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert grad.tolist()[:2] == [3.0, 3.0]
