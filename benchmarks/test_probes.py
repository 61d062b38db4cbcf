"""Chains of 250,000, 500,000 and a million nodes; import in a fresh process."""

import pytest

from benchmarks import libraries, probes


@pytest.mark.parametrize("library", ["hookgrad", "torch"])
@pytest.mark.parametrize("nodes", [250_000, 500_000, 1_000_000])
def test_deep_chain(benchmark, library, nodes):
    if not libraries.is_installed(library):
        pytest.skip(f"{library} is not installed")
    benchmark.group = f"a chain of {nodes:,} nodes, in a process of its own"
    result = benchmark.pedantic(probes.deep_chain.__wrapped__, (library, nodes, 0), rounds=3)
    benchmark.extra_info.update(result, bytes_a_node=result["bytes"] / nodes)


@pytest.mark.parametrize("library", ["hookgrad", "autograd", "torch"])
def test_import(benchmark, library):
    if not libraries.is_installed(library):
        pytest.skip(f"{library} is not installed")
    benchmark.group = "a process that imports NumPy and the library"
    seconds = []
    benchmark.pedantic(lambda: seconds.append(probes.ImportTime().sample(library, 0)), rounds=10, warmup_rounds=1)
    benchmark.extra_info["import_seconds"] = sorted(seconds)[len(seconds) // 2]
