"""The classes of the compiled core: what is abstract, what calls Python, and what calls C."""

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import hookgrad as hg
from hookgrad._core.accumulator import EagerGradientAccumulator, GradientAccumulator, SortedGradientAccumulator
from hookgrad._core.engine import BasicEngine, PartialGradEngine
from hookgrad._core.hooks import (
    InplaceVariableWrapperHook,
    LambdaInplaceVariableWrapperHook,
    PyInplaceVariableWrapperHook,
    PyVariableWrapperHook,
    VariableWrapperHook,
)
from hookgrad._core.variable import VariableWrapper

SCRIPTS = Path(__file__).with_name("scripts")
C_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_void_p)


def leaf(values, dtype=np.float32, **words):
    return hg.tensor(np.array(values, dtype), requires_grad=True, **words)


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def values_at(pointer, size, itemsize):
    """The memory that a C hook is given, as an ndarray."""
    kind = {4: ctypes.c_float, 8: ctypes.c_double}[itemsize]
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(kind)), (size,))


@C_HOOK
def double_in_c(values, size, itemsize, user_data):
    if size:
        values_at(values, size, itemsize)[:] *= 2
    return 0


# The classes ----------------------------------------------------------------------------------------------------------


def test_the_classes_of_the_design():
    assert issubclass(hg.Tensor, VariableWrapper)
    assert issubclass(PyVariableWrapperHook, VariableWrapperHook)
    assert issubclass(PyInplaceVariableWrapperHook, InplaceVariableWrapperHook)
    assert issubclass(LambdaInplaceVariableWrapperHook, InplaceVariableWrapperHook)
    assert not issubclass(InplaceVariableWrapperHook, VariableWrapperHook)
    assert issubclass(EagerGradientAccumulator, GradientAccumulator)
    assert issubclass(SortedGradientAccumulator, GradientAccumulator)
    assert BasicEngine is not PartialGradEngine


def test_a_tensor_is_a_thin_subclass():
    assert hg.Tensor.__slots__ == ()
    with pytest.raises(AttributeError):
        leaf(1.0).anything = 1


@pytest.mark.parametrize("arguments", [(), ([1.0, 2.0],), (np.ones(2),)], ids=["none", "list", "array"])
def test_a_tensor_is_not_made_by_calling_the_class(arguments):
    with pytest.raises(TypeError, match=r"hookgrad\.tensor|hg\.tensor|tensor\("):
        hg.Tensor(*arguments)


@pytest.mark.parametrize("base", [VariableWrapperHook, InplaceVariableWrapperHook])
@pytest.mark.parametrize("create_graph", [False, True])
def test_abstract_hooks_say_what_to_override(base, create_graph):
    class Incomplete(base):
        def call(self, grad):  # overriding takes Cython: this is another `call`
            return grad * 2

    x = leaf([1.0, 2.0])
    for hook in (base(), Incomplete()):
        register = x.register_hook if base is VariableWrapperHook else x.register_inplace_hook
        with register(hook), pytest.raises(NotImplementedError, match=r"cdef .*call\(self") as caught:
            (x * x).sum().backward(create_graph=create_graph)
        assert type(hook).__name__ in str(caught.value)
        assert "hook 1 of 1" in caught.value.__notes__[0]
    if base is VariableWrapperHook:
        assert x.grad is None


def test_each_kind_takes_its_own_classes_alone():
    x = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="InplaceVariableWrapperHook"):
        x.register_inplace_hook(VariableWrapperHook())
    with pytest.raises(TypeError, match="VariableWrapperHook"):
        x.register_hook(InplaceVariableWrapperHook())
    with pytest.raises(TypeError, match="callable"):
        x.register_post_accumulate_grad_hook(InplaceVariableWrapperHook())


@pytest.mark.parametrize("cls", [PyVariableWrapperHook, PyInplaceVariableWrapperHook])
def test_python_hooks_wrap_a_callable(cls):
    assert cls(abs).function is abs
    with pytest.raises(TypeError, match=rf"{cls.__name__}.*int.*callable"):
        cls(3)
    with pytest.raises(TypeError):
        cls()


def test_python_hook_objects_can_be_registered():
    x, y = leaf(1.0), leaf(1.0)
    hook = PyVariableWrapperHook(lambda g: g * 3)
    x.register_hook(hook)
    x.register_hook(hook)
    y.register_hook(hook)

    def add_one(grad):
        grad += 1

    inplace = PyInplaceVariableWrapperHook(add_one)
    x.register_inplace_hook(inplace)
    (x + y).backward()
    assert x.grad.item() == 10.0
    assert y.grad.item() == 3.0


def test_the_note_names_the_function_of_a_hook_object():
    x = leaf(1.0)

    def named(grad):
        raise KeyError

    x.register_hook(PyVariableWrapperHook(named))
    with pytest.raises(KeyError) as caught:
        x.backward()
    assert "named" in caught.value.__notes__[0]


# A C function on the accumulated gradient -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (5, 1, 2)])
def test_a_c_function_changes_the_accumulated_gradient(shape, dtype):
    x = hg.ones(shape, dtype=dtype, requires_grad=True)
    calls = []

    @C_HOOK
    def scale(values, size, itemsize, user_data):
        calls.append((size, itemsize, user_data))
        if size:
            values_at(values, size, itemsize)[:] *= 2
        return 0

    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(scale)))
    (x * 3).sum().backward()
    (x * 5).sum().backward()
    assert calls == [(int(np.prod(shape)), np.dtype(dtype).itemsize, None)] * 2
    np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, (3 * 2 + 5) * 2, dtype))
    assert x.grad.dtype == dtype


def test_the_values_are_in_c_order():
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    seen = []

    @C_HOOK
    def look(values, size, itemsize, user_data):
        seen.extend(values_at(values, size, itemsize).tolist())
        return 0

    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(look)))
    (x * x).T.sum().backward()
    assert seen == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


@pytest.mark.parametrize("layout", ["transposed", "strided", "backwards"])
def test_a_grad_of_another_layout(layout):
    """The function gets contiguous memory, and what lies around the gradient is not touched."""
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    around = np.full((4, 8), 10, np.float32)
    view = {"transposed": around[:2, :2].T, "strided": around[::2, ::4], "backwards": around[1::-1, 5:3:-1]}[layout]
    x.grad = hg.from_numpy(view)
    before = around.copy()
    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(double_in_c), keep_alive=double_in_c))
    (x * x).sum().backward()
    assert x.grad.tolist() == [[24.0, 28.0], [32.0, 36.0]]
    mine = np.zeros((4, 8), bool)
    {"transposed": mine[:2, :2].T, "strided": mine[::2, ::4], "backwards": mine[1::-1, 5:3:-1]}[layout][...] = True
    np.testing.assert_array_equal(around[~mine], before[~mine])


@pytest.mark.parametrize("grad", ["read-only", "broadcast"])
def test_a_grad_that_must_not_be_written(grad):
    x = leaf([1.0, 2.0])
    array = np.array([1.0, 1.0], np.float32)
    array.flags.writeable = False
    if grad == "broadcast":
        array = np.broadcast_to(np.float32(1), (2,))

    def set_grad(t):
        t.grad = hg.from_numpy(array)

    x.register_post_accumulate_grad_hook(set_grad)
    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(double_in_c)))
    x.sum().backward()
    assert array.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]


def test_the_function_gets_memory_that_no_other_tensor_shares():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(double_in_c)))
    s = x + y
    v = hg.tensor([10.0, 20.0])
    s.backward(v)
    assert x.grad.tolist() == [20.0, 40.0]
    assert y.grad.tolist() == [10.0, 20.0]
    assert s.grad.tolist() == [10.0, 20.0]
    assert v.tolist() == [10.0, 20.0]


def test_user_data():
    x = leaf([1.0, -2.0])
    factor = ctypes.c_double(7.0)

    @C_HOOK
    def scale(values, size, itemsize, user_data):
        values_at(values, size, itemsize)[:] *= ctypes.cast(user_data, ctypes.POINTER(ctypes.c_double))[0]
        return 0

    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(scale), ctypes.addressof(factor)))
    x.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    factor.value = 0.5
    x.clear_grad()
    x.sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("status", [1, -5, 77])
def test_a_status_other_than_zero_is_an_error(status):
    x = leaf([1.0, 2.0], name="w")

    @C_HOOK
    def fail(values, size, itemsize, user_data):
        return status

    handle = x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(fail)))
    with pytest.raises(RuntimeError, match=rf"returned {status}.*expected 0") as caught:
        x.sum().backward()
    assert "hook 1 of 1" in caught.value.__notes__[0]
    assert "'w'" in caught.value.__notes__[0]
    assert "LambdaInplaceVariableWrapperHook" in caught.value.__notes__[0]
    assert hg.is_grad_enabled()
    handle.remove()
    x.clear_grad()
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_c_and_python_hooks_in_one_order():
    x = leaf(1.0)

    def add_one(grad):
        grad += 1

    x.register_inplace_hook(add_one)
    x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(double_in_c)))
    x.register_post_accumulate_grad_hook(lambda t: add_one(t.grad))
    x.backward()
    assert x.grad.item() == 5.0


def test_one_hook_object_on_several_leaves_and_its_removal():
    hook = LambdaInplaceVariableWrapperHook(address(double_in_c))
    x, y = leaf(1.0), leaf(1.0)
    handle = x.register_inplace_hook(hook)
    y.register_inplace_hook(hook)
    (x + y).backward()
    assert handle.remove() is True
    (x + y).backward()
    assert x.grad.item() == 3.0
    assert y.grad.item() == 6.0


def test_keep_alive_lives_as_long_as_the_hook():
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    gc.disable()
    try:
        x = leaf(1.0)
        handle = x.register_inplace_hook(LambdaInplaceVariableWrapperHook(address(double_in_c), 0, owner))
        del owner
        assert alive() is not None
        x.backward()
        handle.remove()
        assert alive() is None
    finally:
        gc.enable()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="address is 0"):
        LambdaInplaceVariableWrapperHook(0)
    with pytest.raises(TypeError):
        LambdaInplaceVariableWrapperHook("function")
    with pytest.raises(TypeError):
        LambdaInplaceVariableWrapperHook(lambda *args: 0)
    with pytest.raises((OverflowError, ValueError)):
        LambdaInplaceVariableWrapperHook(-1)
    with pytest.raises(TypeError):
        LambdaInplaceVariableWrapperHook()


@pytest.mark.parametrize("case", ["uninitialised hook", "tensor without data", "node without op"])
def test_half_made_objects_do_not_crash_the_interpreter(case):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPTS / "half_made.py", case],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a clear error\n"), done.stderr
