"""`global-dispatcher top nodes | clusters`: requested and used, the hottest first, with age and
source.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from dispatcher.cli.command_group import Commands
from dispatcher.cli.options import DEFAULT_SERVER, Out, Server
from dispatcher.cli.output import Column, Output, Row
from dispatcher.service.errors import CommandError, ExitCode

top_app = typer.Typer(
    cls=Commands,
    help="Show what is requested and what is used: live load with the age of its readings and who "
    "told them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_BASE = ("cpu", "memory", "network")
_SHORT = {"memory": "MEM", "network": "NET"}


def _age(row: Row) -> float | None:
    """Of the oldest reading."""
    return max(
        (load["age_s"] for load in row["load"].values() if load["age_s"] is not None), default=None
    )


# What rows are sorted by beside signals: the highest first, but names from a to z.
_KEYS: dict[str, Callable[[Row], Any]] = {
    "cpu-requested": lambda row: row["cpu"]["share"],
    "memory-requested": lambda row: row["memory"]["share"],
    "pods": lambda row: row["pods"]["share"],
    "age": _age,
}
_NAME = "name"

SortBy = Annotated[
    str,
    typer.Option(
        "--sort-by",
        metavar="KEY",
        help="cpu, memory, network or another signal (used, highest first), cpu-requested, "
        "memory-requested, pods, "
        "age (of the sample, oldest first), name.",
    ),
]


@top_app.command("nodes")
def top_nodes(
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    sort_by: SortBy = "cpu",
    limit: Annotated[int, typer.Option(min=0, help="Only so many; 0: all.")] = 0,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Show requested and used of each node, the hottest first.

    ALLOC is what can be allocated, REQ the share of it that is requested, USED the share of the
    machine that is in use. HOT says by what a node is too hot for new pods, and for how long
    (plugin HotNode); in brackets where so many are that none is refused. SAMPLE AGE is that of the
    oldest reading shown. `-` is unknown: there placement goes by requests. `nodes` has what is
    requested in numbers.
    """
    from dispatcher.cli.api_client import ApiClient
    from dispatcher.cli.output import print_rows

    rows = sorted_rows(ApiClient(server).rows("nodes", cluster=cluster), sort_by)
    print_rows(node_columns(rows), rows[: limit or None], output, "no nodes are known yet")


@top_app.command("clusters")
def top_clusters(
    sort_by: SortBy = "cpu",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Show requested and used of each cluster, the hottest first.

    What is used is the mean of the nodes with a reading (READ), for CPU and memory by their size.
    HOTTEST is the node that uses most of its CPU.
    """
    from dispatcher.cli.api_client import ApiClient
    from dispatcher.cli.output import print_rows

    rows = sorted_rows(ApiClient(server).rows("usage"), sort_by)
    print_rows(cluster_columns(rows), rows, output, "no clusters are configured")


def sorted_rows(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Highest first, unknown last, equals by name; CommandError for a key that no row has."""
    by_name = sorted(rows, key=lambda row: (row["cluster"], row.get("name", "")))
    if key == _NAME or not rows:
        return by_name
    signals = _signals(rows)
    value = (lambda row: row["load"].get(key, {}).get("used")) if key in signals else _KEYS.get(key)
    if value is None:
        raise CommandError(
            f"--sort-by {key}: choose one of {', '.join((*signals, *_KEYS, _NAME))}",
            ExitCode.USAGE,
        )
    known = [(found, row) for row in by_name if (found := value(row)) is not None]
    unknown = [row for row in by_name if value(row) is None]
    return [*(row for _, row in sorted(known, key=lambda pair: -pair[0])), *unknown]


def _signals(rows: Iterable[Row]) -> tuple[str, ...]:
    """Those that are always there, and others that any row knows."""
    more = {
        name: None for row in rows for name, load in row["load"].items() if load["used"] is not None
    }
    return (*_BASE, *(name for name in more if name not in _BASE))


def _use(resource: str) -> tuple[Column, Column]:
    from dispatcher.cli.tables import share

    name = _SHORT.get(resource, resource.upper())
    return (
        Column(f"{name} ALLOC", lambda row: str(row[resource]["allocatable"]), right=True),
        Column(f"{name} REQ", lambda row: share(row[resource].get("share")), right=True),
    )


def _used(signal: str) -> Column:
    from dispatcher.cli.tables import heat, share

    def value(row: Row) -> float | None:
        found: float | None = row["load"].get(signal, {}).get("used")
        return found

    name = _SHORT.get(signal, signal.upper())
    return Column(
        f"{name} USED",
        lambda row: share(value(row)),
        lambda row: heat(value(row)),
        right=True,
    )


def _hot(row: Row) -> str:
    """By which signals, and for how long; in brackets where so many nodes are hot that none is
    refused.
    """
    from dispatcher.cli.tables import age

    told = [
        (f"{one['signal']} {age(one['since_s'])}", one["refuses"]) for one in row.get("hot", ())
    ]
    return ", ".join(text if refuses else f"({text})" for text, refuses in told)


def _middle(rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    from dispatcher.cli.tables import age

    return (
        *_use("cpu"),
        _used("cpu"),
        *_use("memory"),
        *(_used(signal) for signal in _signals(rows)[1:]),
        Column(
            "PODS",
            lambda row: f"{row['pods']['requested']}/{row['pods']['allocatable']}",
            right=True,
        ),
        *([Column("HOT", _hot)] if any(row.get("hot") for row in rows) else ()),
        Column("SAMPLE AGE", lambda row: age(_age(row)), right=True),
    )


def node_columns(rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    """The table of nodes; a column for each signal that any of them tells."""
    from dispatcher.cli.tables import node_status, ready_style

    return (
        Column("CLUSTER", lambda row: row["cluster"]),
        Column("NAME", lambda row: row["name"]),
        Column("STATUS", node_status, ready_style),
        *_middle(rows),
        Column("SOURCE", _node_sources, lambda row: "dim"),
    )


def _node_sources(row: Row) -> str:
    """'kubelet', or where there are several 'prometheus (cpu, network), kubelet (memory)'."""
    told: dict[str, list[str]] = {}
    for signal, load in row["load"].items():
        if load.get("source"):
            told.setdefault(load["source"], []).append(signal)
    if len(told) < 2:
        return ", ".join(told) or "-"
    return ", ".join(f"{source} ({', '.join(signals)})" for source, signals in told.items())


def cluster_columns(rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    """The table of clusters."""
    from dispatcher.cli.tables import ready, ready_style

    return (
        Column("CLUSTER", lambda row: row["cluster"]),
        Column("STATUS", ready, ready_style),
        Column("NODES", lambda row: str(row["nodes"]), right=True),
        Column(
            "READ",
            lambda row: str(max((one["known"] for one in row["load"].values()), default=0)),
            right=True,
        ),
        *_middle(rows),
        Column("HOTTEST", _hottest),
        Column("SOURCE", _cluster_sources, lambda row: "dim"),
    )


def _hottest(row: Row) -> str:
    from dispatcher.cli.tables import share

    found = row["load"].get("cpu", {}).get("hottest")
    return f"{found['node']} {share(found['used'])}" if found else "-"


def _cluster_sources(row: Row) -> str:
    return (
        ", ".join(sorted({source for load in row["load"].values() for source in load["sources"]}))
        or "-"
    )
