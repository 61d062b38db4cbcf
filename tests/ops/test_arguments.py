"""Wrong arguments: an error that names the function and what it got, and never a crash."""

import numeric
import numpy as np
import pytest

import hookgrad as hg

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "var", "std", "logsumexp", "cumsum")
X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [2, -3, 64, -65, 10**30])
def test_axis_out_of_range(name, axis):
    with pytest.raises(np.exceptions.AxisError, match=f"{name}: axis {axis}"):
        getattr(hg, name)(hg.tensor(X), axis=axis)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [1.0, "0", "x", object()])
def test_axis_that_is_no_integer(name, axis):
    with pytest.raises(TypeError, match=f"{name}: axis"):
        getattr(hg, name)(hg.tensor(X), axis=axis)


@pytest.mark.parametrize("name", REDUCTIONS[:-1])
def test_axis_given_twice(name):
    with pytest.raises(ValueError, match=f"{name}: axis .* twice"):
        getattr(hg, name)(hg.tensor(X), axis=(0, -2))


@pytest.mark.parametrize("name", ["max", "min", "logsumexp"])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), 0), ((3, 0), (0, 1))])
def test_reductions_without_a_neutral_element_need_elements(name, shape, axis):
    with pytest.raises(ValueError, match=f"{name}: no elements"):
        getattr(hg, name)(hg.zeros(shape), axis=axis)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_means_of_nothing_are_nan_as_in_numpy(name):
    x = hg.zeros((0, 3), requires_grad=True)
    y = getattr(hg, name)(x, axis=0)
    assert np.isnan(y.numpy()).all()
    assert y.shape == (3,)
    y.backward(np.ones(3))
    assert x.grad.shape == (0, 3)


UNUSABLE = [
    "text",
    b"bytes",
    None,
    object(),
    {"a": 1},
    {1, 2},
    1j,
    np.float16([1]),
    np.array(["a"]),
    [1, "a"],
    [[1], [1, 2]],
]


def test_operands_that_cannot_be_tensors(function_row):
    example = function_row.examples[0]
    public = {"abs": "absolute"}.get(function_row.name, function_row.name.rpartition(".")[2])
    for k in range(len(example.shapes)):
        for bad in UNUSABLE:
            if function_row.name == "clip" and bad is None and (k > 0 or function_row.label == "by tensors"):
                continue  # no bound
            operands = [hg.tensor(a) for a in example.arrays(np.float32)]
            operands[k] = bad
            with pytest.raises((TypeError, ValueError)) as caught:
                example.compute(*operands)
            assert str(caught.value).startswith(f"{public}: "), f"operand {k}: {bad!r}"


def test_shapes_that_do_not_fit(mixing_row):
    if mixing_row.name == "nn.functional.mse_loss":
        return  # it has a test of its own
    kwargs = {"condition": True} if mixing_row.name == "where" else {}
    with pytest.raises(ValueError, match=rf"^{mixing_row.name}: .*\(2, ?3\).*\(4, ?5\)"):
        mixing_row.function(hg.ones((2, 3)), hg.ones((4, 5)), **kwargs)


def test_where_with_a_condition_that_does_not_fit():
    with pytest.raises(ValueError, match="where"):
        hg.where(np.ones(4, bool), hg.ones((2, 3)), 0.0)


def test_matmul_of_tensors_without_axes():
    for pair in ((hg.tensor(2.0), hg.ones(3)), (hg.ones(3), 2.0), (hg.tensor(2.0), hg.tensor(3.0))):
        with pytest.raises(ValueError, match=r"matmul: .*\(\)"):
            hg.matmul(*pair)


@pytest.mark.parametrize("shape", [(4,), (2, 2), (-1, -1), (-1, 4), (7, -1), (2**62, 2**62)])
def test_reshape_to_what_does_not_fit(shape):
    with pytest.raises(ValueError, match=r"reshape: .*\(2, 3\)"):
        hg.ones((2, 3)).reshape(shape)


@pytest.mark.parametrize("shape", [(1.5,), ("2", 3), (None, 2), ([2], 3)])
def test_shapes_that_are_no_integers(shape):
    for call in (lambda: hg.ones((2, 3)).reshape(shape), lambda: hg.broadcast_to(hg.ones((1, 3)), shape)):
        with pytest.raises(TypeError, match="shape must be integers"):
            call()


@pytest.mark.parametrize("axes", [(0,), (0, 0), (0, 1, 2)])
def test_transpose_with_axes_that_are_no_permutation(axes):
    with pytest.raises(ValueError, match="transpose: "):
        hg.ones((2, 3)).transpose(axes)


def test_squeeze_of_a_longer_axis():
    with pytest.raises(ValueError, match=r"squeeze: axis 1 of shape \(1, 3\) has length 3"):
        hg.ones((1, 3)).squeeze(1)


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, 3)])
def test_expand_dims_at_impossible_places(axis):
    with pytest.raises(ValueError, match="expand_dims: axis"):
        hg.expand_dims(hg.ones(3), axis)


def test_broadcast_to_what_does_not_fit():
    for shape in ((2,), (3, 2), (), (2, 3, 1)):
        with pytest.raises(ValueError, match=r"broadcast_to: shape \(2, 3\)"):
            hg.broadcast_to(hg.ones((2, 3)), shape)


@pytest.mark.parametrize("join", [hg.concatenate, hg.stack], ids=["concatenate", "stack"])
def test_joining_nothing_or_what_is_no_sequence(join):
    name = join.__name__
    with pytest.raises(ValueError, match=f"{name}: got no tensors"):
        join([])
    for bad in (5, None, {1: 2}, iter([hg.ones(2)])):
        with pytest.raises(TypeError, match=f"{name}: got"):
            join(bad)
    with pytest.raises(np.exceptions.AxisError, match=f"{name}: axis 5"):
        join([hg.ones(2), hg.ones(2)], axis=5)


def test_concatenate_needs_an_axis():
    with pytest.raises(ValueError, match="concatenate: "):
        hg.concatenate([hg.tensor(1.0), hg.tensor(2.0)])


@pytest.mark.parametrize(
    ("index", "error"),
    [(5, IndexError), (-6, IndexError), ((0, 0), IndexError), ("a", IndexError), (1.0, IndexError),
     ([0, 7], IndexError), (np.ones(4, bool), IndexError), ((None,) * 65, IndexError), (slice("a", 2), TypeError),
     (slice(None, None, 0), ValueError), ([[0], [1, 2]], (ValueError, IndexError))],
)  # fmt: skip
def test_indexing_errors_are_those_of_numpy(index, error):
    with pytest.raises(error):
        np.ones(5)[index]
    with pytest.raises(error):
        hg.ones(5)[index]


@pytest.mark.parametrize("axis", [1, -2, 1.5])
def test_softmax_axis(axis):
    for function in (hg.softmax, hg.nn.functional.log_softmax):
        with pytest.raises((np.exceptions.AxisError, TypeError), match="softmax: axis"):
            function(hg.ones(3), axis=axis)


@pytest.mark.parametrize(
    ("logits", "labels", "error", "message"),
    [
        (np.ones(3), [0], ValueError, r"logits of shape \(3,\)"),
        (np.ones((2, 3)), [0], ValueError, r"labels of shape \(1,\)"),
        (np.ones((2, 3)), [[0, 1]], ValueError, r"labels of shape \(1, 2\)"),
        (np.ones((0, 3)), np.zeros(0, int), ValueError, "at least one row"),
        (np.ones((2, 0)), [0, 0], ValueError, "labels go from 0 to 0"),
        (np.ones((2, 3)), [0, 3], ValueError, "labels go from 0 to 3, expected 0 to 2"),
        (np.ones((2, 3)), [-1, 0], ValueError, "labels go from -1 to 0"),
        (np.ones((2, 3)), [0.0, 1.0], TypeError, "labels of dtype float"),
        (np.ones((2, 3)), [True, False], TypeError, "labels of dtype bool"),
        ("text", [0], TypeError, "got str"),
    ],
)
def test_cross_entropy_arguments(logits, labels, error, message):
    with pytest.raises(error, match=f"cross_entropy: .*{message}"):
        hg.nn.functional.cross_entropy(logits, labels)


def test_cross_entropy_keeps_labels_of_its_own():
    logits = hg.tensor(np.zeros((2, 3)), requires_grad=True)
    labels = np.array([0, 1])
    loss = hg.nn.functional.cross_entropy(logits, labels)
    labels[:] = 2
    loss.backward()
    third = 1 / 6
    np.testing.assert_allclose(logits.grad.numpy(), [[third - 0.5, third, third], [third, third - 0.5, third]])


def test_mse_loss_refuses_to_broadcast():
    with pytest.raises(ValueError, match=r"mse_loss: got shapes \(3,\) and \(3, 1\)"):
        hg.nn.functional.mse_loss(hg.ones(3), hg.ones((3, 1)))


def test_var_with_two_names_for_one_thing():
    for function in (hg.var, hg.std):
        with pytest.raises(ValueError, match="ddof and correction"):
            function(hg.ones(3), ddof=1, correction=1)


def test_an_error_in_a_forward_records_nothing():
    x = hg.tensor(X, requires_grad=True)
    y = x * 2
    with pytest.raises(ValueError, match="matmul"):
        y @ hg.ones((4, 5))
    y.sum().backward()
    assert x.grad.tolist() == (2 * X).tolist()


def test_as_many_axes_as_numpy_has():
    shape = (1,) * 64
    arrays = [np.full(shape, 2.0), np.full(shape, 3.0)]
    x, y = leaves = numeric.leaves(arrays)
    z = ((x * y + x) / y).sum(axis=63).mean(axis=(0, 1), keepdims=False).reshape(()) + x.max() + x[0].sum()
    z.backward()
    assert z.shape == ()
    np.testing.assert_allclose([g.grad.item() for g in leaves], [1 + 1 / 3 + 2, -2 / 9], rtol=1e-15)
    with pytest.raises(ValueError, match=r"axes|dimension"):
        hg.expand_dims(x, 0)
