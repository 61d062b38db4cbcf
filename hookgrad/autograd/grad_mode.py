"""Contexts that turn recording on and off. The mode itself is in the core, one for each thread."""

import functools
import inspect

from hookgrad._core.grad_mode import exchange_grad_enabled


class _GradMode:
    """A context that sets the mode and restores it; also a decorator. One object may be entered repeatedly, nested."""

    def __init__(self, mode):
        self._mode = mode
        self._before = []

    def __enter__(self):
        self._before.append(exchange_grad_enabled(self._mode))
        return self

    def __exit__(self, *error):
        exchange_grad_enabled(self._before.pop())

    def __call__(self, function):
        if not callable(function):
            raise TypeError(f"{type(self).__name__}: got {type(function).__name__}, expected a function to decorate")
        if inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{type(self).__name__}: {function.__qualname__} is a generator function, whose body would run outside "
                "the context; use `with` inside it"
            )
        mode = self._mode

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            before = exchange_grad_enabled(mode)
            try:
                return function(*args, **kwargs)
            finally:
                exchange_grad_enabled(before)

        return wrapped


class no_grad(_GradMode):
    """Record nothing in this thread: results need no grad, and leaves may be changed in place.

    A context manager and a decorator; ``@no_grad`` and ``@no_grad()`` are the same.

    Examples
    --------
    >>> import hookgrad as hg
    >>> w = hg.tensor([1.], requires_grad=True)
    >>> with hg.no_grad():
    ...     w -= 0.5
    >>> w
    Tensor([0.5], dtype=float32, requires_grad=True)
    """

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        _GradMode.__init__(self, False)
        return self(function)

    def __init__(self, function=None):
        super().__init__(False)


class enable_grad(_GradMode):
    """Record in this thread, also inside `no_grad` or a hook. A context manager and a decorator.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1.], requires_grad=True)
    >>> with hg.no_grad(), hg.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        _GradMode.__init__(self, True)
        return self(function)

    def __init__(self, function=None):
        super().__init__(True)


class set_grad_enabled(_GradMode):
    """Set recording on or off in this thread, at once; as a context manager, until its end.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import hookgrad as hg
    >>> with hg.set_grad_enabled(False):
    ...     hg.is_grad_enabled()
    False
    """

    def __init__(self, mode):
        super().__init__(bool(mode))
        self._outer = exchange_grad_enabled(self._mode)
        self._entered = False

    def __enter__(self):
        if not self._entered:  # the mode before the call is what the first exit restores
            exchange_grad_enabled(self._outer)
            self._entered = True
        return super().__enter__()

    def __call__(self, function):
        exchange_grad_enabled(self._outer)  # a decorator sets the mode in the calls alone
        return super().__call__(function)
