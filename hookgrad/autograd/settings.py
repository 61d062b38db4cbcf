"""Settings of the engines, for the whole process."""

from hookgrad._core.engine import exchange_retain_interior_grads, exchange_sort_sum_gradient


class _Setting:
    """What a setting's call returns: a context that restores the value from before."""

    def __init__(self, exchange, mode):
        self._exchange = exchange
        self._before = exchange(bool(mode))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._exchange(self._before)


def sort_sum_gradient(mode=True):
    """Sum each tensor's gradient in the order in which the forward ran, whatever the order of arrival.

    Floating-point sums depend on their order; this makes it that of the forward. It holds for the process, or as a
    context manager until its end.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1.], requires_grad=True)
    >>> with hg.autograd.sort_sum_gradient(True):
    ...     (x * 2 + x * 3).backward()
    >>> x.grad
    Tensor([5.], dtype=float32)
    """
    return _Setting(exchange_sort_sum_gradient, mode)


def retain_interior_grads(mode=True):
    """Whether a backward leaves its gradient on interior tensors that are alive (on by default).

    It holds for the process, or as a context manager until its end.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1.], requires_grad=True)
    >>> y = x * 2
    >>> with hg.autograd.retain_interior_grads(False):
    ...     (y * 3).backward()
    >>> print(y.grad)
    None
    """
    return _Setting(exchange_retain_interior_grads, mode)
