"""One backward with 100 hooks of a kind on a leaf."""

from benchmarks.workloads import HOOKS as WORKLOADS


def test_hook_dispatch(measure, workload, column):
    measure(workload, column)
