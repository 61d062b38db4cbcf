"""One backward with 100 hooks of a kind on a leaf."""

from benchmarks.workloads import HOOKS

WORKLOADS = HOOKS


def test_hook_dispatch(measure, workload, column):
    measure(workload, column)
