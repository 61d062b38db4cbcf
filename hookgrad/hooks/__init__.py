"""What helps with hooks beside the tensors' own methods."""

from hookgrad._core.hook_map import HookRemoveHelper

__all__ = ["HookRemoveHelper"]
