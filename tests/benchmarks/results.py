"""Builders of rows and machines."""

from dataclasses import replace

from benchmarks.report.machine import Machine
from benchmarks.report.results import Result
from benchmarks.report.rows import Row

QUIET = Machine("2026-01-01T00:00:00Z", "abc", 2, "CPU", 0.3, "3.11.7", "python -m benchmarks")
LOADED = replace(QUIET, date="2026-02-01T00:00:00Z", commit="def", load=4.0)
RATE = Row("perf_SchedulingBasic", 5000, 50_000, 20_000.0, "decisions/s", 10_000, 100.0, "the core")
TIME = Row("openb_time", 1213, 10_800, 5.0, "s", 10, 20.0, "one run")


def result(row: Row, machine: Machine, value: float) -> Result:
    """A figure of that value."""
    return Result(replace(row, value=value), machine)
