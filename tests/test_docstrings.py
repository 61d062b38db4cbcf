"""The examples in the docstrings run and print what they say, those of the compiled modules too.

doctest's own finder passes over compiled functions, methods and properties, so the objects are collected here.
"""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import hookgrad as hg

FEWEST_DOCSTRINGS = 60

IMPORT = ">>> import hookgrad as hg"
PACKAGE = Path(hg.__file__).parent
PARSER = doctest.DocTestParser()


def modules():
    """The package and all its modules, private ones too: what they define is public under other names.

    The command line is no part of the library: it has no examples, and parts of it need the demo extra.
    """
    yield hg
    for found in pkgutil.walk_packages(hg.__path__, "hookgrad."):
        if not found.name.startswith(("hookgrad.cli", "hookgrad.__main__")):
            yield importlib.import_module(found.name)


def members(owner, name):
    """Each object below a module or class that has a docstring of its own: (qualified name, object)."""
    for key, value in sorted(vars(owner).items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        is_class = inspect.isclass(value)
        described = is_class or callable(value) or inspect.isdatadescriptor(value)
        if not described or key.startswith("__"):
            continue
        # What a module merely imports belongs to another.
        if inspect.ismodule(owner) and getattr(value, "__module__", None) != owner.__name__:
            continue
        yield f"{name}.{key}", value
        if is_class:
            yield from members(value, f"{name}.{key}")


def examples():
    """The docstrings that have examples, each once: {qualified name: DocTest}."""
    found, seen = {}, set()
    for module in modules():
        for name, value in [(module.__name__, module), *members(module, module.__name__)]:
            doc = getattr(value, "__doc__", None)
            if not isinstance(doc, str) or doc in seen:  # a function bound as a method is one docstring
                continue
            test = PARSER.get_doctest(doc, {"__name__": "__main__"}, name, getattr(module, "__file__", None), None)
            if test.examples:
                seen.add(doc)
                found[name] = test
    return found


EXAMPLES = examples()


def test_the_examples_are_found():
    assert len(EXAMPLES) >= FEWEST_DOCSTRINGS
    # One of each kind: module, compiled function and method, Python function, class, method.
    expected = {
        "hookgrad",
        "hookgrad._core.functions.matmul",
        "hookgrad._core.variable.VariableWrapper.numpy",
        "hookgrad.creation.tensor",
        "hookgrad._tensor.Tensor",
        "hookgrad._tensor.Tensor.backward",
    }
    assert expected - EXAMPLES.keys() == set()


def test_no_example_is_overlooked():
    # Each example starts with the import; the sources are shipped beside what is made of them.
    written = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8").count(IMPORT)
        for path in PACKAGE.rglob("*.py*")
        if path.suffix in (".py", ".pyx")
    }
    found = sum(test.docstring.count(IMPORT) for test in EXAMPLES.values())
    assert found == sum(written.values()), {path: count for path, count in written.items() if count}


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring(name):
    out = []
    test = EXAMPLES[name]
    result = doctest.DocTestRunner(verbose=False).run(test, out=out.append, clear_globs=False)
    assert result.attempted == len(test.examples)
    assert result.failed == 0, "".join(out)
