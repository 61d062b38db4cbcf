"""Thousands of steps leave the process as it was; each case in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("scripts") / "leaks.py"

CASES = [
    "training step",
    "failing hooks",
    "registration",
    "double backward",
    "grad",
    "nested backward",
    "sorted sums",
    "in-place hooks",
    "wrong arguments",
    "threads",
]


@pytest.mark.parametrize("case", CASES)
def test_no_growth(case):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPT, case], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.endswith("no growth\n"), done.stdout
