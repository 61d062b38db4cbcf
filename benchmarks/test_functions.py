"""Functions of a few numbers."""

from benchmarks.workloads import FUNCTIONS

WORKLOADS = FUNCTIONS


def test_functions(measure, workload, column):
    measure(workload, column)
