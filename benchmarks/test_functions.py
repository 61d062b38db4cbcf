"""Functions of a few numbers."""

from benchmarks.workloads import FUNCTIONS as WORKLOADS


def test_functions(measure, workload, column):
    measure(workload, column)
