"""Backward, gradients of chosen inputs, and what is recorded."""

from hookgrad._core.engine import queue_callback
from hookgrad.autograd.backward import backward, grad
from hookgrad.autograd.grad_mode import enable_grad, no_grad, set_grad_enabled
from hookgrad.autograd.settings import retain_interior_grads, sort_sum_gradient

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "no_grad",
    "queue_callback",
    "retain_interior_grads",
    "set_grad_enabled",
    "sort_sum_gradient",
]
