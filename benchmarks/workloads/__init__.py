"""What is measured: each workload once a library, with the same data and the same result."""

from benchmarks.workloads.base import Goal, Workload
from benchmarks.workloads.chains import CHAINS
from benchmarks.workloads.elementwise import ELEMENTWISE
from benchmarks.workloads.functions import FUNCTIONS
from benchmarks.workloads.hook_dispatch import HOOKS
from benchmarks.workloads.networks import NETWORKS

WORKLOADS = (*ELEMENTWISE, *CHAINS, *NETWORKS, *FUNCTIONS, *HOOKS)

__all__ = ["CHAINS", "ELEMENTWISE", "FUNCTIONS", "HOOKS", "NETWORKS", "WORKLOADS", "Goal", "Workload"]
