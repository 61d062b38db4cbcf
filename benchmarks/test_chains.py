"""Graphs of many small operations."""

from benchmarks.workloads import CHAINS as WORKLOADS


def test_chains(measure, workload, column):
    measure(workload, column)
