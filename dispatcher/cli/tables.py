"""The columns of the tables that commands print: clusters, nodes, pods, plugins."""

from dispatcher.cli.output import Column, Row

PHASE_STYLES = {
    "Running": "green",
    "Succeeded": "cyan",
    "Pending": "yellow",
    "Failed": "bold red",
    "Terminating": "dim",
}


def share(value: float | None) -> str:
    """A share 0..1 in percent, '-' if unknown."""
    return "-" if value is None else f"{value * 100:.0f}%"


def age(seconds: float | None) -> str:
    """A duration the way kubectl shows it: 4s, 3m, 2h; '-' if unknown."""
    if seconds is None:
        return "-"
    for unit, suffix in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)}{suffix}"
    return f"{seconds:.1f}s" if seconds < 1 else f"{int(seconds)}s"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}ms" if value < 100 else f"{value:.0f}ms"


def _field(key: str) -> Column:
    return Column(
        key.upper(), lambda row: str(row.get(key) if row.get(key) not in (None, "") else "-")
    )


def ready(row: Row) -> str:
    """Of a cluster or a node."""
    return "Ready" if row["ready"] else "NotReady"


def ready_style(row: Row) -> str:
    """The style of that word."""
    return "green" if row["ready"] else "bold red"


def _cluster_status(row: Row) -> str:
    return ready(row) + (
        ",Fenced" if row.get("fenced_in") else ",Cordoned" if row.get("cordoned_in") else ""
    )


def node_status(row: Row) -> str:
    """As kubectl shows it."""
    return ready(row) + (",SchedulingDisabled" if row["unschedulable"] else "")


def _use(resource: str) -> Column:
    return Column(
        resource.upper(),
        lambda row: f"{row[resource]['requested']}/{row[resource]['allocatable']}",
    )


def _load(key: str, heading: str) -> Column:
    return Column(
        heading,
        lambda row: share(row["load"][key]["used"]),
        lambda row: heat(row["load"][key]["used"]),
        True,
    )


def heat(used: float | None) -> str:
    """The style of a load: green, yellow from 60 %, red from 85 %."""
    if used is None:
        return "dim"
    return "green" if used < 0.6 else "yellow" if used < 0.85 else "red"


CLUSTERS = (
    _field("name"),
    Column("STATUS", _cluster_status, ready_style),
    Column("NODES", lambda row: f"{row['ready_nodes']}/{row['nodes']}", right=True),
    Column("PODS", lambda row: str(row["pods"]), right=True),
    Column("REMOTE", lambda row: str(row.get("remote", "-")), right=True),
    Column("SUBMITTED", lambda row: str(row["submitted"]), right=True),
    Column("REPORT", lambda row: age(row["report_age_s"]), right=True),
    Column("PROBLEM", lambda row: row["problem"] or "-"),
)

LINKS = (
    _field("from"),
    _field("to"),
    Column("RTT", lambda row: _milliseconds(row["rtt_ms"]), right=True),
    Column("JITTER", lambda row: _milliseconds(row["jitter_ms"]), right=True),
    Column(
        "LOSS", lambda row: "-" if row["loss"] is None else f"{row['loss'] * 100:.1f}%", right=True
    ),
    Column("AGE", lambda row: age(row["age_s"]), right=True),
    Column("COUNTS", lambda row: _milliseconds(row["counts_ms"]), lambda row: "bold", right=True),
    _field("source"),
)

NODES = (
    _field("cluster"),
    _field("name"),
    Column("STATUS", node_status, ready_style),
    _use("cpu"),
    _use("memory"),
    _use("pods"),
    _load("cpu", "CPU%"),
    _load("memory", "MEM%"),
    _load("network", "NET%"),
    Column("SAMPLE AGE", lambda row: age(row["load"]["cpu"]["age_s"]), right=True),
)

PODS = (
    _field("namespace"),
    _field("name"),
    _field("source"),
    Column("CLUSTER", lambda row: row["cluster"] or "-", lambda row: "bold"),
    _field("node"),
    Column("PHASE", lambda row: row["phase"], lambda row: PHASE_STYLES.get(row["phase"], "")),
    Column("WHY", lambda row: row["reason"] or "-", lambda row: "dim"),
)


def _amount(key: str) -> Column:
    return Column(key.upper(), lambda row: str(row.get(key, "-")), right=True)


def share_of(value: float | str) -> str:
    """A tenant's weighted share of what can be borrowed."""
    return value if isinstance(value, str) else f"{value * 100:.1f}%"


TENANTS = (
    Column("TENANT", lambda row: "  " * row["level"] + row["tenant"]),
    _field("resource"),
    *map(_amount, ("nominal", "used", "borrowed", "lent", "limit")),
    Column("SHARE", lambda row: share_of(row["share"]), right=True),
    Column("WAITING", lambda row: str(row["waiting"]), right=True),
)

REBALANCING = (
    _field("namespace"),
    _field("name"),
    _field("source"),
    _field("from"),
    Column("TO", lambda row: row["to"] or "-", lambda row: "bold"),
    Column("GAIN", lambda row: "-" if row["gain"] is None else f"{row['gain']:.1f}", right=True),
    Column(
        "RESULT",
        lambda row: row["result"],
        lambda row: "dim" if row["result"] == "stays" else "bold",
    ),
    Column("AGO", lambda row: age(row["age_s"]), right=True),
    Column("WHY", lambda row: row["why"], lambda row: "dim"),
)

PLUGINS = (
    _field("name"),
    Column("POINTS", lambda row: ",".join(row["points"])),
    Column("ARGUMENTS", lambda row: ",".join(row["arguments"]) or "-"),
    Column("ABOUT", lambda row: row["about"] or "-", lambda row: "dim"),
)
