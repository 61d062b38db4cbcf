"""What all tests share: a header that says which build they run, and the fixtures that need an installed one."""

import os
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import hookgrad
from hookgrad._core.inner_loops import TRACED

# Set by tox, where the package is installed: there, nothing about packaging may be skipped.
MUST_BE_INSTALLED = os.environ.get("HOOKGRAD_TEST_INSTALLED", "0") not in ("", "0")
PACKAGE = Path(hookgrad.__file__).parent


def why_not_installed():
    """None for an installed package; otherwise why it is not one, in words."""
    try:
        distribution = metadata.distribution("hookgrad")
    except metadata.PackageNotFoundError:
        return "no distribution of that name"
    installed = Path(distribution.locate_file("hookgrad"))
    if not installed.is_dir():
        return "it is installed for editing"
    return None if installed.samefile(PACKAGE) else f"the installed one is in {installed}"


def pytest_report_header():
    why_not = why_not_installed()
    return (
        f"hookgrad {hookgrad.__version__}, {'traced' if TRACED else 'untraced'} build in {PACKAGE} "
        f"({'installed' if why_not is None else f'not installed: {why_not}'}), NumPy {np.__version__}"
    )


@pytest.fixture(scope="session")
def traced_build():
    """Whether the build is one for coverage."""
    return TRACED


@pytest.fixture(scope="session")
def installed_package():
    """The folder of the installed package; skips where the tests run on something else."""
    why_not = why_not_installed()
    if why_not is not None:
        message = f"needs an installed hookgrad; the tests run on {PACKAGE}, and {why_not}"
        if MUST_BE_INSTALLED:
            pytest.fail(message)
        pytest.skip(message)
    return PACKAGE
