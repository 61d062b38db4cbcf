"""Networks: forward and backward of a batch."""

from benchmarks.workloads import NETWORKS as WORKLOADS


def test_networks(measure, workload, column):
    measure(workload, column)
