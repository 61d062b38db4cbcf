"""Single operations and expressions."""

from benchmarks.workloads import ELEMENTWISE

WORKLOADS = ELEMENTWISE


def test_elementwise(measure, workload, column):
    measure(workload, column)
