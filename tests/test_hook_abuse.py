"""Random programs whose hooks register, remove, drop, collect, fail and run backwards of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("scripts") / "abuse.py"


@pytest.mark.parametrize("first", [0, 100])
def test_whatever_hooks_do(first):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPT, str(first), "100"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr[-3000:]
