"""Objects whose construction was left out: an error is right, a crash of the process is not. Takes the case's name."""

import sys

import hookgrad as hg
from hookgrad._core.hooks import LambdaInplaceVariableWrapperHook


class WithoutInit(LambdaInplaceVariableWrapperHook):
    def __init__(self):
        pass


def uninitialised_hook():
    x = hg.ones((3,), requires_grad=True)
    try:
        x.register_inplace_hook(WithoutInit())
        x.sum().backward()
    except RuntimeError as error:
        return "LambdaInplaceVariableWrapperHook" in str(error) or "__init__" in str(error)


def tensor_without_data():
    x = hg.ones((3,), requires_grad=True)
    try:
        empty = hg.Tensor.__new__(hg.Tensor)
    except TypeError:
        return True
    failed = 0
    for use in (lambda: x * empty, lambda: empty * x, lambda: x + empty, lambda: repr(empty), lambda: x @ empty):
        try:
            use()
        except (TypeError, ValueError, AttributeError, RuntimeError):
            failed += 1
    return failed == 5


def node_without_op():
    node_type = type((hg.ones((3,), requires_grad=True) * 2).grad_fn)
    try:
        node = node_type()
    except TypeError:
        return True
    return isinstance(repr(node), str) and node.next_functions == () and isinstance(node.name(), str)


CASES = {
    "uninitialised hook": uninitialised_hook,
    "tensor without data": tensor_without_data,
    "node without op": node_without_op,
}

if __name__ == "__main__":
    print("a clear error" if CASES[sys.argv[1]]() else "no error, or an unclear one")
