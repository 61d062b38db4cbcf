"""Cycles through hooks are taken apart by the collector in any order; the handles outlive all of it.

Meant to run with PYTHONMALLOC=debug, which overwrites freed memory, so that whoever still looks at it fails.
"""

import gc

import hookgrad as hg

KINDS = ["register_hook", "register_inplace_hook", "register_post_accumulate_grad_hook", "_register_backward_hook"]


class Box:
    """Holds anything; a finalizer may use what it holds while the cycle is taken apart."""

    def __init__(self, final=None):
        self.final = final

    def __del__(self):
        if self.final is not None:
            self.final()


def cycle(kind, count, interior, early, final):
    """Make a cycle of a tensor, its hooks, and boxes that were made before or after them; the handles."""
    x = hg.ones((2,), requires_grad=True)
    t = x * 2 if interior else x
    box = Box()
    late = Box()
    if early:
        late.me = late  # a cycle of its own: it is cleared in its turn, before what is made after it
    handles = [getattr(t, kind)(lambda *args, t=t, box=box: None) for _ in range(count)]
    if not early:
        late = Box()
        late.me = late
    late.t, late.x, late.handles = t, x, list(handles)
    box.late = late
    if final:
        late.final = lambda handles=handles: [handle.remove() for handle in handles[::2]]
    (t * 3).sum().backward()
    return handles


def main():
    gc.disable()
    kept = []
    for kind in KINDS:
        for count in (1, 2, 3, 20):
            for interior in (False, True):
                if interior and kind != "register_hook":
                    continue
                for early in (False, True):
                    for final in (False, True):
                        kept.append(cycle(kind, count, interior, early, final))
                        cycle(kind, count, interior, early, final)  # and these handles go with it
    gc.collect()
    assert not any(handle.remove() for handles in kept for handle in handles)
    kept.clear()
    gc.collect()
    x = hg.ones((2,), requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    print("survived")


if __name__ == "__main__":
    main()
