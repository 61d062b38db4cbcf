"""The two entries to the engines: what users give is checked here, completely, before anything runs."""

import numpy as np

from hookgrad._core.engine import run_backward, run_grad
from hookgrad._core.functions import astype
from hookgrad._core.variable import VariableWrapper, make_tensor


def _tensors(function, argument, value):
    """One tensor or a sequence of them, as a list."""
    if isinstance(value, VariableWrapper):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{function}: {argument} must be a Tensor or a sequence of them, got {type(value).__name__}")
    for i, item in enumerate(value):
        if not isinstance(item, VariableWrapper):
            raise TypeError(f"{function}: {argument}[{i}] must be a Tensor, got {type(item).__name__}")
    return list(value)


def _label(tensor, argument, i):
    return f"{argument}[{i}]" + (f" {tensor.name!r}" if tensor.name is not None else "")


def _grad_list(outputs, grads):
    """Gradients as a list. For a single output that is not in a list, the gradient itself, which may be a list too."""
    if grads is None:
        return None
    if isinstance(outputs, VariableWrapper) and not (
        isinstance(grads, (list, tuple)) and len(grads) == 1 and isinstance(grads[0], (VariableWrapper, np.ndarray))
    ):
        return [grads]
    return [grads] if isinstance(grads, (VariableWrapper, np.ndarray, int, float)) else list(grads)


def _output_grads(function, outputs, grads):
    """A gradient for each output: of its shape and dtype; ones where none is given and there is one element."""
    if grads is None:
        grads = [None] * len(outputs)
    if len(grads) != len(outputs):
        raise ValueError(f"{function}: got {len(grads)} gradients for {len(outputs)} outputs; one is needed for each")
    checked = []
    for i, (output, g) in enumerate(zip(outputs, grads, strict=True)):
        if not output.requires_grad:
            raise RuntimeError(
                f"{function}: {_label(output, 'output', i)} of shape {output.shape} does not require grad: it was not "
                "made from a tensor that does, or was made under no_grad()"
            )
        if g is None:
            if output.size != 1:
                raise RuntimeError(
                    f"{function}: a gradient can be implied only for an output of one element, got shape "
                    f"{output.shape}; pass one of that shape, or reduce the output (.sum(), .mean())"
                )
            g = np.ones(output.shape, output.dtype)
        if isinstance(g, VariableWrapper):
            g = astype(g, output.dtype) if g.dtype.kind in "biuf" else g
        else:
            try:
                g = make_tensor(np.asarray(g).astype(output.dtype, casting="same_kind", copy=True))
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{function}: the gradient of {_label(output, 'output', i)} must be numbers, got {g!r}"
                ) from error
        if g.shape != output.shape:
            raise ValueError(
                f"{function}: invalid gradient at index {i}: got shape {g.shape}, expected the output's, {output.shape}"
            )
        checked.append(g)
    return checked


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Sum the gradients of tensors into the ``.grad`` of the leaves they depend on, and run their hooks.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        They require grad.
    grad_tensors : Tensor, array_like or a sequence of them, optional
        The gradient of each, of its shape; may be left out for a tensor of one element.
    retain_graph : bool, optional
        Keep what the graph saved, so that it can be run again; by default as `create_graph`.
    create_graph : bool
        Record the backward itself, so that its gradients can be differentiated.
    inputs : Tensor or sequence of Tensor, optional
        Only these get their ``.grad``, interior ones too; what they do not need is neither run nor hooked.

    Raises
    ------
    RuntimeError
        A tensor does not require grad, or has several elements and no gradient, or its graph was freed by an earlier
        backward.
    ValueError, TypeError
        A gradient of another shape; something that is no gradient.

    Notes
    -----
    All or nothing: if anything fails, no ``.grad`` changes, but those of leaves with in-place or post-accumulate hooks,
    which are written as soon as they are known.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1., 2.], requires_grad=True)
    >>> hg.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    >>> x.grad
    Tensor([5., 5.], dtype=float32)
    """
    grad_tensors = _grad_list(tensors, grad_tensors)
    tensors = _tensors("backward", "tensors", tensors)
    grads = _output_grads("backward", tensors, grad_tensors)
    if inputs is not None:
        inputs = _inputs("backward", inputs)
    run_backward(tensors, grads, inputs, create_graph if retain_graph is None else bool(retain_graph), create_graph)


def _inputs(function, inputs):
    inputs = _tensors(function, "inputs", inputs)
    if not inputs:
        raise ValueError(f"{function}: inputs is empty, expected at least one tensor")
    for i, tensor in enumerate(inputs):
        if not tensor.requires_grad:
            raise RuntimeError(
                f"{function}: {_label(tensor, 'inputs', i)} of shape {tensor.shape} does not require grad; make it "
                "with requires_grad=True before the forward"
            )
    return inputs


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=False,
    run_leaf_hooks=False,
):
    """The gradients of outputs with respect to inputs; nothing is written to any ``.grad``.

    Hooks of interior tensors run, also those of an interior input, whose returned gradient is the hooked one. Those of
    a leaf run only with `run_leaf_hooks`; in-place and post-accumulate hooks never do.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
    inputs : Tensor or sequence of Tensor
        Leaves or interior tensors; they require grad.
    grad_outputs : Tensor, array_like or a sequence of them, optional
        The gradient of each output, of its shape; may be left out for an output of one element.
    retain_graph : bool, optional
        Keep what the graph saved; by default as `create_graph`.
    create_graph : bool
        Record the backward itself, so that the results can be differentiated.
    allow_unused : bool
        Return None for an input that no output depends on, instead of raising.
    run_leaf_hooks : bool
        Run the gradient hooks of leaf inputs too.

    Returns
    -------
    list of Tensor
        In the order of `inputs`, also for a single tensor; each of its input's shape and dtype.

    Raises
    ------
    RuntimeError
        An output or input does not require grad, an input is unused, or the graph was freed.
    ValueError, TypeError
        A gradient of another shape; something that is no gradient.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor(3., requires_grad=True)
    >>> (dx,) = hg.grad(x ** 3, x, create_graph=True)
    >>> dx.item()
    27.0
    >>> hg.grad(dx, x)
    [Tensor(18., dtype=float32)]
    """
    grad_outputs = _grad_list(outputs, grad_outputs)
    outputs = _tensors("grad", "outputs", outputs)
    inputs = _inputs("grad", inputs)
    grads = _output_grads("grad", outputs, grad_outputs)
    results = run_grad(
        outputs,
        grads,
        inputs,
        create_graph if retain_graph is None else bool(retain_graph),
        create_graph,
        run_leaf_hooks,
    )
    if not allow_unused:
        for i, g in enumerate(results):
            if g is None:
                raise RuntimeError(
                    f"grad: {_label(inputs[i], 'inputs', i)} of shape {inputs[i].shape} was not used to compute the "
                    "outputs; pass allow_unused=True to get None for it"
                )
    return results
