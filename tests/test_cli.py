"""The ``hookgrad`` command, run as a user runs it: in a process of its own, from another folder."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import hookgrad as hg

PNG = b"\x89PNG\r\n\x1a\n"
LAYERS = ("convolution", "hidden 1", "hidden 2", "output")


@pytest.fixture
def run(tmp_path):
    """Runs ``python -m hookgrad`` with arguments, in a folder of its own."""

    def run(*args, **environment):
        return subprocess.run(
            [sys.executable, "-m", "hookgrad", *args],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


@pytest.fixture
def demo_extra():
    for package in ("sklearn", "matplotlib", "tqdm", "threadpoolctl"):
        pytest.importorskip(package, reason=f"the demo extra is not installed: {package}")


# The program ----------------------------------------------------------------------------------------------------------


def test_no_command_prints_the_help_and_fails(run):
    done = run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: hookgrad" in done.stderr
    assert "demo" in done.stderr and "info" in done.stderr


@pytest.mark.parametrize(
    "args, words",
    [
        (["--help"], ["usage: hookgrad ", "demo ", "info ", "--version"]),
        (["demo", "--help"], ["usage: hookgrad demo ", "--epochs N", "--seed N", "--out DIR", "40", "hookgrad[demo]"]),
        (["info", "--help"], ["usage: hookgrad info ", "--json", "traced"]),
    ],
)
def test_help(run, args, words):
    done = run(*args)
    assert done.returncode == 0
    assert done.stderr == ""
    for word in words:
        assert word in done.stdout


def test_version(run):
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"hookgrad {hg.__version__}\n")


@pytest.mark.parametrize(
    "args, message",
    [
        (["train"], "invalid choice: 'train'"),
        (["demo", "--epochs", "0"], "argument --epochs: got '0', expected a whole number, 1 or more"),
        (["demo", "--epochs=-3"], "argument --epochs: got '-3', expected a whole number, 1 or more"),
        (["demo", "--epochs", "2.5"], "argument --epochs: got '2.5', expected a whole number, 1 or more"),
        (["demo", "--seed=-1"], "argument --seed: got '-1', expected a whole number, 0 or more"),
        (["demo", "--seed", "x"], "argument --seed: got 'x', expected a whole number, 0 or more"),
        (["demo", "--epoch", "1"], "unrecognized arguments: --epoch"),
        (["demo", "surplus"], "unrecognized arguments: surplus"),
        (["info", "--yaml"], "unrecognized arguments: --yaml"),
    ],
)
def test_wrong_arguments(run, tmp_path, args, message):
    done = run(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_console_script_is_this_program():
    try:
        distribution = metadata.distribution("hookgrad")
    except metadata.PackageNotFoundError:
        pytest.skip("hookgrad is importable here but not installed, so it has no console script")
    (script,) = distribution.entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("hookgrad", "hookgrad.cli:main")


def test_the_library_loads_neither_the_command_nor_what_the_command_loads():
    code = """
import sys
import hookgrad
assert not [name for name in sys.modules if name.startswith("hookgrad.cli")], "hookgrad imports hookgrad.cli"
import hookgrad.cli
heavy = {"sklearn", "matplotlib", "tqdm", "threadpoolctl", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGPIPE convention there")
def test_output_that_nobody_reads_is_no_traceback(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "hookgrad", "info"],
        cwd=tmp_path,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


# hookgrad demo --------------------------------------------------------------------------------------------------------


def accuracy_of(stdout):
    """The percentage that the demo prints, which must agree with the counts beside it."""
    match = re.search(r"^held-out accuracy +([\d.]+)% \((\d+) of (\d+) images\)$", stdout, re.MULTILINE)
    percent, right, n = float(match[1]), int(match[2]), int(match[3])
    assert percent == pytest.approx(100 * right / n, abs=0.005)
    return percent


def rows_of(stdout):
    """The rows of the table of gradient norms: by layer and parameter, four numbers."""
    table = stdout[stdout.index("layer ") :].splitlines()[1:9]
    rows, layer = {}, None
    for line in table:
        layer = line[:13].strip() or layer
        parameter, *numbers = line[13:].replace("%", "").split()
        rows[layer, parameter] = [float(number) for number in numbers]
    return rows


def size_of(png):
    """Width and height from a PNG file's header."""
    assert png[:8] == PNG and png[12:16] == b"IHDR"
    assert png[-8:-4] == b"IEND"
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize("seed", ["0", "7"])
def test_demo_learns_the_digits(run, tmp_path, demo_extra, seed):
    done = run("demo", "--seed", seed)
    assert done.returncode == 0, done.stderr
    assert accuracy_of(done.stdout) >= 97
    assert [path.name for path in tmp_path.iterdir()] == ["hookgrad-demo"]
    assert [path.name for path in (tmp_path / "hookgrad-demo").iterdir()] == ["gradient_flow.png"]


def test_demo_report(run, tmp_path, demo_extra):
    out = tmp_path / "not" / "there" / "yet"
    done = run("demo", "--epochs", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr

    # The progress bar, on stderr and to its end.
    assert "training: 100%" in done.stderr
    assert re.search(r"(\d+)/\1 ", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr

    assert "2 epochs, seed 0" in done.stdout
    assert 50 < accuracy_of(done.stdout) <= 100
    assert re.search(r"^time +\d+\.\d s training, \d+\.\d s in all$", done.stdout, re.MULTILINE)

    rows = rows_of(done.stdout)
    assert list(rows) == [(layer, parameter) for layer in LAYERS for parameter in ("weight", "bias")]
    for first, last, most, clipped in rows.values():
        assert 0 < first <= most and 0 < last <= most
        assert 0 <= clipped <= 100
        assert (most > 1) == (clipped > 0)
    assert rows["hidden 1", "weight"][3] > 50  # the widest layer's gradients start too long, and are clipped

    assert done.stdout.splitlines()[-1].endswith(str(out / "gradient_flow.png"))
    width, height = size_of((out / "gradient_flow.png").read_bytes())
    assert width >= 1200 and height >= 800


def test_demo_of_one_epoch_without_a_display_over_an_old_picture(run, tmp_path, demo_extra):
    (tmp_path / "gradient_flow.png").write_text("old")
    done = run("demo", "--epochs", "1", "--out", ".", MPLBACKEND="TkAgg", DISPLAY="")
    assert done.returncode == 0, done.stderr
    assert "1 epoch, seed 0" in done.stdout
    for first, last, _, _ in rows_of(done.stdout).values():
        assert first == last
    size_of((tmp_path / "gradient_flow.png").read_bytes())


def test_demo_is_decided_by_its_seed(run, tmp_path, demo_extra):
    def outcome(seed, folder):
        done = run("demo", "--epochs", "1", "--seed", seed, "--out", folder)
        assert done.returncode == 0, done.stderr
        picture = (tmp_path / folder / "gradient_flow.png").read_bytes()
        return accuracy_of(done.stdout), rows_of(done.stdout), picture

    first = outcome("3", "a")
    assert outcome("3", "b") == first
    assert outcome("4", "c")[1] != first[1]


def test_demo_out_is_a_file(run, tmp_path, demo_extra):
    (tmp_path / "taken").write_text("mine")
    done = run("demo", "--out", "taken")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "hookgrad demo: error: argument --out: taken is a file, expected a folder\n"
    assert (tmp_path / "taken").read_text() == "mine"


def test_demo_out_is_below_a_file(run, tmp_path, demo_extra):
    (tmp_path / "taken").write_text("mine")
    done = run("demo", "--out", str(Path("taken", "deeper")))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("hookgrad demo: error: argument --out: cannot write to the folder ")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are another matter there")
def test_demo_out_cannot_be_written_to(run, tmp_path, demo_extra):
    if os.geteuid() == 0:
        folder = Path("/proc")  # where not even root can make files
        if not folder.is_dir():
            pytest.skip("root may write anywhere")
    else:
        folder = tmp_path / "closed"
        folder.mkdir(mode=0o500)
    done = run("demo", "--out", str(folder))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"hookgrad demo: error: argument --out: cannot write to the folder {folder}: ")


def test_demo_picture_cannot_be_replaced(run, tmp_path, demo_extra):
    (tmp_path / "gradient_flow.png").mkdir()
    done = run("demo", "--epochs", "1", "--out", ".")
    assert done.returncode == 2
    assert "hookgrad demo: error: cannot write gradient_flow.png: " in done.stderr
    assert "Traceback" not in done.stderr


def run_without(packages, args, folder):
    """The command where some packages cannot be found."""
    code = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
from hookgrad.cli import main
sys.exit(main({args!r}))
"""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "packages, missing",
    [
        (["sklearn"], "scikit-learn is not installed"),
        (["matplotlib"], "matplotlib is not installed"),
        (["tqdm"], "tqdm is not installed"),
        (
            ["sklearn", "matplotlib", "tqdm", "threadpoolctl"],
            "scikit-learn and matplotlib and threadpoolctl and tqdm are not installed",
        ),
    ],
)
def test_demo_without_an_extra(tmp_path, demo_extra, packages, missing):
    done = run_without(packages, ["demo", "--out", "out"], tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f'hookgrad demo: error: {missing}; install what is needed with: pip install "hookgrad[demo]"\n'
    )
    assert list(tmp_path.iterdir()) == []


def test_demo_with_a_broken_extra(tmp_path, demo_extra):
    done = run_without(["scipy"], ["demo"], tmp_path)
    assert done.returncode == 2
    assert "error: scikit-learn (No module named 'scipy') cannot be imported; install " in done.stderr
    assert "not installed" not in done.stderr


def test_other_commands_need_no_extra(tmp_path):
    done = run_without(["sklearn", "matplotlib", "tqdm", "threadpoolctl", "scipy"], ["info", "--json"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["blas"]["threads"] is None


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one process there")
def test_demo_interrupted(tmp_path, demo_extra):
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests themselves run in the background
from hookgrad.cli import main
sys.exit(main(["demo", "--epochs", "100000"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        seen = b""
        while b"step/s" not in seen:  # the bar moves: training is under way
            piece = os.read(process.stderr.fileno(), 1000)
            assert piece, seen
            seen += piece
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert rest.endswith(b"\nhookgrad demo: interrupted\n")
    assert b"Traceback" not in rest
    assert list((tmp_path / "hookgrad-demo").iterdir()) == []


# hookgrad info --------------------------------------------------------------------------------------------------------


@pytest.fixture
def facts(run):
    done = run("info", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_info_versions_and_place(facts):
    assert facts["hookgrad"] == hg.__version__
    assert facts["numpy"] == np.__version__
    assert facts["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert re.fullmatch(r"3\.\d+.*", facts["cython"])
    assert Path(facts["location"]) == Path(hg.__file__).parent
    assert facts["installed_bytes"] > sum(path.stat().st_size for path in Path(hg.__file__).parent.rglob("_core/*.so"))


def test_info_blas_is_numpys(facts):
    build = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    assert facts["blas"]["name"] == build["name"]
    assert facts["blas"]["version"] == build["version"]


def test_info_blas_threads(run):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    if not [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]:
        pytest.skip("threadpoolctl does not know this NumPy's BLAS")
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    assert json.loads(run("info", "--json", **one).stdout)["blas"]["threads"] == 1


def test_info_inner_loops(facts):
    loops = facts["inner_loops"]
    assert loops["add"] == {"float32": "ff->f", "float64": "dd->d"}
    assert loops["exp"] == {"float32": "f->f", "float64": "d->d"}
    assert loops["matmul"] == {"float32": "ff->f", "float64": "dd->d"}
    for name, found in loops.items():
        assert None not in found.values(), name  # the core would not have been imported


def test_info_settings_are_those_of_a_new_process(facts):
    assert facts["gradients"] == {"recording": True, "retain_interior_grads": True, "sort_sum_gradient": False}


def test_info_changes_no_setting(capsys):
    from hookgrad.cli import main

    with hg.autograd.retain_interior_grads(False), hg.autograd.sort_sum_gradient(True), hg.no_grad():
        for _ in range(2):
            assert main(["info", "--json"]) == 0
            gradients = json.loads(capsys.readouterr().out)["gradients"]
            assert gradients == {"recording": False, "retain_interior_grads": False, "sort_sum_gradient": True}


def test_info_traced_is_what_a_trace_function_finds(facts):
    code = """
import sys
import hookgrad as hg

files = set()

def trace(frame, event, arg):
    files.add(frame.f_code.co_filename)
    return trace

x = hg.ones(2)
sys.settrace(trace)
hg.exp(x)
sys.settrace(None)
print(any(name.endswith(".pyx") for name in files))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert str(facts["traced"]) == done.stdout.strip()


def test_info_text_is_aligned_and_says_the_same(run, facts):
    done = run("info")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    column = lines[0].index(facts["hookgrad"])
    said = {line[:column].strip(): line[column:] for line in lines}
    assert all(line[column - 1 : column] in ("", " ") for line in lines)
    assert said["location"] == facts["location"]
    assert said["installed size"] == f"{facts['installed_bytes'] / 1e6:.1f} MB"
    assert said["traced build"].startswith("yes" if facts["traced"] else "no")
    assert said["built by Cython"] == facts["cython"]
    assert said["NumPy"] == facts["numpy"]
    assert said["BLAS"] == f"{facts['blas']['name']} {facts['blas']['version']}"
    assert said["matmul"].split() == ["ff->f", "dd->d"]
    assert set(facts["inner_loops"]) <= set(said)
    assert said["retain interior grads"] == "on"
    assert said["sort sum gradient"] == "off"
