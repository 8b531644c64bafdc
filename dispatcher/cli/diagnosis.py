"""What is wrong with clusters and their sources of live load, and what to do: rows of the API in,
findings out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dispatcher.cli.remedies import about_ambiguous, about_silent, about_unmatched, remedy
from shared.model.names import NONE, SERVICES, marks_lost, proxy_node_name
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

Row = Mapping[str, Any]
PROBLEM = "problem"
NOTE = "note"
_NAMED = 3  # nodes or series named in one line
_NEEDED = frozenset((CPU_SIGNAL, MEMORY_SIGNAL))  # which every source that does well tells
# the latter by default, orders.clock_skew_s
_CLOCKS_APART_S = 2.0
_CLOCKS_REFUSED_S = 60.0
_OLDEST = (1, 31)  # Kubernetes
_MINOR = re.compile(r"v?(\d+)\.(\d+)")
_SLOW_S = 3.0  # an answer that takes longer is worth a word: the default timeout is 5 s


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing. `about`: the source, or empty for the cluster itself. `level`: PROBLEM or NOTE
    (nothing is lost).
    """

    cluster: str
    about: str
    level: str
    text: str
    fix: str

    def row(self) -> dict[str, str]:
        """JSON-ready."""
        return asdict(self)


_SEE_ITS_LOG = "see the agent's log, and whether its API server answers (docs/troubleshooting.md)"
_NOT_READY = (  # words of the problem, and what to do
    (
        "is not connected",
        "see whether the agent runs; its log says why it does not reach the gateway "
        "(docs/connectivity.md); of one "
        "that the dispatcher starts on Ray: the dispatcher's log says where no node has a place "
        "for it",
    ),
)


def diagnose(clusters: Iterable[Row], telemetry: Iterable[Row], version: str = "") -> list[Finding]:
    """All findings, cluster by cluster; `clusters` and `telemetry` as the HTTP API gives them, and
    the dispatcher's version.
    """
    found: dict[str, list[Finding]] = {}
    for row in clusters:
        findings = (
            *_of_cluster(row),
            *_of_proxies(row),
            *_of_starts(row),
            *_of_clock(row),
            *_of_versions(row, version),
            *_of_namespaces(row),
        )
        found.setdefault(row["name"], []).extend(findings)
    for row in telemetry:
        found.setdefault(row["cluster"], []).extend(_of_telemetry(row))
    return [
        one
        for name in sorted(found)
        for one in sorted(found[name], key=lambda one: one.level != PROBLEM)
    ]


def _of_cluster(row: Row) -> Iterator[Finding]:
    if not row["ready"]:
        text = f"no new pods go there: {row['problem'] or 'it is not ready'}"
        fix = next((fix for words, fix in _NOT_READY if words in text), _SEE_ITS_LOG)
        yield Finding(row["name"], "", PROBLEM, text, fix)
    elif row["problem"]:
        yield Finding(
            row["name"],
            "",
            PROBLEM,
            row["problem"],
            "see the agent's log (docs/troubleshooting.md)",
        )


def _of_proxies(row: Row) -> Iterator[Finding]:
    """Clusters in which it can have no proxy node."""
    for home in row.get("name_taken_in", ()):
        node = proxy_node_name(row["name"])
        text = (
            f"no pod of cluster {home} goes there: {home} has a node of its own that is named "
            f"{node}"
        )
        fix = (
            f"rename that node, or cluster {row['name']} (docs/operations.md): its proxy node in "
            f"{home} has that name; "
            f"{marks_lost(node)}"
        )
        yield Finding(row["name"], f"proxy node in {home}", PROBLEM, text, fix)


def _of_starts(row: Row) -> Iterator[Finding]:
    if count := row.get("unstarted", 0):
        text = f"{count} pod(s) of other clusters have not started there for timing.start_s"
        yield Finding(
            row["name"],
            "remote pods",
            PROBLEM,
            text,
            "`explain` of one says what its kubelet waits for",
        )


def _of_namespaces(row: Row) -> Iterator[Finding]:
    """Whose pods stay in this cluster though they may leave it."""
    for one in row.get("apart", ()):
        about = f"namespace {one['namespace']}"
        if one["absent_in"]:
            text = (
                "its pods go to no cluster without the namespace: "
                f"{_some(one['absent_in'], len(one['absent_in']))}"
            )
            fix = (
                f"kubectl create namespace {one['namespace']} in those clusters, or list it there in "
                "executor.namespaces.create, if its pods may run there"
            )
            yield Finding(row["name"], about, NOTE, text, fix)
        lacking: dict[tuple[str, ...], list[str]] = {}
        for cluster, services in one["services"].items():
            lacking.setdefault(tuple(services), []).append(cluster)
        for services, clusters in lacking.items():
            text = (
                f"its pods do not go where Services are lacking ({_some(services, len(services))}): "
                f"in {_some(clusters, len(clusters))}"
            )
            fix = (
                "create them there, have Services follow (one `network` of both clusters, and "
                "executor.services), or, where pods call none by name, kubectl label namespace "
                f"{one['namespace']} "
                f"{SERVICES}={NONE} in cluster {row['name']}"
            )
            yield Finding(row["name"], about, NOTE, text, fix)


def _of_clock(row: Row) -> Iterator[Finding]:
    ahead = row.get("clock_ahead_s") or 0.0
    if abs(ahead) < _CLOCKS_APART_S:
        return
    level = PROBLEM if abs(ahead) > _CLOCKS_REFUSED_S else NOTE
    where = "ahead of" if ahead > 0 else "behind"
    known, is_ = ("when it last answered, ", "was") if row.get("silent") else ("", "is")
    text = (
        f"{known}its agent's clock {is_} at least {abs(ahead):.0f} s {where} the dispatcher's: "
        "ages of samples are as "
        "wrong; beyond the agent's orders.clock_skew_s orders are refused"
    )
    yield Finding(row["name"], "clock", level, text, "set the clocks of both machines (NTP)")


def _of_versions(row: Row, dispatcher: str) -> Iterator[Finding]:
    agent = row.get("agent_version", "")
    server = row.get("server_version", "")
    if agent and dispatcher and agent != dispatcher:
        text = f"its agent is of version {agent}, the dispatcher of {dispatcher}"
        fix = (
            "upgrade the older one; between neighbouring versions any order will do "
            "(docs/operations.md)"
        )
        yield Finding(row["name"], "version", NOTE, text, fix)
    found = _MINOR.match(server)
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        yield Finding(
            row["name"],
            "version",
            PROBLEM,
            f"its API server is of {server}",
            f"Kubernetes {oldest} is the oldest supported",
        )


def _of_telemetry(row: Row) -> Iterator[Finding]:
    cluster = row["cluster"]
    if row["problem"]:
        fix = "see whether the agent runs, and its log; the findings above may say why"
        yield Finding(cluster, "", PROBLEM, f"its sources are not known: {row['problem']}", fix)
        return
    for source in row["sources"]:
        for level, text, fix in _of_source(source, row):
            yield Finding(cluster, source["name"], level, text, fix)
    yield from _unread(row)


def _unread(row: Row) -> Iterator[Finding]:
    """Signals of which no source tells the same nodes, in one finding."""
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for missing in row["unread"]:
        alike.setdefault((missing["nodes"], tuple(missing["names"])), []).append(missing["signal"])
    for (nodes, names), signals in alike.items():
        told = _counted(nodes, row["nodes"], "nodes", names)
        text = (
            f"no source tells {', '.join(signals)} of {told}, or not any more: placement uses the "
            "last readings, if "
            "there are any, until the profile's stale_s, then requests"
        )
        fix = (
            "mend the sources; `global-dispatcher signals check` shows what each of them would "
            "tell of a node"
        )
        yield Finding(
            row["cluster"], "", PROBLEM if _NEEDED.intersection(signals) else NOTE, text, fix
        )


def _of_source(source: Row, row: Row) -> Iterator[tuple[str, str, str]]:
    """(level, what, what to do)."""
    key = source["key"]
    if not source["asked"]:
        yield NOTE, "was not asked yet", "wait; it is asked once the nodes are listed"
        return
    yield from _failing(source, row, key)
    yield from _stale(source, row)
    yield from _matching(source, key)
    if source["rejected"]:
        told = ", ".join(
            f"{count} {reason}" for reason, count in sorted(source["rejected"].items())
        )
        yield (
            NOTE,
            f"numbers that were not believed so far: {told}",
            _rejected_fix(source["rejected"]),
        )
    if source["lag_s"] > _SLOW_S:
        yield (
            NOTE,
            f"took {source['lag_s']:.1f} s for its latest answer",
            "ask it for less, or give it more CPU",
        )


def _failing(source: Row, row: Row, key: str) -> Iterator[tuple[str, str, str]]:
    if source["failing"]:
        (first, why), *_ = source["failing_names"].items()
        told = _counted(source["failing"], row["nodes"], "nodes", source["failing_names"])
        does = "does" if source["failing"] == 1 else "do"
        yield PROBLEM, f"{told} {does} not answer; {first}: {why}", remedy(why, key)
    elif source["problem"]:
        yield PROBLEM, f"{_how(source)}: {source['problem']}", remedy(source["problem"], key)


def _how(source: Row) -> str:
    """How a source fails: as a whole, or in part."""
    if source["answered_s"] is None:
        return "fails, and has never answered"
    if source["ages"] and source["errors"] == 0:
        return "does not tell all that it is asked"
    return f"fails, and has last answered {source['answered_s']:.0f} s ago"


def _stale(source: Row, row: Row) -> Iterator[tuple[str, str, str]]:
    if source["problem"] or source["failing"]:
        return
    ages = [median for _, median, _ in source["ages"].values()]
    if ages and min(ages) > row["stale_s"]:
        text = (
            f"answers, but its samples are stale: {min(ages):.0f} s old, and {row['stale_s']:g} s "
            "is the limit"
        )
        yield PROBLEM, text, _STALE_FIX
    elif source["silent"] and source["nodes"]:
        told = _counted(source["silent"], row["nodes"], "nodes", source["silent_names"])
        yield PROBLEM, f"tells nothing fresh of {told}", about_silent(source["key"])
    elif source["silent"] and source["asked"] > 1:
        yield (
            PROBLEM,
            f"answers, but tells nothing of any of the {row['nodes']} nodes",
            _NOTHING_FIX,
        )


_STALE_FIX = (
    "see whether what it measures with still runs (targets of Prometheus, who writes the file), "
    "or raise "
    "telemetry.stale_s"
)
_NOTHING_FIX = (
    "see that the sets of queries are for what is scraped there, and node_labels and cluster_label "
    "(`global-dispatcher signals check` shows each query)"
)


def _matching(source: Row, key: str) -> Iterator[tuple[str, str, str]]:
    if source["unmatched"]:
        yield (
            PROBLEM if not source["nodes"] else NOTE,
            f"{_series(source['unmatched'], source['unmatched_names'])} of no known node",
            about_unmatched(key),
        )
    if source["ambiguous"]:
        yield (
            PROBLEM,
            f"{_series(source['ambiguous'], source['ambiguous_names'])} of several nodes, or "
            "several of one node",
            about_ambiguous(key),
        )


def _rejected_fix(reasons: Iterable[str]) -> str:
    if "from the future" in reasons or "without a time" in reasons:
        return (
            "set the clocks of the nodes (NTP); samples without a time are those of exporters "
            "that are gone"
        )
    return "see what the source measures: such a number is no load of a node"


def _counted(count: int, of: int, what: str, names: Iterable[str]) -> str:
    """'2 of 10 nodes (a, b)', or 'all 10 nodes'."""
    if count >= of > 1:
        return f"all {of} {what}"
    return f"{count} of {of} {what} ({_some(list(names), count)})"


def _series(count: int, names: Sequence[str]) -> str:
    return f"{count} series ({_some(names, len(names))})"  # one name may be that of many


def _some(names: Sequence[str], count: int) -> str:
    more = count - min(len(names), _NAMED)
    return "; ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
