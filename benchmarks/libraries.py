"""The columns: which libraries are compared, and with how many threads."""

import importlib.util
import os
import sys
from dataclasses import dataclass

import numpy as np

ONE, ALL = 1, 0
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Workloads have a method of each name that can do them.
TITLES = {"hookgrad": "hookgrad", "numpy": "NumPy by hand", "autograd": "autograd", "torch": "PyTorch"}


@dataclass(frozen=True)
class Column:
    """A library with a number of threads."""

    library: str
    threads: int = ONE

    @property
    def key(self):
        return self.library + ("_all" if self.threads == ALL else "")

    @property
    def title(self):
        return TITLES[self.library] + (", all cores" if self.threads == ALL else "")


COLUMNS = tuple(Column(library) for library in TITLES) + (
    Column("hookgrad", ALL),
    Column("numpy", ALL),
    Column("torch", ALL),
)


def is_installed(library):
    """Whether a library can be imported."""
    return importlib.util.find_spec(library) is not None


_controller = None


def use_threads(threads):
    """Let BLAS and PyTorch use one thread, or all cores.

    Raises
    ------
    ModuleNotFoundError
        There is no threadpoolctl, without which BLAS cannot be told.
    """
    global _controller
    count = CORES if threads == ALL else threads
    if _controller is None:
        from threadpoolctl import ThreadpoolController

        _controller = ThreadpoolController()
    _controller.limit(limits=count, user_api="blas")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def import_all(libraries):
    """Import libraries, so that `use_threads` finds the thread pools of all."""
    global _controller
    for library in libraries:
        importlib.import_module(library)
    _controller = None


def as_array(value):
    """What a workload returned, in whatever library's type, as an ndarray."""
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    return np.asarray(value)


# On some machines they are set for all processes, and make OpenBLAS use kernels for another processor.
SLOW_BLAS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def blas_warning():
    """What is wrong with the environment that BLAS sees; None where nothing is."""
    found = [name for name in SLOW_BLAS if os.environ.get(name)]
    if not found:
        return None
    return (
        f"{' and '.join(found)} set in the environment: OpenBLAS may be slower than it is elsewhere, and ratios of "
        f"matrix products are not to be trusted; run under `env {' '.join('-u ' + name for name in found)} python ...`"
    )
