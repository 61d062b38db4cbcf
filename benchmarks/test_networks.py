"""Networks: forward and backward of a batch."""

from benchmarks.workloads import NETWORKS

WORKLOADS = NETWORKS


def test_networks(measure, workload, column):
    measure(workload, column)
