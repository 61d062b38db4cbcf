"""What is installed: its files, its size, its version, and its C-level face."""

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib import machinery, metadata
from pathlib import Path

import numpy as np
import pytest

import hookgrad as hg

MEGABYTE = 1_000_000


def run(arguments, folder):
    """A Python process in a folder, with nothing inherited that would change where it imports from."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_extension_is_installed_with_its_pyx_and_pxd(installed_package):
    def names(suffix):
        """The files that end so, without the suffix and relative to the package."""
        found = installed_package.rglob(f"*{suffix}")
        return {path.relative_to(installed_package).as_posix().removesuffix(suffix) for path in found}

    built, pyx, pxd = names(machinery.EXTENSION_SUFFIXES[0]), names(".pyx"), names(".pxd")
    assert built == pyx
    assert {"_core/variable", "_core/hooks", "_core/engine", "_core/accumulator", "_core/grad_node"} <= built
    # `functions` is called from Python alone; whatever else is compiled can be cimported.
    assert built - pxd <= {"_core/functions"}
    folders = {Path(name).parent for name in pxd}
    assert {folder / "__init__" for folder in folders} <= {Path(name) for name in pxd}
    assert all((installed_package / folder / "__init__.py").is_file() for folder in folders)
    assert (installed_package / "py.typed").is_file()


def test_nothing_generated_is_installed_but_the_extensions(installed_package, traced_build):
    if traced_build:
        pytest.skip("a traced build carries its C files, for coverage")
    kinds = {path.suffix for path in installed_package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert kinds == {".py", ".pyx", ".pxd", ".typed", Path(machinery.EXTENSION_SUFFIXES[0]).suffix}


def test_the_distribution_holds_the_package_and_nothing_else(installed_package):
    tops = {path.parts[0] for path in metadata.files("hookgrad") if path.parts[0] != ".."}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hookgrad"}


def test_installed_size(installed_package, traced_build):
    if traced_build:
        pytest.skip("a traced build is several times as large")
    files = [path for path in installed_package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    size = sum(path.stat().st_size for path in files)
    assert size < 6 * MEGABYTE, f"{size / MEGABYTE:.2f} MB in {len(files)} files"


# Metadata -------------------------------------------------------------------------------------------------------------


def test_version_is_the_distribution_s(installed_package):
    assert hg.__version__ == metadata.version("hookgrad")


def test_numpy_is_the_only_requirement(installed_package):
    requirements = metadata.requires("hookgrad")
    assert [text for text in requirements if "extra ==" not in text] == ["numpy>=2.0"]
    assert set(metadata.metadata("hookgrad").get_all("Provides-Extra")) == {"demo", "test", "bench"}


def test_console_script(installed_package):
    (script,) = metadata.entry_points(group="console_scripts", name="hookgrad")
    assert script.value == "hookgrad.cli:main"
    assert callable(script.load())


# The source folder without its extensions -----------------------------------------------------------------------------


@pytest.fixture
def bare_source(tmp_path):
    """A copy of the package without what the build makes: the source folder of a fresh checkout."""
    shutil.copytree(
        Path(hg.__file__).parent, tmp_path / "hookgrad", ignore=shutil.ignore_patterns("*.so", "*.pyd", "*.c", "*.pyc")
    )
    return tmp_path


@pytest.mark.parametrize("arguments", [["-c", "import hookgrad"], ["-m", "hookgrad", "info"]])
def test_source_folder_says_why_it_cannot_be_imported_and_what_to_do(bare_source, arguments):
    process = run(arguments, bare_source)
    assert process.returncode != 0
    assert process.stdout == ""
    last = process.stderr.strip().splitlines()[-1]
    assert str(bare_source / "hookgrad") in last
    assert "change to another directory" in last
    assert "pip install" in last


# The C-level face -----------------------------------------------------------------------------------------------------

EXAMPLE = '''
cimport numpy as cnp

from hookgrad cimport InplaceVariableWrapperHook, VariableWrapper, VariableWrapperHook

cnp.import_array()


cdef class Reverse(VariableWrapperHook):
    """Gives the gradient times -scale."""
    cdef double scale
    cdef readonly int calls

    def __init__(self, double scale):
        self.scale = scale

    cdef VariableWrapper call(self, VariableWrapper grad):
        self.calls += 1
        return grad * -self.scale


cdef class Watch(VariableWrapperHook):
    """Leaves the gradient as it is, and remembers its shape."""
    cdef readonly tuple shape

    cdef VariableWrapper call(self, VariableWrapper grad):
        self.shape = grad.shape
        return None


cdef class ClipValue(InplaceVariableWrapperHook):
    """Clips the accumulated gradient to [-bound, bound], in its own memory."""
    cdef float bound

    def __init__(self, float bound):
        self.bound = bound

    cdef int call(self, VariableWrapper grad) except -1:
        cdef cnp.ndarray array = grad.data
        cdef float *values = <float *> cnp.PyArray_DATA(array)
        cdef Py_ssize_t k
        if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT:
            raise TypeError(f"ClipValue: got dtype {grad.dtype}, expected float32")
        for k in range(cnp.PyArray_SIZE(array)):
            values[k] = min(max(values[k], -self.bound), self.bound)
        return 0


cdef class Failing(VariableWrapperHook):
    cdef VariableWrapper call(self, VariableWrapper grad):
        raise ArithmeticError("from a compiled hook")


class NotOverridden(VariableWrapperHook):
    pass
'''

SETUP = """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

extension = Extension("hook_example", ["hook_example.pyx"], include_dirs=[numpy.get_include()])
setup(name="hook_example", ext_modules=cythonize([extension], language_level=3))
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A module outside the package, compiled against the .pxd files that the package ships."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("hook_example")
    (folder / "hook_example.pyx").write_text(EXAMPLE)
    (folder / "setup.py").write_text(SETUP)
    # Where hookgrad is imported from is also where its .pxd files are looked for.
    environment = dict(os.environ, PYTHONPATH=str(Path(hg.__file__).parent.parent))
    process = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (built,) = folder.glob("hook_example*" + machinery.EXTENSION_SUFFIXES[0])
    spec = importlib.util.spec_from_file_location("hook_example", built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_compiled_hook_on_a_leaf(example):
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    hook = example.Reverse(0.5)
    handle = x.register_hook(hook)
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([-1, -2, -3]))
    assert hook.calls == 1
    assert handle.remove() is True
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([1, 2, 3]))
    assert hook.calls == 1


def test_compiled_and_python_hooks_run_in_the_order_of_registration(example):
    x = hg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    seen = []
    watch = example.Watch()
    y.register_hook(lambda grad: grad + 1)
    y.register_hook(example.Reverse(10))
    y.register_hook(watch)
    y.register_hook(lambda grad: seen.append(grad.numpy().copy()))
    y.sum().backward()
    np.testing.assert_array_equal(seen, [np.float32([-20, -20])])
    np.testing.assert_array_equal(y.grad.numpy(), np.float32([1, 1]))
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([-60, -60]))
    assert watch.shape == (2,)


def test_compiled_inplace_hook_changes_the_accumulated_gradient(example):
    x = hg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x.register_inplace_hook(example.ClipValue(5))
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([2, 4, 5]))
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([4, 5, 5]))


def test_compiled_hook_is_differentiated_through(example):
    x = hg.tensor([2.0], requires_grad=True)
    s = x * x
    handle = s.register_hook(example.Reverse(3))
    (first,) = hg.grad((s * s).sum(), x, create_graph=True)  # the hook makes it -3 * 2 s * 2 x = -12 s x
    np.testing.assert_allclose(first.numpy(), [-96.0])
    (second,) = hg.grad(first.sum(), x, retain_graph=True)  # -12 s, and -12 x * 2 x through s, whose hook runs again
    np.testing.assert_allclose(second.numpy(), [-48.0 + -3 * -96.0])
    handle.remove()
    (second,) = hg.grad(first.sum(), x)  # what the hook did is in the graph; the hook itself runs no more
    np.testing.assert_allclose(second.numpy(), [-48.0 + -96.0])


def test_error_of_a_compiled_hook_keeps_its_type_and_names_the_hook(example):
    x = hg.tensor([1.0], requires_grad=True, name="weights")
    x.register_hook(example.Failing())
    x.register_inplace_hook(example.ClipValue(1))
    with pytest.raises(ArithmeticError, match="from a compiled hook") as caught:
        (x * 2).sum().backward()
    (note,) = caught.value.__notes__
    assert "Failing" in note
    assert "weights" in note
    assert x.grad is None


def test_abstract_hook_says_what_to_override(example):
    x = hg.tensor([1.0], requires_grad=True)
    x.register_hook(example.NotOverridden())
    with pytest.raises(NotImplementedError, match=r"NotOverridden does not override `cdef VariableWrapper call"):
        (x * 2).sum().backward()


def test_hook_classes_are_not_interchangeable(example):
    x = hg.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match="register_hook: got ClipValue"):
        x.register_hook(example.ClipValue(1))
    with pytest.raises(TypeError, match="register_inplace_hook: got Reverse"):
        x.register_inplace_hook(example.Reverse(1))
