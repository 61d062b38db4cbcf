"""Measuring libraries beside each other: A B C A B C ..., medians, and ratios within a round.

A sample is the median of many short blocks, so that being interrupted now and then does not show; what disturbs the
machine for longer disturbs all columns of a round alike. The garbage collector stays on, as it is where people use
these libraries, and is emptied before each sample; what importing all the libraries made is kept from it (`gc.freeze`
in table.py), since nobody has them all loaded.
"""

import gc
import math
import statistics
import time
from dataclasses import dataclass, field

from benchmarks import agree
from benchmarks.compiled import CannotCompile
from benchmarks.libraries import is_installed, use_threads
from benchmarks.workloads.base import Goal

SAMPLE_SECONDS = 0.01
BLOCK_SECONDS = 0.0002


def block_seconds(run, count):
    """Seconds of one of `count` runs in a row."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


class Timer:
    """Takes samples of one workload in one column."""

    def __init__(self, workload, column):
        self.column = column
        self.operations = workload.operations
        use_threads(column.threads)
        self.plans = []
        for measured in filter(None, (workload, workload.baseline)):
            run = measured.prepare(column.library)
            run()
            seconds = min(block_seconds(run, 1) for _ in range(5))
            count = math.ceil(BLOCK_SECONDS / seconds)
            self.plans.append((run, count, max(3, math.ceil(SAMPLE_SECONDS / (count * seconds)))))

    def sample(self):
        """Seconds of one operation."""
        use_threads(self.column.threads)
        gc.collect()
        medians = []
        for run, count, blocks in self.plans:
            run()
            medians.append(statistics.median(block_seconds(run, count) for _ in range(blocks)))
        return (medians[0] - sum(medians[1:])) / self.operations


@dataclass
class Row:
    """What was measured of one workload or probe."""

    name: str
    title: str
    unit: str
    operation: str
    samples: dict = field(default_factory=dict)  # by column key, one a round
    goals: tuple = ()
    note: str = ""  # why there is nothing

    def median(self, key):
        return statistics.median(self.samples[key])

    def ratio(self, key, others):
        """The median over the rounds of key's value over the smallest of the others'; None if one is missing."""
        if key not in self.samples or not set(others) <= set(self.samples):
            return None
        if not others:
            return self.median(key)
        rounds = zip(self.samples[key], *(self.samples[other] for other in others), strict=True)
        return statistics.median(own / min(peers) for own, *peers in rounds)

    def verdict(self, goal: Goal):
        """The measured ratio, and "met", "required bound met" or "missed"; None where it was not measured."""
        ratio = self.ratio(goal.own_column, goal.against)
        if ratio is None:
            return None
        if ratio <= goal.at_most:
            return ratio, "met"
        if goal.required is not None and ratio <= goal.required:
            return ratio, "required bound met"
        return ratio, "missed"


def measure_workload(workload, repeat, advance):
    """Measure a workload in all its columns whose library is installed, `repeat` rounds."""
    row = Row(workload.name, workload.title, "s", workload.operation, goals=workload.goals)
    columns = [column for column in workload.columns() if is_installed(column.library)]
    try:
        for library in dict.fromkeys(column.library for column in columns):
            agree.check(workload, library)
        timers = [Timer(workload, column) for column in columns]
    except CannotCompile as error:
        row.note = str(error).partition("\n")[0]
        advance(repeat * len(columns))
        return row
    for _ in range(repeat):
        for timer in timers:
            row.samples.setdefault(timer.column.key, []).append(timer.sample())
            advance(1)
    return row


def measure_probe(probe, repeat, advance):
    """Measure a probe for all its libraries that are installed."""
    row = Row(probe.name, probe.title, probe.unit, "", goals=probe.goals)
    columns = [column for column in probe.columns() if is_installed(column.library)]
    if probe.warm_up:
        for column in columns:
            probe.sample(column.library, -1)
    for k in range(min(repeat, probe.repeat)):
        for column in columns:
            row.samples.setdefault(column.key, []).append(probe.sample(column.library, k))
            advance(1)
    return row


def sample_count(item, repeat):
    """How many times `advance` will be called for a workload or probe."""
    columns = sum(is_installed(column.library) for column in item.columns())
    return columns * min(repeat, getattr(item, "repeat", repeat))
