"""One figure over time, as the results file holds it."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from benchmarks.report.numbers import amount, short, times
from benchmarks.report.results import Key, Result

_HEADINGS = ("DATE", "COMMIT", "PODS", "OURS", "TARGET", "BASELINE", "x", "LOAD", "CORES", "CPU")


def show_history(results: Sequence[Result], word: str, console: Console) -> bool:
    """All figures whose name holds the word, oldest first; False where there is none."""
    found = sorted((one for one in results if word in one.row.name), key=_key)
    for key, group in groupby(found, key=_key):
        console.print(_title(key), style="bold", highlight=False)
        console.print(_table(group), "")
    return bool(found)


def _key(one: Result) -> Key:
    return one.row.key


def _title(key: Key) -> str:
    name, nodes, beside = key
    return f"{name}, {short(nodes)} nodes" + (f", beside {beside}" if beside else "")


def _table(results: Iterable[Result]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in _HEADINGS:
        table.add_column(
            heading,
            no_wrap=True,
            justify="left" if heading in {"DATE", "COMMIT", "CPU"} else "right",
        )
    for one in results:
        row, machine = one.row, one.machine
        load = f"{machine.load:.2f} loaded" if machine.loaded else f"{machine.load:.2f}"
        table.add_row(
            machine.date, machine.commit, short(row.pods), amount(row.value, row.unit), amount(row.target),
            amount(row.baseline), times(row.ratio), load, str(machine.cores), machine.cpu,
        )  # fmt: skip
    return table
