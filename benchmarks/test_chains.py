"""Graphs of many small operations."""

from benchmarks.workloads import CHAINS

WORKLOADS = CHAINS


def test_chains(measure, workload, column):
    measure(workload, column)
