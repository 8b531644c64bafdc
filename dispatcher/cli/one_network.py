"""What doctor says of clusters that are declared to be one pod network: whether their pods reach
each other, and whether both sides let Services follow pods. Rows of the API in, findings out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.tables import age
from shared.model import names
from shared.model.names import UNREACHED, UNTRIED

Row = Mapping[str, Any]
ABOUT = "pod network"
_USELESS = "Services of pods that run across lead nowhere, and IPs of remote pods at home mislead"


def about_networks(clusters: Sequence[Row], only: str = "") -> list[Finding]:
    """All findings, or those of one cluster; `clusters` as the HTTP API gives them."""
    known = [row for row in clusters if "network" in row]
    found = [one for row in known for one in (*_reach(row), *_alone(row, known))]
    found += [one for row in known for one in _services(row, known)]
    return [one for one in found if only in ("", one.cluster)]


def _reach(row: Row) -> Iterator[Finding]:
    here = row["name"]
    untried: dict[str, list[str]] = {}
    for one in row["pod_reach"]:
        if one["state"] == UNREACHED:
            tried = f", {one['failed']} of {one['tries']} tries" if one["tries"] else ""
            text = (
                f"pods of {here} do not reach pods of {one['cluster']} ({one['address']}: "
                f"{one['problem']}{tried}; for {age(one['for_s'])}): {_USELESS}"
            )
            fix = (
                f"see to the routes from {here} to the pods of {one['cluster']}, and that network "
                "policies let the agents' port links.pod_port through; or take `network` out of "
                f"the entry of one of both ({names.OWN_NETWORK})"
            )
            yield Finding(here, ABOUT, PROBLEM, text, fix)
        elif one["state"] == UNTRIED:
            untried.setdefault(one["problem"], []).append(one["cluster"])
    if more := row["pod_reach_more"]:
        text = f"{more} more clusters of its network are not reached, or not known to be"
        fix = "see to those above first; global_dispatcher_pods_reached has all of them"
        yield Finding(here, ABOUT, NOTE, text, fix)
    for problem, others in untried.items():
        text = f"whether its pods reach those of {', '.join(others)} is not measured: {problem}"
        fix = (
            "run agents of this version as pods (the agent's chart), with one links.pod_port in "
            "all clusters of the network (docs/connectivity.md)"
        )
        yield Finding(here, ABOUT, NOTE, text, fix)


def _alone(row: Row, known: Sequence[Row]) -> Iterator[Finding]:
    network = row["network"]
    if network == names.OWN_NETWORK or any(_shared(row, other) for other in known):
        return
    others = sorted({one["network"] for one in known if one is not row})
    text = (
        f"`network: {network}` is that of no other cluster (theirs: {', '.join(others)}): nothing "
        "follows from it"
    )
    fix = "write the same name into the entry of each cluster whose pods reach its pods, or none"
    yield Finding(row["name"], ABOUT, NOTE, text, fix)


def _services(row: Row, known: Sequence[Row]) -> Iterator[Finding]:
    """Of one that has them follow: with whom they do not."""
    if not row["services"]:
        return
    near = [one for one in known if _shared(row, one)]
    if not near:
        text = "executor.services is on, but no other cluster is in its pod network: none follow"
        fix = "write one `network` into the entries of clusters whose pods reach each other"
        yield Finding(row["name"], "Services", NOTE, text, fix)
    without = [one["name"] for one in near if one["services"] is False]
    if without:
        text = (
            f"Services do not follow pods between it and {', '.join(without)}, whose agents have "
            "executor.services off"
        )
        fix = (
            "set executor.services: true in those agents, too (the chart gives the rights), or in "
            "none"
        )
        yield Finding(row["name"], "Services", NOTE, text, fix)


def _shared(row: Row, other: Row) -> bool:
    """Whether two clusters are one pod network."""
    different: bool = row["name"] != other["name"]
    return different and row["network"] == other["network"] != names.OWN_NETWORK
