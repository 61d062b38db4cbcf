"""The handle of a registered hook."""

import weakref


class HookRemoveHelper:
    """What registering a hook returns: removes it again.

    It does not keep the tensor alive, nor the hook. As a context manager it removes the hook at the end.

    Examples
    --------
    >>> import hookgrad as hg
    >>> x = hg.tensor([1.], requires_grad=True)
    >>> with x.register_hook(lambda grad: grad * 2):
    ...     (x * 3).backward()
    >>> x.grad
    Tensor([6.], dtype=float32)
    """

    __slots__ = ("_map", "_id", "__weakref__")

    def __init__(self, hook_map, hook_id):
        self._map = weakref.ref(hook_map)
        self._id = hook_id

    @property
    def id(self):
        """The hook's id, which no other hook ever gets."""
        return self._id

    def remove(self):
        """Remove the hook: True the first time, False after, or when tensor and graph are gone."""
        hook_map = self._map()
        return hook_map is not None and hook_map.remove(self._id)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()

    def __repr__(self):
        return f"HookRemoveHelper(id={self._id})"
