"""``hookgrad info``: what runs here, and how it was built."""

import json
import platform
import re
from pathlib import Path

import numpy as np

import hookgrad
from hookgrad._core import inner_loops
from hookgrad._core.engine import settings

PACKAGE = Path(hookgrad.__file__).parent
LOOP_TYPES = {"float32": "f", "float64": "d"}


def run(as_json):
    """Print what `collect` finds, as text or as JSON."""
    facts = collect()
    print(json.dumps(facts, indent=2) if as_json else as_text(facts))


def collect():
    """Everything that ``hookgrad info`` prints.

    Returns
    -------
    dict
        Of what JSON can hold; None where something cannot be found out.
    """
    return {
        "hookgrad": hookgrad.__version__,
        "location": str(PACKAGE),
        "installed_bytes": sum(path.stat().st_size for path in PACKAGE.rglob("*") if path.is_file()),
        "traced": inner_loops.TRACED,
        "cython": cython_version(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu_extensions": numpy_config().get("SIMD Extensions", {}).get("found", []),
        "blas": blas(),
        "inner_loops": {loop.name: signatures(loop.ufunc) for loop in inner_loops.ALL},
        "gradients": {
            "recording": hookgrad.is_grad_enabled(),
            **settings(),
        },
    }


def numpy_config():
    return np.show_config(mode="dicts")


def cython_version():
    """The Cython that compiled the core: its functions' type is in a module named after the version."""
    match = re.fullmatch(r"_cython_(\d+(?:_\w+)*)", type(hookgrad.exp).__module__)
    return match[1].replace("_", ".") if match else None


def blas():
    """NumPy's BLAS, as NumPy was built with it, and the threads that it uses."""
    build = numpy_config().get("Build Dependencies", {}).get("blas", {})
    most = re.search(r"MAX_THREADS=(\d+)", build.get("openblas configuration", ""))
    return {
        "name": build.get("name"),
        "version": build.get("version"),
        "threads": blas_threads(),
        "max_threads": int(most[1]) if most else None,
    }


def blas_threads():
    """How many threads the BLAS of this process uses; only threadpoolctl can tell."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return None
    return next((library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"), None)


def signatures(ufunc):
    """By dtype, the types of a ufunc's inner loop for it (``ff->f``); None where it has none."""
    found = {}
    for dtype, letter in LOOP_TYPES.items():
        signature = f"{letter * ufunc.nin}->{letter * ufunc.nout}"
        found[dtype] = signature if signature in ufunc.types else None
    return found


def as_text(facts):
    """The facts in aligned lines."""
    blas = facts["blas"]
    if blas["threads"] is not None:
        threads = f"{blas['threads']} {'thread' if blas['threads'] == 1 else 'threads'}"
    else:
        threads = "threads unknown (threadpoolctl, if installed, can tell)"
    if blas["max_threads"] is not None:
        threads += f", at most {blas['max_threads']} by its build"
    traced = {True: "yes (for coverage; slow, not for measurements)", False: "no", None: "unknown"}[facts["traced"]]
    rows = [
        ("hookgrad", facts["hookgrad"]),
        ("location", facts["location"]),
        ("installed size", f"{facts['installed_bytes'] / 1e6:.1f} MB"),
        ("traced build", traced),
        ("built by Cython", facts["cython"] or "unknown"),
        ("Python", facts["python"]),
        ("NumPy", facts["numpy"]),
        ("platform", facts["platform"]),
        ("CPU extensions", " ".join(facts["cpu_extensions"]) or "none beyond the baseline"),
        ("BLAS", f"{blas['name'] or 'unknown'} {blas['version'] or ''}".rstrip()),
        ("", threads),
    ]
    lines = [f"{label:<26}{value}" for label, value in rows]
    lines += ["", f"{'inner loops of NumPy':<26}{'float32':<11}float64"]
    for name, found in facts["inner_loops"].items():
        lines.append(f"  {name:<24}{found['float32'] or 'none':<11}{found['float64'] or 'none'}")
    lines += ["", "gradient settings"]
    for name, value in facts["gradients"].items():
        lines.append(f"  {name.replace('_', ' '):<24}{'on' if value else 'off'}")
    return "\n".join(lines)
