"""The gateway and the clusters that come through it: what they need, and what must not be said of
them here.
"""

import datetime as dt
from collections.abc import Callable, Sequence

from dispatcher.config.certificates import (
    SERVER,
    FileProblem,
    PairFiles,
    authority_problems,
    expiring,
    list_problems,
    pair_problems,
)
from dispatcher.config.document import Document
from dispatcher.config.problems import Problem
from dispatcher.config.sections import ClusterSection, GatewaySection

GATEWAY = "gateway"
FILES = ("cert_file", "key_file", "client_ca_file")


def placed(section: GatewaySection, whole: Callable[[str], str]) -> GatewaySection:
    """The section with whole paths."""
    return section.model_copy(update={name: whole(getattr(section, name)) for name in FILES})


def here(clusters: Sequence[ClusterSection]) -> tuple[ClusterSection, ...]:
    """Those whose agents are actors."""
    return tuple(cluster for cluster in clusters if cluster.via != GATEWAY)


def gateway_problems(
    section: GatewaySection,
    clusters: Sequence[ClusterSection],
    document: Document,
    *,
    reach: bool,
    expired_too: bool,
) -> list[Problem]:
    """What is wrong with both; `reach`: the files must be there, and good, and of this time unless
    `expired_too`.
    """
    coming = [(at, cluster) for at, cluster in enumerate(clusters) if cluster.via == GATEWAY]
    problems = [
        document.problem(
            ("clusters", at, "agent"),
            "is in a file of its own where the agent dials in: move it there",
        )
        for at, cluster in coming
        if cluster.agent
    ]
    for name in FILES if coming else ():
        file = getattr(section, name)
        if not file:
            text = (
                f"is missing: cluster {coming[0][1].name} comes through the gateway "
                "(docs/connectivity.md)"
            )
            problems.append(document.problem((GATEWAY, name), text))
    if coming and reach and not any(one.key.startswith(f"{GATEWAY}.") for one in problems):
        problems += [
            document.problem((GATEWAY, one.key), one.text)
            for one in _file_problems(section, expired_too)
        ]
    return problems


def _file_problems(section: GatewaySection, expired_too: bool) -> list[FileProblem]:
    now = None if expired_too else dt.datetime.now(dt.UTC)
    return [
        *pair_problems(PairFiles(section.cert_file, section.key_file, SERVER), now),
        *authority_problems("client_ca_file", section.client_ca_file, now),
        *list_problems("client_ca_file", section.client_ca_file, now),
    ]


def gateway_notes(
    section: GatewaySection, clusters: Sequence[ClusterSection], document: Document
) -> list[Problem]:
    """What of the gateway's files is good, and ends soon."""
    if len(here(clusters)) == len(clusters):
        return []
    now = dt.datetime.now(dt.UTC)
    found = (
        one
        for key in ("cert_file", "client_ca_file")
        for one in expiring(key, getattr(section, key), now)
    )
    return [document.problem((GATEWAY, one.key), one.text) for one in found]
