"""The history of results: benchmarks/results.jsonl, one figure a line with its machine, only ever
appended to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.report.machine import Machine
from benchmarks.report.rows import Row

RESULTS = Path(__file__).parents[1] / "results.jsonl"
Key = tuple[str, int, str]


class ResultsError(Exception):
    """The file of results cannot be read or written; the text says where and why."""


@dataclass(frozen=True)
class Result:
    """A figure and where it comes from."""

    row: Row
    machine: Machine


def append(rows: Iterable[Row], machine: Machine, path: Path = RESULTS) -> None:
    """One JSON object a line: the fields of the row, then those of the machine."""
    with path.open("ab") as file:
        for row in rows:
            # A figure may be one of NumPy's.
            flat = {
                **msgspec.to_builtins(row, enc_hook=float),
                **msgspec.to_builtins(machine),
                "loaded": machine.loaded,
            }
            file.write(msgspec.json.encode(flat) + b"\n")


def read(path: Path = RESULTS) -> list[Result]:
    """All figures, oldest first. ResultsError names the line that is none."""
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    return [_result(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _result(path: Path, number: int, line: bytes) -> Result:
    try:
        return Result(msgspec.json.decode(line, type=Row), msgspec.json.decode(line, type=Machine))
    except msgspec.DecodeError as error:
        raise ResultsError(f"{path}: line {number}: {error}: mend it, or take it out") from error


def check(path: Path = RESULTS) -> None:
    """ResultsError, where what is measured could not be kept: better before than after."""
    read(path)
    try:
        path.open("ab").close()
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}; --no-keep measures without it") from error


def latest(results: Sequence[Result]) -> dict[Key, Result]:
    """Of each figure the last that was measured on a quiet machine; where there is none, the last
    of all.

    A figure that is put beside something else today replaces those that the last run of its name
    has no more: ("decide", 5000, "a loop") of Monday and ("decide", 5000, "one template") of
    Tuesday leave Tuesday's.
    """
    found: dict[Key, Result] = {}
    for one in results:
        known = found.get(one.row.key)
        if known is None or known.machine.loaded or not one.machine.loaded:
            found[one.row.key] = one
    last_run = {one.row.key[:2]: one.machine.date for one in results}
    measured_still = {
        one.row.key for one in results if one.machine.date == last_run[one.row.key[:2]]
    }
    return {key: one for key, one in found.items() if key in measured_still}
