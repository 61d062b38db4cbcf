"""Activations and losses, under the field's names."""

from hookgrad._core.functions import cross_entropy, log_softmax, mse_loss, relu, sigmoid, softmax, tanh

__all__ = ["cross_entropy", "log_softmax", "mse_loss", "relu", "sigmoid", "softmax", "tanh"]
