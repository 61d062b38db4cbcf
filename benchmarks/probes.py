"""What is not the time of a function: the cost of a million nodes, of importing, of having it on the disk.

Times and memory are taken in fresh processes, one a sample.
"""

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT
from benchmarks.libraries import COLUMNS
from benchmarks.workloads.base import Goal

NODES = 1_000_000


class Probe:
    """A quantity with a value for each of some libraries. `sample` measures it once, in round k."""

    name = ""
    title = ""
    unit = ""  # "s", "B" or "" for a ratio
    goals = ()
    measured = ("hookgrad", "torch")
    repeat = 3  # at most: samples are slow
    warm_up = False  # whether the first sample does not count

    def columns(self):
        return [column for column in COLUMNS if column.key in self.measured]

    def sample(self, library, k):
        raise NotImplementedError

    def __repr__(self):
        return self.name


@functools.cache
def deep_chain(library, nodes, k):
    """Processor seconds and bytes of a chain of that many nodes, measured in a fresh process; once a round k."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.deep_chain", library, str(nodes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"a chain of {nodes} nodes failed in {library} ({result.returncode}): {result.stderr}")
    return json.loads(result.stdout)


class DeepTime(Probe):
    """Processor time a node of a chain of a million: forward, backward, and dropping it."""

    name = "deep-time"
    title = "a chain of a million nodes, time a node"
    unit = "s"

    def sample(self, library, k):
        return deep_chain(library, NODES, k)["seconds"] / NODES


class DeepLinear(Probe):
    """Time of a million nodes over four times that of a quarter of a million.

    1 is linear and 4 quadratic; caches that no longer hold the graph, and the garbage collector, which goes over all of
    it at intervals, make a linear one a little more than 1.
    """

    name = "deep-linear"
    title = "time of 1,000,000 nodes / 4 x that of 250,000"
    goals = (Goal(1.5),)

    def sample(self, library, k):
        return deep_chain(library, NODES, k)["seconds"] / (4 * deep_chain(library, NODES // 4, k)["seconds"])


class DeepMemory(Probe):
    """Growth of the process while a million nodes are recorded, the last tensor alone held, a node."""

    name = "deep-memory"
    title = "a chain of a million nodes, bytes a node"
    unit = "B"
    goals = (Goal(300),)

    def sample(self, library, k):
        return deep_chain(library, NODES, k)["bytes"] / NODES


class ImportTime(Probe):
    """Import in a fresh process that has NumPy already."""

    name = "import"
    title = "import, after NumPy"
    unit = "s"
    goals = (Goal(0.015, required=0.020),)
    measured = ("hookgrad", "autograd", "torch")
    repeat = 15
    warm_up = True  # the first import may write byte code

    def sample(self, library, k):
        code = (
            f"import sys, time; sys.path.insert(0, {str(package_folder(library).parent)!r}); import numpy; "
            f"start = time.perf_counter(); import {library}; print(time.perf_counter() - start)"
        )
        result = subprocess.run(
            [sys.executable, "-P", "-c", code], cwd=ROOT.anchor, capture_output=True, text=True, check=True
        )
        return float(result.stdout)


class InstalledSize(Probe):
    """The package's folder, without byte code and what a build in place leaves there."""

    name = "size"
    title = "installed size"
    unit = "B"
    goals = (Goal(5e6, required=6e6),)
    measured = ("hookgrad", "autograd", "torch")
    repeat = 1

    def sample(self, library, k):
        left_out = {".pyc", ".c", ".html"} if library == "hookgrad" else {".pyc"}
        files = package_folder(library).rglob("*")
        return sum(p.lstat().st_size for p in files if p.suffix not in left_out and p.is_file())


def package_folder(library):
    if library in sys.modules:
        return Path(sys.modules[library].__file__).parent
    return Path(importlib.util.find_spec(library).origin).parent


PROBES = (DeepTime(), DeepLinear(), DeepMemory(), ImportTime(), InstalledSize())
