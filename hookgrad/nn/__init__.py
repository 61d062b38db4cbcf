"""Functions for networks."""

from hookgrad.nn import functional

__all__ = ["functional"]
