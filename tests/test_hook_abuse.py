"""What must not crash: hooks that do anything at all, and cycles that are taken apart in any order.

The scripts run with Python's debugging allocator, which overwrites freed memory.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts")


def survives(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPTS / script, *arguments],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr[-3000:]


@pytest.mark.parametrize("first", [0, 100])
def test_random_programs_whose_hooks_do_anything(first):
    survives("abuse.py", str(first), "100")


def test_cycles_collected_in_any_order():
    survives("collected_cycles.py")
