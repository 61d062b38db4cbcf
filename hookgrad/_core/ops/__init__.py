"""The differentiable operations: each a forward by inner loops and, next to it, its derivative."""
