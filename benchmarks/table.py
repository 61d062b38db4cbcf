"""Print the table of ratios: ``python -m benchmarks.table``."""

import argparse
import fnmatch
import json
import math
import os
import platform
import sys
import textwrap

import numpy as np

import hookgrad as hg
from benchmarks import libraries
from benchmarks.measuring import measure_probe, measure_workload, sample_count
from benchmarks.probes import PROBES
from benchmarks.workloads import WORKLOADS
from hookgrad._core.inner_loops import TRACED

# The printed columns; a workload that is measured on all cores has a second line for them.
SHOWN = ("hookgrad", "numpy", "autograd", "torch", "torch_all")
ON_ALL_CORES = {"hookgrad": "hookgrad_all", "numpy": "numpy_all", "torch_all": "torch_all"}


PREFIXES = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "": ((1, ""),),
}


def show(value, unit):
    """A value with three digits and a fitting prefix."""
    scale, prefix = next((pair for pair in PREFIXES[unit] if abs(value) >= pair[0]), PREFIXES[unit][-1])
    scaled = value / scale
    digits = max(0, 2 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    return f"{scaled:.{digits}f} {prefix}".rstrip()


def cells(row, keys):
    """The medians of some columns; a peer's also as a multiple of hookgrad's."""
    own = next((key for key in keys if key in ("hookgrad", "hookgrad_all")), None)
    shown = []
    for key in keys:
        if key is None or key not in row.samples:
            shown.append("-")
            continue
        text = show(row.median(key), row.unit)
        if key != own and row.unit and own in row.samples:
            ratio = row.ratio(key, (own,))
            text += f" ({ratio:.{2 if ratio < 10 else 0}f}x)"
        shown.append(text)
    return shown


def aligned(lines):
    """Lines of cells as a Markdown table whose columns are aligned."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines]  # fmt: skip
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def ratio_table(rows):
    """The measured values, a line a workload."""
    titles = {column.key: column.title for column in libraries.COLUMNS}
    lines = [["", "for one", *(titles[key] for key in SHOWN)]]
    for row in rows:
        lines.append([row.title, row.operation, *cells(row, SHOWN)])
        if "hookgrad_all" in row.samples:
            on_all = [ON_ALL_CORES.get(key) for key in SHOWN]
            lines.append([f"{row.title}, all cores", row.operation, *cells(row, on_all)])
    return aligned(lines)


def goal_table(rows):
    """The goals and what was measured, a line a goal; None where no goal was measured."""
    titles = {column.key: column.title for column in libraries.COLUMNS}
    lines = [["", "against", "measured", "goal", "required", ""]]
    for row in rows:
        for goal in row.goals:
            verdict = row.verdict(goal)
            if verdict is None:
                continue
            ratio, word = verdict
            unit = "" if goal.against else row.unit
            required = goal.at_most if goal.required is None else goal.required
            lines.append(
                [
                    row.title,
                    " and ".join(titles[peer] for peer in goal.against) or "-",
                    *(show(value, unit) for value in (ratio, goal.at_most, required)),
                    word,
                ]
            )
    return aligned(lines) if len(lines) > 1 else None


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine():
    """What the figures depend on."""
    versions = {"Python": platform.python_version(), "hookgrad": hg.__version__, "NumPy": np.__version__}
    for library in ("autograd", "torch"):
        if libraries.is_installed(library):
            from importlib.metadata import version

            versions[libraries.TITLES[library]] = version(library)
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "processor": processor(),
        "cores": libraries.CORES,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "blas": f"{blas['name']} {blas['version']}",
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def as_json(rows, about):
    return {
        "machine": about,
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "unit": row.unit,
                "operation": row.operation,
                "columns": {
                    key: {"median": row.median(key), "samples": samples} for key, samples in row.samples.items()
                },
                "goals": [
                    {
                        "against": goal.against,
                        "at_most": goal.at_most,
                        "required": goal.required,
                        "measured": (row.verdict(goal) or (None, None))[0],
                        "verdict": (row.verdict(goal) or (None, "not measured"))[1],
                    }
                    for goal in row.goals
                ],
                "note": row.note,
            }
            for row in rows
        ],
    }


def draw(rows, about, path):
    """A line a workload, a mark a column: its time over hookgrad's, on a logarithmic axis."""
    from matplotlib.figure import Figure

    marks = {  # shape, face, edge
        "numpy": ("o", "tab:orange", "tab:orange"),
        "autograd": ("D", "tab:green", "tab:green"),
        "torch": ("s", "tab:red", "tab:red"),
        "numpy_all": ("o", "none", "tab:orange"),
        "torch_all": ("s", "none", "tab:red"),
    }
    titles = {column.key: column.title for column in libraries.COLUMNS}
    lines = [row for row in rows if row.unit and len(row.samples) > 1]
    figure = Figure(figsize=(10, 1.8 + 0.34 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(1, color="tab:blue", lw=2, label="hookgrad")
    for key, (mark, face, edge) in marks.items():
        points = []
        for k, row in enumerate(lines):
            own = "hookgrad_all" if key.endswith("_all") and "hookgrad_all" in row.samples else "hookgrad"
            ratio = row.ratio(key, (own,))
            if ratio is not None and ratio > 0:
                points.append((ratio, k))
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, 40, marker=mark, facecolors=face, edgecolors=edge, zorder=3, label=titles[key])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(lines)), [row.title.replace("`", "") for row in lines])
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_xlabel("times hookgrad's: right of the line, more time or memory than hookgrad")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    figure.suptitle(f"{about['processor']}, {about['cores']} cores; {versions}", fontsize=9)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def progress(total):
    """A function that moves a progress bar on, and one that ends it; without tqdm there is none."""
    try:
        from tqdm import tqdm
    except ImportError:
        return lambda count: None, lambda: None
    bar = tqdm(total=total, unit="sample", leave=False, disable=None)
    return bar.update, bar.close


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}, expected 1 or more")
    return value


def parse(arguments):
    names = [item.name for item in (*WORKLOADS, *PROBES)]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table",
        description="Measure hookgrad, NumPy by hand and the installed peers beside each other;\n"
        "print medians, ratios and goals.",
        epilog=textwrap.fill("names: " + ", ".join(names), 79, break_on_hyphens=False),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeat", type=positive, default=15, metavar="N", help="rounds of measuring (default: 15)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="measure only this; may be a pattern (chain*), may be given several times",
    )
    parser.add_argument("--json", metavar="FILE", help="write all samples there")
    parser.add_argument("--png", metavar="FILE", help="draw the ratios there (needs matplotlib)")
    options = parser.parse_args(arguments)
    options.items = [
        item
        for item in (*WORKLOADS, *PROBES)
        if not options.only or any(fnmatch.fnmatch(item.name, pattern) for pattern in options.only)
    ]
    if not options.items:
        parser.error(f"nothing is named {' or '.join(options.only)}; names are {', '.join(names)}")
    if options.png and not libraries.is_installed("matplotlib"):
        parser.error("--png needs matplotlib: pip install matplotlib")
    if not libraries.is_installed("threadpoolctl"):
        parser.error("threadpoolctl is needed to give BLAS one thread: pip install threadpoolctl")
    for option in ("json", "png"):
        path = getattr(options, option)
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            parser.error(f"--{option} {path}: there is no such folder")
    return options


def warn(text):
    print(f"warning: {text}", file=sys.stderr)


def main(arguments=None):
    """Measure and print; returns the exit status."""
    options = parse(arguments)
    if TRACED:
        print(
            "hookgrad was built with HOOKGRAD_TRACE=1 and is several times slower than it is; build it without",
            file=sys.stderr,
        )
        return 2
    if text := libraries.blas_warning():
        warn(text)
    installed = [library for library in libraries.TITLES if libraries.is_installed(library)]
    for library, title in libraries.TITLES.items():
        if library not in installed:
            warn(f"{title} is not installed: its columns are left out (pip install {library})")
    libraries.import_all(installed)
    about = machine()
    advance, end = progress(sum(sample_count(item, options.repeat) for item in options.items))
    rows = []
    try:
        with np.errstate(all="ignore"):
            for item in options.items:
                measure = measure_probe if item in PROBES else measure_workload
                rows.append(measure(item, options.repeat, advance))
    finally:
        end()
    print(f"{about['processor']}, {about['cores']} cores, {about['system']}, {about['blas']}, load {about['load']};",
          ", ".join(f"{name} {version}" for name, version in about["versions"].items()))  # fmt: skip
    print(
        f"Forward and backward, medians of {options.repeat} rounds, one thread unless said; in brackets: times "
        "hookgrad's.\n"
    )
    print(ratio_table(rows))
    if goals := goal_table(rows):
        print("\nhookgrad's value over the peer's (over the smallest, of several):\n")
        print(goals)
    for row in rows:
        if row.note:
            print(f"\n{row.title}: {row.note}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(as_json(rows, about), file, indent=1)
    if options.png:
        draw(rows, about, options.png)
    return 0


if __name__ == "__main__":
    sys.exit(main())
