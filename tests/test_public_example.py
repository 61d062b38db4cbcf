"""The public example of the hook design runs unchanged but for its import line."""

import contextlib
import io
import subprocess
import sys

import pytest

EXAMPLE = """\
from __future__ import print_function

import paddle

# hook function return None
def print_hook_fn(grad):
    print(grad)

# hook function return Tensor
def double_hook_fn(grad):
    grad = grad * 2
    return grad

x = paddle.to_tensor([0., 1., 2., 3.], stop_gradient=False)
y = paddle.to_tensor([4., 5., 6., 7.], stop_gradient=False)
z = paddle.to_tensor([1., 2., 3., 4.])

# one Tensor can register multiple hooks
h = x.register_hook(print_hook_fn)
x.register_hook(double_hook_fn)

w = x + y
# register hook by lambda function
w.register_hook(lambda grad: grad * 2)

o = z.matmul(w)
o.backward()
# print_hook_fn print content in backward
# Tensor(shape=[4], dtype=float32, place=CUDAPlace(0), stop_gradient=False,
#        [2., 4., 6., 8.])

print("w.grad:", w.grad) # w.grad: [1. 2. 3. 4.] - no changed
print("x.grad:", x.grad) # x.grad: [ 4.  8. 12. 16.] - deal with by two *2 hook
print("y.grad:", y.grad) # y.grad: [2. 4. 6. 8.] - - deal with by one *2 hook

# remove hook
h.remove()
""".replace("import paddle\n", "import hookgrad as paddle\n", 1)

OUTPUT = """\
[2. 4. 6. 8.]
w.grad: [1. 2. 3. 4.]
x.grad: [ 4.  8. 12. 16.]
y.grad: [2. 4. 6. 8.]
"""


@pytest.fixture
def after_example():
    """The example's names, and what it printed."""
    names = {"__name__": "example"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(EXAMPLE, "public_example.py", "exec"), names)
    return names, printed.getvalue()


def test_only_the_import_line_differs():
    assert [line for line in EXAMPLE.splitlines() if "import" in line and "print_function" not in line] == [
        "import hookgrad as paddle"
    ]


def test_output(after_example):
    assert after_example[1] == OUTPUT


def test_output_as_a_program():
    done = subprocess.run([sys.executable, "-c", EXAMPLE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUT, "")


def test_values(after_example):
    names, _ = after_example
    assert names["o"].item() == 1 * 4 + 2 * 6 + 3 * 8 + 4 * 10
    assert names["w"].grad.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert names["x"].grad.tolist() == [4.0, 8.0, 12.0, 16.0]
    assert names["y"].grad.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert names["z"].grad is None
    assert [names[name].stop_gradient for name in "xyzw"] == [False, False, True, False]


def test_the_hook_is_removed(after_example, capsys):
    names, _ = after_example
    x, z = names["x"], names["z"]
    assert names["h"].remove() is False  # the example removed it
    x.clear_grad()
    z.matmul(x + names["y"]).backward()
    assert capsys.readouterr().out == ""
    assert x.grad.tolist() == [2.0, 4.0, 6.0, 8.0]  # the doubling hook is still there
