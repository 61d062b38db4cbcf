"""Single operations and expressions."""

from benchmarks.workloads import ELEMENTWISE as WORKLOADS


def test_elementwise(measure, workload, column):
    measure(workload, column)
