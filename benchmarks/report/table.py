"""The table for people: ours beside baseline and anchor, and below it what each figure counts."""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase

from rich.console import Console
from rich.table import Table

from benchmarks.report.anchors import ANCHORS, SOURCES
from benchmarks.report.machine import Machine
from benchmarks.report.numbers import amount, short, times
from benchmarks.report.rows import Row

# Rows whose names begin so stand together, and their names lose it; in the order in which they are
# shown.
SECTIONS = {
    "": "",
    "perf_": "scheduler_perf, the core alone: decisions",
    "gateways_": "a dispatcher that fake agents reach by TLS",
    "fleet_": "a dispatcher beside a fleet of fake agents",
    "prometheus_": "readings of 5,000 nodes from one Prometheus",
    "bound_": "scheduler_perf, end to end: pods bound",
    "bound_cpu_": "scheduler_perf, end to end: CPU of all processes of the scheduler a bound pod",
    "bound_tries_": "scheduler_perf, end to end: attempts a bound pod",
}
_WIDE = 190  # columns from which what is counted stands in the row
_COLUMNS = {
    "NODES": 5,
    "PODS": 5,
    "OURS": 9,
    "TARGET": 10,
    "BASELINE": 8,
    "x": 4,
    "ANCHOR": 6,
    "x ": 4,
}  # least widths
_LOOP = "a plain Python loop over all nodes"
_MET = {None: "", True: " met", False: " NOT"}


def show(rows: Sequence[Row], console: Console) -> None:
    """All rows, readable from 120 columns on; what is counted stands in the row where there is
    room, else below.
    """
    wide, marks = console.width >= _WIDE, _marks(rows)
    for title, prefix, members in _sections(rows):
        if title:
            console.print(title, style="bold")
        cells = ([*_cells(row, prefix, marks), *([row.counts] if wide else [])] for row in members)
        console.print(_table(cells, wide), "", sep="\n")
    if not wide:
        _list(console, "What is counted", _grouped(rows))
    _list(
        console,
        "Baselines, in the same run (x: how many times better)",
        ((mark, whose or _LOOP) for whose, mark in marks.items()),
    )
    _list(console, "Anchors, each on its own machine", _anchors(rows))


def _table(rows: Iterable[Sequence[str]], wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
    table.add_column("FIGURE", no_wrap=True)
    for name, width in _COLUMNS.items():
        table.add_column(name.strip(), justify="right", no_wrap=True, min_width=width)
    if wide:
        table.add_column("WHAT IS COUNTED")
    for cells in rows:
        table.add_row(*cells)
    return table


def heading(machine: Machine) -> str:
    """Of what machine and commit the figures are."""
    loaded = ": LOADED, not to be quoted" if machine.loaded else ""
    on = f"{machine.cores} x {machine.cpu}, Python {machine.python}"
    return f"{machine.date}, commit {machine.commit or '?'}, {on}, load {machine.load}{loaded}"


def _sections(rows: Sequence[Row]) -> Iterable[tuple[str, str, list[Row]]]:
    for prefix, title in SECTIONS.items():
        members = [row for row in rows if _prefix(row) == prefix]
        if members:
            yield title, prefix, members


def _prefix(row: Row) -> str:
    return max((prefix for prefix in SECTIONS if row.name.startswith(prefix)), key=len)


def _marks(rows: Iterable[Row]) -> dict[str, str]:
    """Whose each baseline is -> a letter for it."""
    whose = dict.fromkeys(row.beside for row in rows if row.baseline is not None)
    return dict(zip(whose, ascii_lowercase, strict=False))


def _cells(row: Row, prefix: str, marks: Mapping[str, str]) -> list[str]:
    cells = [
        row.name.removeprefix(prefix),
        short(row.nodes),
        short(row.pods),
        amount(row.value, row.unit),
    ]
    baseline = "" if row.baseline is None else f"{amount(row.baseline)} {marks[row.beside]}"
    cells += [
        f"{amount(row.target)}{_MET[row.met]}" if row.target else "",
        baseline,
        times(row.ratio),
    ]
    return [*cells, *_beside_anchor(row)]


def _beside_anchor(row: Row) -> tuple[str, str]:
    anchor = ANCHORS.get(row.name)
    if anchor is None:
        return "", ""
    return amount(anchor.value), times(row.times_better_than(anchor.value)) if anchor.alike else "*"


def _grouped(rows: Iterable[Row]) -> Iterable[tuple[str, str]]:
    names: dict[str, list[Row]] = {}
    for row in rows:
        names.setdefault(row.counts, []).append(row)
    return ((_together(of), counts) for counts, of in names.items() if counts)


def _together(rows: Sequence[Row]) -> str:
    prefix = _prefix(rows[0])
    if len(rows) > 1 and prefix and all(_prefix(row) == prefix for row in rows):
        return f"{prefix}*"
    return ", ".join(dict.fromkeys(row.name for row in rows))


def _anchors(rows: Sequence[Row]) -> Iterable[tuple[str, str]]:
    used = [ANCHORS[row.name] for row in rows if row.name in ANCHORS]
    for key in dict.fromkeys(anchor.source for anchor in used):
        source = SOURCES[key]
        yield source.who, f"{source.counts} ({source.where})"
    if not all(anchor.alike for anchor in used):
        yield "*", "the anchor counts something else than ours does: a ratio would mean nothing"


def _list(console: Console, title: str, lines: Iterable[tuple[str, str]]) -> None:
    told = [f"  {name}: {text}" if text else f"  {name}" for name, text in lines]
    if told:
        console.print(f"{title}:", *told, "", sep="\n", highlight=False, markup=False)
