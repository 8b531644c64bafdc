"""One measured figure a row; printed as a table, appended as JSON lines."""

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results.jsonl")


@dataclass(frozen=True)
class Row:
    """`value` in `unit`; `target` is DESIGN section 5's; `baseline` the same work done the plain way in the same run.

    `baseline` is None where there is no plain way to compare with. `counts` says in words what was counted.
    """

    name: str
    nodes: int
    pods: int
    value: float
    unit: str
    target: float | None
    baseline: float | None
    counts: str = ""
    beside: str = ""

    @property
    def more_is_better(self) -> bool:
        """Rates and shares shall be high; seconds, milliseconds and sizes low."""
        return self.unit.endswith("/s") or self.unit == "%"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    @property
    def ratio(self) -> float | None:
        """How many times better than the baseline."""
        if not self.baseline or not self.value:
            return None
        return self.value / self.baseline if self.more_is_better else self.baseline / self.value


def append(rows: Iterable[Row], path: Path = RESULTS) -> None:
    """One JSON object a line."""
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps({**asdict(row), "python": platform.python_version()}) + "\n")


def show(rows: Iterable[Row], console: Console) -> None:
    """The table for people."""
    table = Table(box=None, pad_edge=False)
    for heading, right in (("NAME", False), ("NODES", True), ("PODS", True), ("VALUE", True), ("UNIT", False)):
        table.add_column(heading, justify="right" if right else "left")
    for heading in ("TARGET", "MET", "BASELINE", "TIMES BETTER"):
        table.add_column(heading, justify="right")
    table.add_column("WHAT IS COUNTED")
    for row in rows:
        met = {None: "-", True: "yes", False: "NO"}[row.met]
        table.add_row(
            row.name, f"{row.nodes:,}", f"{row.pods:,}", _number(row.value), row.unit, _number(row.target), met,
            _number(row.baseline), f"{row.ratio:,.1f}x" if row.ratio else "-", row.counts,
        )  # fmt: skip
    console.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
