"""A cluster trace in openb's form (nodes.csv, pods.csv) as nodes for embedded clusters and pods to
submit.
"""

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dispatcher.service.errors import CommandError, ExitCode
from localfleet.demo.workloads import Submission, bare_pod

Row = dict[str, str]

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib")


def deal_nodes(
    trace: Path, clusters: list[str], most_each: int | None, directory: Path
) -> dict[str, Path]:
    """Deal the trace's nodes over the clusters in turn; returns cluster -> a nodes.csv written to
    `directory`.
    """
    rows = _rows(trace / "nodes.csv", _NODE_COLUMNS)
    hands: dict[str, list[Row]] = {
        name: rows[turn :: len(clusters)][:most_each] for turn, name in enumerate(clusters)
    }
    files = {}
    for name, hand in hands.items():
        files[name] = directory / f"{name}-nodes.csv"
        with files[name].open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(hand)
    return files


def trace_pods(trace: Path, most: int) -> Iterator[Submission]:
    """The first `most` pods in the trace's order; CPU and memory alone are requested."""
    rows = _rows(trace / "pods.csv", _POD_COLUMNS)
    for row in islice(rows, most):
        yield bare_pod(row["name"], f"{int(row['cpu_milli'])}m", f"{int(row['memory_mib'])}Mi")


def _rows(file: Path, columns: tuple[str, ...]) -> list[Row]:
    try:
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(
            f"{file}: {error}: --trace names a folder with nodes.csv and pods.csv", ExitCode.USAGE
        ) from None
    missing = [column for column in columns if not rows or column not in rows[0]]
    if missing:
        raise CommandError(
            f"{file}: columns {', '.join(missing)} are missing, or it has no rows", ExitCode.USAGE
        )
    for line, row in enumerate(rows, start=2):
        bad = next((key for key in columns[1:] if not (row[key] or "").isdigit()), None)
        if bad:
            raise CommandError(
                f"{file}:{line}: {bad} is {row[bad]!r}: write a whole number", ExitCode.USAGE
            )
    return rows
