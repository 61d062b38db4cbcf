"""What helps with hooks beside the tensors' own methods."""

from hookgrad.hooks.remove_helper import HookRemoveHelper

__all__ = ["HookRemoveHelper"]
