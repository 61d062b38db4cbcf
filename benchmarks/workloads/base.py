"""The shape of a workload."""

from dataclasses import dataclass

import numpy as np

from benchmarks.libraries import ALL, COLUMNS, TITLES


@dataclass(frozen=True)
class Goal:
    """hookgrad's value over the smallest of the peers' is at most this; with no peers, the value itself.

    `required` is the looser bound that a release must keep, where it differs.
    """

    at_most: float
    against: tuple = ()
    required: float | None = None

    @property
    def own_column(self):
        """Peers on all cores are met on all cores."""
        return "hookgrad_all" if any(peer.endswith("_all") for peer in self.against) else "hookgrad"


class Workload:
    """One piece of work, by as many libraries as it has methods for.

    A method named as the library (`hookgrad`, `numpy`, `torch`, `autograd`) prepares the data, outside the measured
    time, and returns a function of no arguments that does the work, forward and backward, and returns its result and
    its gradients, in the library's own types. All get the same data and give the same numbers (test_agree.py).

    "By hand in NumPy" is what a good NumPy programmer writes: forward, what the backward needs kept, the backward
    simplified on paper where that saves work; no preallocated buffers.
    """

    name = ""  # for the command line
    title = ""  # for the table
    operations = 1  # in one run; times are given for one
    operation = "run"
    goals = ()
    parallel = False  # measured on all cores too
    baseline = None  # a workload whose time is subtracted
    rtol = 1e-4

    def columns(self):
        """The columns that this workload has a method for, installed or not."""
        return [
            column
            for column in COLUMNS
            if hasattr(self, column.library) and (column.threads != ALL or column.library == "torch" or self.parallel)
        ]

    def libraries(self):
        return [library for library in TITLES if hasattr(self, library)]

    def prepare(self, library):
        """The function that does the work in that library."""
        return getattr(self, library)()

    def __repr__(self):
        return self.name


def normal(*shape, scale=1.0, seed=0, dtype=np.float32):
    """The same normal random numbers in every run."""
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(dtype)
