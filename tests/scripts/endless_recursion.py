"""A hook that starts a backward that runs the same hook, without end. Takes the kind of hook."""

import sys

import hookgrad as hg


def main(kind):
    x = hg.ones((2,), requires_grad=True)
    register = {
        "gradient": x.register_hook,
        "in place": x.register_inplace_hook,
        "post": x.register_post_accumulate_grad_hook,
        "final": x._register_backward_hook,
    }[kind]

    def hook(*args):
        with hg.enable_grad():
            (x * 2).sum().backward()

    handle = register(hook)
    try:
        (x * 2).sum().backward()
    except RecursionError:
        outcome = "RecursionError"
    else:
        outcome = "no error"
    if not hg.is_grad_enabled():
        outcome += ", grad mode off"
    handle.remove()
    x.clear_grad()
    (x * 2).sum().backward()
    print(f"{outcome}, then {x.grad.tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
