"""Under pytest: each workload in each column is a benchmark, grouped by workload."""

import pytest

from benchmarks import libraries
from benchmarks.compiled import CannotCompile
from hookgrad._core.inner_loops import TRACED


def pytest_configure(config):
    # The peers warn about themselves when they are imported.
    config.addinivalue_line("filterwarnings", "default")


def pytest_report_header(config):
    warning = libraries.blas_warning()
    return [f"warning: {warning}"] if warning else []


@pytest.fixture(scope="session", autouse=True)
def untraced_build():
    """A traced build would make every figure wrong."""
    assert not TRACED, "hookgrad was built with HOOKGRAD_TRACE=1; build it without to measure it"


def pytest_generate_tests(metafunc):
    """``WORKLOADS`` of a test file, in each of their columns."""
    if {"workload", "column"} <= set(metafunc.fixturenames):
        metafunc.parametrize(
            ("workload", "column"),
            [
                pytest.param(workload, column, id=f"{workload.name}-{column.key}")
                for workload in metafunc.module.WORKLOADS
                for column in workload.columns()
            ],
        )


@pytest.fixture
def measure(benchmark):
    """Measure a workload in a column; skip it, visibly, where the library is not installed."""

    def measure(workload, column):
        if not libraries.is_installed(column.library):
            pytest.skip(f"{column.library} is not installed")
        pytest.importorskip("threadpoolctl")
        benchmark.group = workload.title
        benchmark.extra_info.update(
            workload=workload.name, column=column.key, operations=workload.operations, operation=workload.operation
        )
        libraries.import_all([column.library])
        libraries.use_threads(column.threads)
        try:
            run = workload.prepare(column.library)
        except CannotCompile as error:
            pytest.skip(str(error))
        benchmark(run)

    return measure
