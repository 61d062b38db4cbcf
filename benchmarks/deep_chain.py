"""One chain of many nodes, in a process of its own: ``python -m benchmarks.deep_chain hookgrad 1000000``.

Each node is ``y = y * w`` on 8 float32. Prints as JSON the seconds of forward, and of backward and dropping the graph,
and the bytes by which the process grew while the chain was recorded. They are processor seconds, since a run is long
enough to be interrupted by whatever else the machine does.
"""

import json
import sys
import time

import numpy as np


def resident():
    """Bytes of memory that this process has (at its peak, where the system tells no more)."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except FileNotFoundError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def measure(tensor, nodes):
    """Processor seconds and bytes of a chain of that many nodes; `tensor` makes one from an ndarray."""
    x = tensor(np.ones(8, np.float32), requires_grad=True)
    w, g = tensor(np.ones(8, np.float32)), tensor(np.ones(8, np.float32))
    (x * w).backward(g)  # what is set up once
    before = resident()
    start = time.process_time()
    y = x
    for _ in range(nodes):
        y = y * w
    forward = time.process_time() - start
    grown = resident() - before
    start = time.process_time()
    y.backward(g)
    del y
    backward = time.process_time() - start
    return {"seconds": forward + backward, "forward": forward, "backward": backward, "bytes": grown}


def main():
    library, nodes = sys.argv[1], int(sys.argv[2])
    if library == "hookgrad":
        from hookgrad import tensor
    else:
        import torch

        torch.set_num_threads(1)
        tensor = torch.tensor
    print(json.dumps(measure(tensor, nodes)))


if __name__ == "__main__":
    main()
