"""Compile pass_through.pyx when it is first needed, and forget it with the process."""

import contextlib
import functools
import importlib.util
import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import hookgrad

SOURCE = Path(__file__).with_name("pass_through.pyx")


class CannotCompile(Exception):
    """There is no Cython or no C compiler, or hookgrad's declarations are not where the build can see them."""


@functools.cache
def _module():
    try:
        from Cython.Build import cythonize
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext
    except ImportError as error:
        raise CannotCompile(f"a compiled hook needs {error.name} to be installed") from error
    package_parent = str(Path(hookgrad.__file__).parent.parent)
    log = io.StringIO()
    before = sys.path[:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source = shutil.copy(SOURCE, folder)
        # Cython looks for hookgrad's .pxd files along sys.path, where a source folder may come first.
        sys.path.insert(0, package_parent)
        try:
            with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                extension = Extension("pass_through", [source], include_dirs=[np.get_include()])
                extensions = cythonize([extension], compiler_directives={"language_level": 3}, quiet=True)
                command = build_ext(Distribution({"ext_modules": extensions}))
                command.build_lib = command.build_temp = folder
                command.ensure_finalized()
                command.run()
        except Exception as error:
            raise CannotCompile(f"{SOURCE.name} does not compile: {error}\n{log.getvalue()}") from error
        finally:
            sys.path[:] = before
        built = command.get_ext_fullpath("pass_through")
        spec = importlib.util.spec_from_file_location("pass_through", built)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def compiled_hook():
    """A compiled hook that leaves the gradient as it is.

    Raises
    ------
    CannotCompile
        It has to be built first, and cannot be.
    """
    return _module().PassThrough()
