"""All libraries compute the same numbers: what is compared is the same work."""

import pytest

from benchmarks import agree, libraries
from benchmarks.compiled import CannotCompile
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize(
    ("workload", "library"),
    [
        pytest.param(workload, library, id=f"{workload.name}-{library}")
        for workload in WORKLOADS
        for library in workload.libraries()
        if library != agree.reference(workload)
    ],
)
def test_agree(workload, library):
    for name in (library, agree.reference(workload)):
        if not libraries.is_installed(name):
            pytest.skip(f"{name} is not installed")
    try:
        agree.check(workload, library)
    except CannotCompile as error:
        pytest.skip(str(error))
