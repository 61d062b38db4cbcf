"""Python's operators on tensors: operands of any kind on either side, conversions, and changes in place."""

import operator

import numpy as np
import pytest

import hookgrad as hg

ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "%": operator.mod,
}
DATA = {"//": operator.floordiv}
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

VALUES = np.array([[1.5, 2.0, 3.5]], np.float32)

OPERANDS = {
    "int": 2,
    "float": 2.5,
    "bool": True,
    "np.float32": np.float32(2.5),
    "np.float64": np.float64(2.5),
    "np.int64": np.int64(2),
    "np.int8": np.int8(2),
    "np.bool": np.bool_(True),
    "array": np.array([[2.0], [3.0]], np.float32),
    "float64 array": np.array([2.0, 0.5, 1.0]),
    "int array": np.array([2, 1, 3]),
    "int8 array": np.array([2, 1, 3], np.int8),
    "bool array": np.array([True, True, True]),
    "0-d array": np.array(2.5, np.float32),
    "empty array": np.zeros((0, 1, 3), np.float32),
}


def same(found, expected):
    """A tensor of NumPy's values, dtype and shape; values may differ in the last place, where NumPy's ``**`` does."""
    expected = np.asarray(expected)
    assert type(found) is hg.Tensor
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=3e-7 if expected.dtype == np.float32 else 1e-15)


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("sign", ARITHMETIC)
def test_arithmetic_with_anything_on_either_side(sign, kind):
    operate, other = ARITHMETIC[sign], OPERANDS[kind]
    numpy = np.power if sign == "**" else operate  # NumPy's ** takes an integer scalar for a Python number before 2.3
    x = hg.tensor(VALUES, requires_grad=True)
    for found, expected in ((operate(x, other), numpy(VALUES, other)), (operate(other, x), numpy(other, VALUES))):
        same(found, expected)
        assert found.requires_grad
        x.clear_grad()
        found.sum().backward()
        assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("sign", ARITHMETIC)
def test_arithmetic_with_lists(sign):
    """Python floats in a list are float32, as everywhere; integers are NumPy's."""
    operate = ARITHMETIC[sign]
    x = hg.tensor(VALUES, requires_grad=True)
    for other in ([1.0, 2.0, 0.5], [[1.0], [2.0]], (1.0, 2.0, 0.5), [1, 2, 3]):
        array = np.asarray(other)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        same(operate(x, other), operate(VALUES, array))
        same(operate(other, x), operate(array, VALUES))


@pytest.mark.parametrize("sign", DATA)
@pytest.mark.parametrize("kind", OPERANDS)
def test_operators_without_a_derivative_give_data(sign, kind):
    operate, other = DATA[sign], OPERANDS[kind]
    x = hg.tensor(VALUES, requires_grad=True)
    for found, expected in ((operate(x, other), operate(VALUES, other)), (operate(other, x), operate(other, VALUES))):
        same(found, expected)
        assert not found.requires_grad


@pytest.mark.parametrize("sign", COMPARISONS)
@pytest.mark.parametrize("kind", OPERANDS)
def test_comparisons_give_bools(sign, kind):
    compare, other = COMPARISONS[sign], OPERANDS[kind]
    x = hg.tensor(VALUES, requires_grad=True)
    for found, expected in ((compare(x, other), compare(VALUES, other)), (compare(other, x), compare(other, VALUES))):
        assert found.dtype == bool
        assert not found.requires_grad
        same(found, expected)
    with hg.no_grad():
        same(compare(x, x), compare(VALUES, VALUES))


def test_comparisons_with_lists_and_nan():
    x = hg.tensor([1.0, np.nan, 3.0])
    assert (x == [1.0, 2.0, 4.0]).tolist() == [True, False, False]
    assert (x == x).tolist() == [True, False, True]
    assert (x != x).tolist() == [False, True, False]


@pytest.mark.parametrize("sign", ["&", "|", "^"])
def test_bitwise_operators_are_those_of_numpy(sign):
    operate = {"&": operator.and_, "|": operator.or_, "^": operator.xor}[sign]
    masks = np.array([True, True, False]), np.array([True, False, False])
    bits = np.array([6, 5, 0]), np.array([3, 3, 3])
    for a, b in (masks, bits):
        same(operate(hg.tensor(a), hg.tensor(b)), operate(a, b))
        same(operate(a, hg.tensor(b)), operate(a, b))
        same(operate(hg.tensor(a), b), operate(a, b))
    for other in (True, False):
        same(operate(hg.tensor(masks[0]), other), operate(masks[0], other))
        same(operate(other, hg.tensor(masks[0])), operate(other, masks[0]))
    same(operate(hg.tensor(bits[0]), 3), operate(bits[0], 3))
    with pytest.raises(TypeError):
        operate(hg.tensor([1.0]), 1)


def test_bools_stay_bools_as_in_numpy():
    mask = np.array([True, False])
    for operate in (operator.add, operator.mul):
        same(operate(hg.tensor(mask), True), operate(mask, True))
        same(operate(True, hg.tensor(mask)), operate(True, mask))
    same(~hg.tensor(mask), ~mask)
    same(~hg.tensor([1, 2]), ~np.array([1, 2]))


def test_signs():
    x = hg.tensor([-1.0, 2.0], requires_grad=True)
    assert (-x).tolist() == [1.0, -2.0]
    assert abs(x).tolist() == [1.0, 2.0]
    y = +x
    assert y is not x
    assert y.tolist() == x.tolist()
    (-x + abs(x) * 10 + y * 100).sum().backward()
    assert x.grad.tolist() == [-1.0 - 10.0 + 100.0, -1.0 + 10.0 + 100.0]
    assert (+hg.tensor([1, 2])).tolist() == [1, 2]


@pytest.mark.parametrize("other", [np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), [[1.0, 2.0], [3.0, 4.0]]])
def test_matrix_product_on_either_side(other):
    values = np.array([[1.0, -1.0], [2.0, 0.5]], np.float32)
    array = np.asarray(other, np.float32)
    x = hg.tensor(values, requires_grad=True)
    y = x @ other
    same(y, values @ array)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((2, 2), np.float32) @ array.T)
    x.clear_grad()
    y = other @ x
    same(y, array @ values)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), array.T @ np.ones((2, 2), np.float32))


def test_matrix_product_of_integers_is_data():
    a = np.arange(6).reshape(2, 3)
    same(hg.tensor(a) @ hg.tensor(a.T), a @ a.T)
    same(hg.tensor(a) @ a.T.astype(np.int8), a @ a.T)


@pytest.mark.parametrize("number", [2, 2.5, np.float64(2)])
def test_matrix_product_with_a_number(number):
    x = hg.ones(3)
    with pytest.raises((ValueError, TypeError)):
        x @ number
    with pytest.raises((ValueError, TypeError)):
        number @ x


# Foreign types --------------------------------------------------------------------------------------------------------


class Foreign:
    """A type that knows what to do with tensors."""

    __array_ufunc__ = None

    def __radd__(self, other):
        return "radd"

    def __add__(self, other):
        return "add"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __eq__(self, other):
        return "eq"

    __hash__ = None

    def __gt__(self, other):
        return "gt"


class Silent:
    """A type that does not, and is no number."""


def test_foreign_types_get_their_turn():
    x = hg.tensor([1.0, 2.0])
    assert x + Foreign() == "radd"
    assert Foreign() + x == "add"
    assert x @ Foreign() == "rmatmul"
    assert (x == Foreign()) == "eq"
    assert (x < Foreign()) == "gt"
    x += Foreign()
    assert x == "radd"


@pytest.mark.parametrize("other", [Silent(), None, {"a": 1}, {1, 2}, Foreign], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "**", "//", "%", "@", "&", "<", ">="])
def test_types_that_are_no_operands(sign, other):
    x = hg.tensor([1.0, 2.0])
    operate = {**ARITHMETIC, **DATA, **COMPARISONS, "@": operator.matmul, "&": operator.and_}[sign]
    for pair in ((x, other), (other, x)):
        with pytest.raises(TypeError, match=r"(unsupported operand|not supported between)"):
            operate(*pair)


@pytest.mark.parametrize("other", ["text", b"bytes"])
def test_text_is_no_operand(other):
    x = hg.tensor([1.0, 2.0])
    for operate in (operator.add, operator.sub, operator.mul, operator.truediv, operator.lt):
        for pair in ((x, other), (other, x)):
            with pytest.raises(TypeError):
                operate(*pair)


@pytest.mark.parametrize(
    "other", [1j, np.float16(1), np.ones(2, np.complex64), np.array(["a", "b"]), [1, None], 10**400]
)
def test_numbers_that_are_no_operands(other):
    x = hg.tensor([1.0, 2.0])
    for operate in (operator.add, operator.mul, operator.pow, operator.truediv):
        for pair in ((x, other), (other, x)):
            with pytest.raises((TypeError, OverflowError)):
                operate(*pair)


@pytest.mark.parametrize("other", [Silent(), None, "text", {"a": 1}])
def test_equality_with_what_is_no_operand_is_identity(other):
    x = hg.tensor([1.0, 2.0])
    assert (x == other) is False
    assert (other == x) is False
    assert (x != other) is True


def test_power_takes_no_modulus():
    with pytest.raises(TypeError):
        pow(hg.tensor([2.0]), 2, 3)


# Conversions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_as_a_number(shape):
    t = hg.full(shape, 2.75, requires_grad=True)
    assert float(t) == 2.75
    assert type(float(t)) is float
    assert int(t) == 2
    assert t.item() == 2.75
    assert complex(t) == 2.75
    assert bool(t) is True
    assert bool(t - 2.75) is False


@pytest.mark.parametrize("t", [hg.ones(2), hg.ones((1, 2)), hg.zeros(0), hg.zeros((0, 3))], ids=str)
def test_several_elements_or_none_are_no_number(t):
    for convert in (float, int, hg.Tensor.item):
        with pytest.raises(ValueError, match=rf"{t.size} elements"):
            convert(t)
    with pytest.raises(ValueError, match=r"bool: .*\.any\(\) or \.all\(\)"):
        bool(t)
    with pytest.raises(ValueError, match="bool"):
        bool(t > 0)


def test_index():
    assert [10, 20, 30][hg.tensor(1)] == 20
    assert list(range(hg.tensor(3, "int8"))) == [0, 1, 2]
    assert operator.index(hg.tensor(5, "uint8")) == 5
    for t in (hg.tensor(1.0), hg.tensor([1]), hg.tensor([1, 2])):
        with pytest.raises(TypeError, match="index: got a tensor"):
            operator.index(t)


def test_item_at_an_index():
    t = hg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert t.item(3) == 4.0
    assert t.item(1, 0) == 3.0
    with pytest.raises(IndexError):
        t.item(4)


def test_length_iteration_and_membership():
    x = hg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert len(x) == 2
    rows = list(x)
    assert [row.tolist() for row in rows] == [[1.0, 2.0], [3.0, 4.0]]
    assert all(row.requires_grad for row in rows)
    first, second = x
    (first * 10 + second).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [1.0, 1.0]]
    assert 3.0 in x
    assert 5.0 not in x
    assert len(hg.zeros((0, 3))) == 0
    assert list(hg.zeros((0, 3))) == []
    for call in (len, iter, list):
        with pytest.raises(TypeError):
            call(hg.tensor(1.0))


def test_lists():
    assert hg.tensor([[1.0, 2.0]]).tolist() == [[1.0, 2.0]]
    assert hg.tensor(1.0).tolist() == 1.0
    assert type(hg.tensor([1]).tolist()[0]) is int
    assert hg.zeros((0, 2)).tolist() == []


def test_sizes():
    t = hg.zeros((2, 3), "float64")
    assert (t.ndim, t.size, t.itemsize, t.nbytes) == (2, 6, 8, 48)
    assert t.T.shape == (3, 2)


# In place -------------------------------------------------------------------------------------------------------------

IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "**=": operator.ipow,
}


@pytest.mark.parametrize("sign", IN_PLACE)
@pytest.mark.parametrize(
    "other", [2, 0.5, np.float32(3), [1.0, 2.0, 4.0], np.array([[3.0]], np.float32), "tensor"], ids=str
)
def test_in_place_under_no_grad(sign, other):
    """The same tensor, the same memory, NumPy's values."""
    values = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    x = hg.tensor(values, requires_grad=True)
    memory = x.numpy()
    operand = hg.tensor([2.0, 1.0, 0.5]) if other == "tensor" else other
    expected = IN_PLACE[sign](values.copy(), operand.numpy() if other == "tensor" else operand)
    with hg.no_grad():
        y = IN_PLACE[sign](x, operand)
    assert y is x
    assert x.is_leaf
    assert x.requires_grad
    np.testing.assert_allclose(memory, expected, rtol=2e-7 if sign == "**=" else 0)  # NumPy has short cuts for some
    np.testing.assert_array_equal(x.numpy(), memory)
    (x * 2).sum().backward()
    assert x.grad.tolist() == np.full((2, 3), 2.0).tolist()


@pytest.mark.parametrize("sign", IN_PLACE)
def test_in_place_on_data_while_recording(sign):
    t = hg.tensor([1.0, 2.0])
    same_tensor = IN_PLACE[sign](t, 2.0)
    assert same_tensor is t
    np.testing.assert_array_equal(t.numpy(), IN_PLACE[sign](np.array([1.0, 2.0], np.float32), 2.0))


def test_in_place_keeps_the_dtype_as_numpy_does():
    t = hg.tensor([1.0, 2.0])
    t += np.array([0.5, 0.5])
    assert t.dtype == np.float32
    assert t.tolist() == [1.5, 2.5]
    i = hg.tensor([1, 2])
    i += 3
    assert (i.dtype, i.tolist()) == (np.dtype(np.int64), [4, 5])
    for bad in (0.5, np.array([0.5, 0.5])):
        with pytest.raises(TypeError):
            i += bad
    with pytest.raises(TypeError):
        i /= 2
    assert i.tolist() == [4, 5]


@pytest.mark.parametrize("sign", IN_PLACE)
def test_in_place_on_a_leaf_that_requires_grad_is_an_error_while_recording(sign):
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf that requires grad .*no_grad\(\)"):
        IN_PLACE[sign](x, 2.0)
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match=r"no_grad\(\)"):
        x[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


def test_in_place_of_another_shape_is_an_error():
    t = hg.tensor([1.0, 2.0])
    for other in (hg.ones(3), hg.ones((2, 2)), np.ones((1, 2))):
        with pytest.raises(ValueError, match="broadcast"):
            t += other
    assert t.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("bad", ["text", None, object(), {"a": 1}])
def test_in_place_with_what_is_no_operand(bad):
    t = hg.tensor([1.0, 2.0])
    with pytest.raises(TypeError):
        t += bad
    with pytest.raises(TypeError):
        t[0] = bad
    assert t.tolist() == [1.0, 2.0]


def test_in_place_on_a_hooks_gradient_is_an_error():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    errors = []

    def hook(grad):
        for change in (lambda: operator.iadd(grad, 1.0), lambda: grad.__setitem__(0, 1.0)):
            with pytest.raises(RuntimeError, match="return a new tensor") as caught:
                change()
            errors.append(caught.value)

    x.register_hook(hook)
    (x * 3).sum().backward()
    assert len(errors) == 2
    assert x.grad.tolist() == [3.0, 3.0]


def test_assignment_to_parts():
    t = hg.zeros((2, 3))
    t[0] = 1.0
    t[:, 2] = hg.tensor([5.0, 6.0])
    t[np.array([1, 1]), np.array([0, 1])] = [7.0, 8.0]
    assert t.tolist() == [[1.0, 1.0, 5.0], [7.0, 8.0, 6.0]]
    t[t > 5.5] = 0.0
    assert t.tolist() == [[1.0, 1.0, 5.0], [0.0, 0.0, 0.0]]
    t[hg.tensor(1), hg.tensor([0, 2])] = 9
    assert t.tolist() == [[1.0, 1.0, 5.0], [9.0, 0.0, 9.0]]
    t[...] = np.array([1, 2, 3])
    assert t.tolist() == [[1.0, 2.0, 3.0]] * 2
    with pytest.raises(IndexError):
        t[5] = 0.0
    with pytest.raises(ValueError, match="broadcast"):
        t[0] = [1.0, 2.0]


def test_a_view_shares_memory():
    x = hg.tensor([[1.0, 2.0], [3.0, 4.0]])
    for view in (x[0], x.T, x.reshape(4), x.squeeze(), x.expand_dims(0), x[:, ::-1], x[...]):
        assert np.shares_memory(view.numpy(), x.numpy())
    row = x[0]
    row *= 10.0
    assert x.tolist() == [[10.0, 20.0], [3.0, 4.0]]
    assert not np.shares_memory(x[[0]].numpy(), x.numpy())


# What the graph saved -------------------------------------------------------------------------------------------------

READERS = {
    "multiply": lambda x, w: x * w,
    "divide": lambda x, w: x / w,
    "power": lambda x, w: w**x,
    "maximum": lambda x, w: hg.maximum(x, w),
    "matmul": lambda x, w: (x @ w).reshape(1),
}


@pytest.mark.parametrize("op", READERS)
@pytest.mark.parametrize("how", ["+=", "[0] =", "through a view", "through another tensor of the memory"])
def test_a_saved_input_that_was_changed_is_an_error(op, how):
    """Its message names the op, the shape and both versions."""
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = hg.tensor([4.0, 5.0, 6.0])
    y = READERS[op](x, w).sum()
    change(w, how)
    with pytest.raises(RuntimeError, match=rf"{op}: .*\(3,\).*changed in place.*version 0 .*version 1"):
        y.backward()
    assert x.grad is None


def change(t, how):
    if how == "+=":
        t += 1.0
    elif how == "[0] =":
        t[0] = 9.0
    elif how == "through a view":
        part = t[1:]
        part *= 2.0
    else:
        twin = t.detach()
        twin -= 1.0


OUTPUT_READERS = {
    "exp": hg.exp,
    "sqrt": hg.sqrt,
    "tanh": hg.tanh,
    "sigmoid": hg.sigmoid,
    "reciprocal": hg.reciprocal,
    "relu": hg.relu,
    "expm1": hg.expm1,
    "softmax": hg.softmax,
}


@pytest.mark.parametrize("op", OUTPUT_READERS)
def test_a_saved_output_that_was_changed_is_an_error(op):
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = OUTPUT_READERS[op](x)
    z = y.sum()
    with hg.no_grad():
        y += 1.0
    with pytest.raises(RuntimeError, match=rf"{op}: the output .*version 0 .*version 1"):
        z.backward()
    assert x.grad is None


def test_versions_are_counted():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    w = hg.tensor([3.0, 4.0])
    w += 1.0
    w += 1.0
    y = (x * w).sum()
    for _ in range(3):
        w += 1.0
    with pytest.raises(RuntimeError, match=r"version 2 and is now at version 5"):
        y.backward()


def test_changes_that_the_derivative_does_not_see_are_none_of_its_business():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    w = hg.tensor([3.0, 4.0])
    other = hg.tensor([0.0, 0.0])
    y = (x + w).sum() + (x * w.detach().copy()).sum()
    w += 1.0  # an addition saves nothing
    other += 1.0
    y.backward()
    assert x.grad.tolist() == [4.0, 5.0]
    w += 1.0
    y = (x * w).sum()  # saved after the change
    y.backward()
    assert x.grad.tolist() == [4.0 + 5.0, 5.0 + 6.0]


def test_the_update_of_a_parameter_after_backward_is_fine():
    w = hg.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        (w * w).sum().backward()
        with hg.no_grad():
            w -= 0.25 * w.grad
        w.clear_grad()
    np.testing.assert_allclose(w.numpy(), [0.125, 0.25])


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        (lambda w: operator.iadd(w, hg.ones(3)), ValueError),
        (lambda w: operator.imul(w, np.ones((2, 2))), ValueError),
        (lambda w: operator.isub(w, {"a": 1}), TypeError),
        (lambda w: operator.setitem(w, 7, 1.0), IndexError),
        (lambda w: operator.setitem(w, 0, [1.0, 2.0]), ValueError),
    ],
)
def test_a_failed_change_in_place_is_no_change(attempt, error):
    """Neither of the values nor of the version."""
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    w = hg.tensor([3.0, 4.0])
    y = (x * w).sum()
    with pytest.raises(error):
        attempt(w)
    assert w.tolist() == [3.0, 4.0]
    y.backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_change_of_a_gradient_is_seen_too():
    """.grad is a tensor as any other: what a graph saved of it may not change."""
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    y = (x * x.grad).sum()
    x.grad += 1.0
    with pytest.raises(RuntimeError, match=r"multiply: .*changed in place"):
        y.backward()


def test_accumulating_into_a_saved_gradient_is_seen_too():
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    y = (x * x.grad).sum()
    (x * 3).sum().backward()
    with pytest.raises(RuntimeError, match=r"multiply: .*changed in place"):
        y.backward()


def test_lists_of_python_floats_are_read_in_the_dtype_of_the_others():
    """Neither rounded to float32 beside float64, nor widening float32."""
    x = hg.tensor(np.ones(2))
    assert (x * [0.1, 1e300]).tolist() == [0.1, 1e300]
    assert (x < [1.0000000001, 1.0]).tolist() == [True, False]
    assert hg.concatenate([x, [0.1]]).tolist() == [1.0, 1.0, 0.1]
    assert hg.stack([x[0], 0.1]).tolist() == [1.0, 0.1]
    assert hg.dot(x, [0.1, 0.0]).item() == 0.1
    assert (x @ [0.1, 0.0]).item() == 0.1
    assert hg.clip(x, [0.0, 0.0], [0.1, 0.2]).tolist() == [0.1, 0.2]
    assert hg.where([True, False], [0.1, 0.2], x).tolist() == [0.1, 1.0]
    assert hg.add([0.1, 0.2], np.zeros(2)).tolist() == [0.1, 0.2]
    y = hg.tensor(np.zeros(2))
    y += [0.1, 1e300]
    y[1:] = [0.1]
    assert y.tolist() == [0.1, 0.1]
    assert (hg.tensor([1.0, 2.0]) * [0.5, 2.0]).dtype == np.float32
    assert hg.stack([hg.tensor(1.0), 0.5]).dtype == np.float32


def test_a_list_of_tensors_that_require_grad_is_refused():
    """As an array it would lose their gradients."""
    a, b = hg.tensor(1.0, requires_grad=True), hg.tensor(2.0)
    x = hg.ones(2)
    for call in (lambda: x * [a, b], lambda: hg.sum([a, b]), lambda: hg.where([True, False], (a, b), x)):
        with pytest.raises(TypeError, match=r"list of tensors that require grad.*hg\.stack"):
            call()
    with pytest.raises(TypeError, match=r"^tensor: got a list of tensors that require grad"):
        hg.tensor([[a], [b]])
    with hg.no_grad():
        assert hg.tensor([a, b]).tolist() == [1.0, 2.0]
    assert (x * [b, b]).tolist() == [2.0, 2.0]
    assert hg.stack([a, b]).requires_grad


@pytest.mark.parametrize("bad", [None, "text", object()])
def test_the_error_names_the_operand_that_is_none(bad):
    for call in (
        lambda: hg.add(bad, hg.ones(2)),
        lambda: hg.add(hg.ones(2), bad),
        lambda: hg.clip(bad, 0.0, hg.ones(2)),
    ):
        with pytest.raises(TypeError, match=f"got {type(bad).__name__}, expected"):
            call()
