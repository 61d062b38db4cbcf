"""Benchmarks of hookgrad beside NumPy by hand and its peers: the same work, the same process, ratios.

``python -m benchmarks.table`` prints the ratios; ``pytest benchmarks`` is the same workloads under pytest-benchmark.
See docs/benchmarks.md.

Layout: `workloads` says what is computed, once a library; `libraries` which columns there are; `probes` what is not a
time of a function (memory, import, size); the ``test_*.py`` files and `table` measure.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _import_hookgrad():
    """Import the hookgrad that is built: in place where it was built there, else the installed one.

    Under ``python -m`` the root of the source tree comes first on `sys.path`, where the plain ``hookgrad/`` folder
    shadows the installed package.
    """
    core = ROOT / "hookgrad" / "_core"
    if any((core / f"engine{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        import hookgrad
    else:
        before = sys.path[:]
        sys.path[:] = [entry for entry in before if Path(entry or ".").resolve() != ROOT]
        try:
            import hookgrad  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name != "hookgrad":
                raise
            raise ImportError("hookgrad is neither installed nor built in place: run `pip install .` first") from None
        finally:
            sys.path[:] = before


_import_hookgrad()
