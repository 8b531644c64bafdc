"""How the demo looks: loads and pods of each cluster, the latest placements and why. Rows in, text
out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.cli.output import Column, table_of
from dispatcher.cli.tables import PHASE_STYLES, heat, share

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = Mapping[str, Any]
SETTLED = frozenset(("Running", "Succeeded"))
_ENDED = frozenset(("Succeeded", "Failed"))
_BAR = 16
_SIGNALS = ("cpu", "memory", "network")


@dataclass
class Picture:
    """One moment of the demo, as the views give it; `expected` pods were submitted.

    `note`: to be read beside it. `hint`: what to do next.
    """

    clusters: Sequence[Row] = ()
    nodes: Sequence[Row] = ()
    pods: Sequence[Row] = ()
    expected: int = 0
    seconds: float = 0.0
    source: str = ""
    note: str = ""
    hint: str = ""
    latest: list[tuple[str, str]] = field(
        default_factory=list
    )  # keys of pods in the order of their placement

    @property
    def phases(self) -> Counter[str]:
        """Pods by phase."""
        return Counter(row["phase"] for row in self.pods)

    @property
    def unsettled(self) -> list[Row]:
        """Pods that neither run nor have ended well."""
        return [row for row in self.pods if row["phase"] not in SETTLED]

    @property
    def settled(self) -> bool:
        """Whether all that was submitted runs or has ended well."""
        return self.expected > 0 and len(self.pods) >= self.expected and not self.unsettled


def live(picture: Picture, placements: Iterable[Row]) -> "RenderableType":
    """The whole live view; `placements` are the rows of `latest_placements`, with why."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(),
        _headline(picture),
        Text(),
        *([Text(picture.note, style="dim"), Text()] if picture.note else ()),
        cluster_table(picture),
        Text(),
        Text("Latest placements", style="bold"),
        _placements(placements),
        *([Text(), Text(picture.hint, style="dim")] if picture.hint else ()),
    )


def _headline(picture: Picture) -> "RenderableType":
    from rich.text import Text

    line = Text.assemble(
        ("Global Dispatcher", "bold"),
        f"   {len(picture.pods)}/{picture.expected} pods submitted in ",
    )
    line.append(picture.source, "bold")
    for phase, count in sorted(picture.phases.items()):
        line.append("   ")
        line.append(f"{count} {phase}", PHASE_STYLES.get(phase, ""))
    line.append(f"   {picture.seconds:.0f} s", "dim")
    return line


def cluster_table(picture: Picture) -> "RenderableType":
    """Readiness, pods that have not ended (as `clusters` counts them), requests and live load, one
    line a cluster.
    """
    running = Counter(
        row["cluster"] for row in picture.pods if row["cluster"] and row["phase"] not in _ENDED
    )
    rows = [_cluster(row, picture, running) for row in picture.clusters]
    columns = (
        Column("CLUSTER", lambda row: row["name"], lambda row: "bold"),
        Column("STATUS", lambda row: row["status"], lambda row: row["style"]),
        Column("NODES", lambda row: str(row["nodes"]), right=True),
        Column("PODS", lambda row: str(row["pods"]), right=True),
        Column("CPU ASKED", lambda row: share(row["asked"]), right=True),
        *(_load_column(signal) for signal in _SIGNALS),
    )
    return table_of(columns, rows)


def _cluster(row: Row, picture: Picture, running: Counter[str]) -> Row:
    nodes = [node for node in picture.nodes if node["cluster"] == row["name"]]
    return {
        "name": row["name"],
        "status": "Ready" if row["ready"] else row["problem"] or "NotReady",
        "style": "green" if row["ready"] else "red",
        "nodes": row["nodes"],
        "pods": running[row["name"]],
        "asked": _mean(node["cpu"].get("share") for node in nodes),
        **{signal: _mean(node["load"][signal]["used"] for node in nodes) for signal in _SIGNALS},
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _load_column(signal: str) -> Column:
    return Column(
        f"{signal.upper()} LOAD", lambda row: _bar(row[signal]), lambda row: heat(row[signal])
    )


def _bar(used: float | None) -> str:
    if used is None:
        return "unknown"
    filled = min(_BAR, round(_BAR * used))
    return "━" * filled + "─" * (_BAR - filled) + f" {share(used):>4}"


def latest_placements(picture: Picture, most: int = 14) -> list[Row]:
    """The pods placed last, the latest first, then some that wait."""
    by_key = {(row["namespace"], row["name"]): row for row in picture.pods}
    rows = [by_key[key] for key in reversed(picture.latest[-4 * most :]) if key in by_key][:most]
    waiting = [row for row in picture.unsettled if not row["node"] and row["reason"]][
        : most - len(rows)
    ]
    return [*rows, *waiting]


def _placements(rows: Iterable[Row]) -> "RenderableType":
    return table_of(
        (
            Column("POD", lambda row: row["name"]),
            Column("CLUSTER", lambda row: row["cluster"] or "-", lambda row: "bold"),
            Column("NODE", lambda row: row["node"] or "-"),
            Column(
                "PHASE", lambda row: row["phase"], lambda row: PHASE_STYLES.get(row["phase"], "")
            ),
            Column("WHY", lambda row: row["reason"] or "-", lambda row: "dim"),
        ),
        rows,
    )


def note_placements(picture: Picture, before: Picture) -> None:
    """Continue the order of placements of the picture before."""
    known = set(before.latest)
    fresh = [(row["namespace"], row["name"]) for row in picture.pods if row["node"]]
    picture.latest = [*before.latest, *(key for key in fresh if key not in known)]


def report(picture: Picture) -> dict[str, Any]:
    """The one object of `--once -o json`."""
    keys = ("namespace", "name", "source", "cluster", "node", "phase", "reason")
    return {
        "clusters": list(picture.clusters),
        "pods": [{key: row[key] for key in keys} for row in picture.pods],
        "seconds": round(picture.seconds, 3),
    }


def summary(picture: Picture) -> str:
    """One line: how many pods run where."""
    where = Counter(row["cluster"] for row in picture.pods if row["cluster"])
    places = ", ".join(f"{count} in {name}" for name, count in sorted(where.items()))
    done = sum(picture.phases[phase] for phase in SETTLED)
    return (
        f"{done} of {picture.expected} pods run or have ended well ({places}) after "
        f"{picture.seconds:.1f} s"
    )
