"""The README keeps its word: its Python runs and prints what it says, its commands exist, its links lead somewhere."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

COMMANDS = ['pip install ".[demo]" && hookgrad demo', "pip install tox && tox"]


def blocks():
    """The fenced blocks: (language, line of the README, text)."""
    text = README.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield match[1], text.count("\n", 0, match.start()) + 2, match[2]


def python_blocks():
    """Each Python block with the output block that must follow it."""
    found = list(blocks())
    for (language, line, code), following in zip(found, [*found[1:], ("", 0, "")], strict=True):
        if language == "python":
            output = following[2] if following[0] == "text" else None
            yield pytest.param(code, line, output, id=f"line{line}")


def hookgrad_commands():
    """The `hookgrad ...` commands of the shell blocks and of the text, as lists of arguments."""
    shell = [text for language, _, text in blocks() if language == "bash"]
    text = re.sub(r"^```.*?^```$", "", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [part.strip() for block in shell for line in block.splitlines() for part in line.split("&&")]
    lines += re.findall(r"`(hookgrad [^`]+)`", text)
    return sorted({tuple(shlex.split(line)[1:]) for line in lines if line.startswith("hookgrad ")})


def test_all_blocks_are_of_a_kind_that_is_tested():
    languages = [language for language, _, _ in blocks()]
    assert set(languages) == {"python", "text", "bash"}
    assert languages.count("python") >= 2


@pytest.mark.parametrize(("code", "line", "output"), list(python_blocks()))
def test_python_block_prints_the_block_after_it(code, line, output):
    assert output is not None, f"the Python block in line {line} is not followed by a text block with its output"
    printed = io.StringIO()
    # The lines of the block keep their numbers, so that a traceback points into the README.
    compiled = compile("\n" * (line - 1) + code, str(README), "exec")
    with contextlib.redirect_stdout(printed):
        exec(compiled, {"__name__": "__main__"})
    assert printed.getvalue() == output


def test_the_two_commands_are_there():
    shell = [text.strip() for language, _, text in blocks() if language == "bash"]
    assert [command for command in COMMANDS if command not in shell] == []


@pytest.mark.parametrize("arguments", hookgrad_commands(), ids=" ".join)
def test_hookgrad_commands_exist(arguments, installed_package):
    program = Path(sys.executable).parent / ("hookgrad.exe" if os.name == "nt" else "hookgrad")
    process = subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert f"hookgrad {arguments[0]}" in process.stdout


def test_links_and_files_exist():
    text = README.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    core = ROOT / "hookgrad" / "_core"
    files = re.findall(r"`([\w./]+\.(?:pyx|pxd|py|md|toml|ini))`", text)
    assert [target for target in links if not (ROOT / target.partition("#")[0]).exists()] == []
    assert [name for name in files if not ((ROOT / name).exists() or (core / name).exists())] == []
    assert links
    assert files


def test_the_page_of_operations_names_every_public_function():
    import hookgrad as hg

    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    public = {name for name in hg.__all__ if callable(getattr(hg, name)) and not isinstance(getattr(hg, name), type)}
    public |= set(hg.nn.functional.__all__) | set(hg.autograd.__all__)
    assert public - named == set()
