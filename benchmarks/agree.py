"""Whether two libraries' versions of a workload compute the same."""

import numpy as np

from benchmarks.libraries import as_array


def reference(workload):
    """The library that the others are compared with: NumPy by hand, else hookgrad."""
    return "numpy" if "numpy" in workload.libraries() else "hookgrad"


def results(workload, library):
    """The result and the gradients, as arrays, of the second run: nothing may be left over from the first."""
    run = workload.prepare(library)
    run()
    result, gradients = run()
    return [as_array(result), *(as_array(g) for g in gradients)]


def check(workload, library):
    """Compare a library's numbers with the reference's.

    Raises
    ------
    AssertionError
        They differ.
    """
    other = reference(workload)
    got, expected = results(workload, library), results(workload, other)
    assert len(got) == len(expected), f"{workload}: {library} gives {len(got)} arrays, {other} {len(expected)}"
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(
            a,
            b,
            rtol=workload.rtol,
            atol=workload.rtol * np.abs(b).max(),
            err_msg=f"{workload}: {'result' if k == 0 else f'gradient {k - 1}'} of {library} and of {other}",
        )
        assert a.dtype == b.dtype, f"{workload}: {library} gives {a.dtype}, {other} {b.dtype}"
