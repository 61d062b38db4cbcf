"""Builds the compiled core; everything else is declared in pyproject.toml.

One switch: ``HOOKGRAD_TRACE=1`` builds with Cython's line tracing, so that coverage sees the ``.pyx`` files. Such a
build is slow and says so in ``hookgrad info``.
"""

import os
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

TRACE = os.environ.get("HOOKGRAD_TRACE", "0") not in ("", "0")
CORE = Path("hookgrad", "_core")

# The one block of directives, the same for every file of the core.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "auto_pickle": False,
    "autotestdict": False,
    "embedsignature": True,
    "embedsignature.format": "python",
    "always_allow_keywords": True,
    "linetrace": TRACE,
}

MACROS = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")]
if TRACE:
    MACROS += [("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]

if sys.platform == "win32":
    COMPILE, LINK = ["/O2"], []
else:
    # No debug information and no symbol table: they are most of a Cython module's size.
    # Newer compilers refuse incompatible pointers, so older ones do too.
    COMPILE = ["-O3", "-g0", "-fno-math-errno", "-fvisibility=hidden", "-Wno-unused-function"]
    COMPILE += ["-Werror=incompatible-pointer-types"]
    LINK = ["-Wl,-s"] if sys.platform.startswith("linux") else []


class BuildInParallel(build_ext):
    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()


extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [path.as_posix()],
        include_dirs=[numpy.get_include()],
        define_macros=MACROS,
        extra_compile_args=COMPILE,
        extra_link_args=LINK,
    )
    for path in sorted(CORE.rglob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        # Coverage needs the .c beside its module; otherwise it goes to the build folder.
        build_dir=None if TRACE else "build/cython",
        nthreads=os.cpu_count() or 1,
    ),
    cmdclass={"build_ext": BuildInParallel},
    # Apart, so that no later build takes traced modules for its own.
    options={"build": {"build_base": "build/traced"}} if TRACE else {},
)
