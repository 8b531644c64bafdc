"""What each agent is told: its section of dispatcher.yaml as the agent's own settings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings
from dispatcher.config.access import usual_kubeconfig
from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.sections import ClusterSection
from dispatcher.config.validation import findings
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.process.keyfile import KeyFileError, default_path, read_keys
from shared.streams.calls import BOTH

# Set by keys of the cluster itself.
_BESIDE = {"cluster": "name", "kubeconfig": "kubeconfig", "context": "context", "role": "via"}
_RELAY = "relay"  # of an agent's process, as in agent.yaml
_OF_ONE = {  # what no two clusters have in common
    "uid": "{value} is that of {twin}, too: one cluster may be listed once",
    "key": "{value} is given for {twin} and for {name}: each cluster signs with a key of its own",
}


def agent_file_problems(cluster: ClusterSection, at: int, document: Document) -> list[Problem]:
    """Which files of the agent of the cluster at index `at` cannot be used; paths are whole
    already.
    """
    path: Path = ("clusters", at, "agent")
    problems: list[Problem] = []
    if cluster.via != "ray":
        return problems
    file = cluster.agent.get("key_file", "")
    kubelet = cluster.agent.get("kubelet")
    keys = FilePath(file) if file and isinstance(file, str) else default_path(cluster.name)
    if keys != default_path(cluster.name) or os.path.exists(
        keys
    ):  # the default file is made where there is none
        try:
            read_keys(keys, cluster.name)
        except KeyFileError as error:
            problems.append(document.problem((*path, "key_file"), str(error)))
    ca_file = kubelet.get("ca_file") if isinstance(kubelet, Mapping) else None
    if isinstance(ca_file, str) and ca_file and not os.path.isfile(ca_file):
        text = (
            f"there is no file {ca_file}: name the CA of the kubelets' certificates, or remove "
            "the key"
        )
        problems.append(document.problem((*path, "kubelet", "ca_file"), text))
    return problems


def consent_problems(clusters: Sequence[ClusterSection], document: Document) -> list[Problem]:
    """Rows of `accept` that name clusters of which none is configured."""
    names = [cluster.name for cluster in clusters]
    return [
        document.problem(
            path, f"{shown(pattern)} is no configured cluster{did_you_mean(pattern, names)}"
        )
        for at, cluster in enumerate(clusters)
        for path, pattern in _accepted(cluster, ("clusters", at, "agent", "executor", "accept"))
        if not any(fnmatchcase(name, pattern) for name in names)
    ]


def _accepted(cluster: ClusterSection, path: Path) -> Iterator[tuple[Path, str]]:
    """(path, pattern) of every cluster that the rows of a section accept, whatever its shape."""
    executor = cluster.agent.get("executor")
    for row_at, row in _items(executor, "accept"):
        for at, pattern in _items(row, "clusters"):
            if isinstance(pattern, str):
                yield (*path, row_at, "clusters", at), pattern


def _items(section: object, key: str) -> list[tuple[int, Any]]:
    found = section.get(key) if isinstance(section, Mapping) else None
    return list(enumerate(found)) if isinstance(found, list) else []


def agent_settings(cluster: ClusterSection) -> AgentSettings:
    """The settings of the agent of one cluster; pydantic's ValidationError for keys that the agent
    does not know.
    """
    given: dict[str, Any] = {
        **{key: value for key, value in cluster.agent.items() if key != _RELAY},
        "cluster": cluster.name,
        "kubeconfig": cluster.kubeconfig or usual_kubeconfig(),
        "context": cluster.context,
        "role": BOTH,  # on Ray there is one process
    }
    return AgentSettings.model_validate(given)


def relay_settings(cluster: ClusterSection) -> RelaySettings | None:
    """Where the agent of a cluster that is started here serves as kubelet; None: nowhere.
    ValidationError.
    """
    given = cluster.agent.get(_RELAY)
    return None if given is None else RelaySettings.model_validate(given)


def relays_of(clusters: Sequence[ClusterSection]) -> dict[str, RelaySettings]:
    """Of those that have one, by cluster."""
    return {one.name: relay for one in clusters if (relay := relay_settings(one)) is not None}


def agent_problems(cluster: ClusterSection, at: int, document: Document) -> list[Problem]:
    """What is wrong with the `agent` section of the cluster at index `at`."""
    path = ("clusters", at, "agent")
    problems = [
        document.problem((*path, key), f"is set by `{beside}` of the cluster: remove it here")
        for key, beside in _BESIDE.items()
        if key in cluster.agent
    ]
    try:
        agent_settings(cluster)
    except ValidationError as error:
        problems += findings(AgentSettings, document, error, path)
    try:
        relay_settings(cluster)
    except ValidationError as error:
        problems += findings(RelaySettings, document, error, (*path, _RELAY))
    return problems


def peer_word_problems(
    clusters: Sequence[ClusterSection], peers_s: float, document: Document
) -> list[Problem]:
    """Agents that would refuse new remote pods between two tellings of the peers, as the word is
    too old by then.
    """
    problems: list[Problem] = []
    for at, cluster in enumerate(clusters):
        if cluster.via == "gateway":  # which has a file of its own
            continue
        with suppress(ValidationError):  # told by `agent_problems`
            if agent_settings(cluster).executor.peer_ttl_s < 2 * peers_s:  # one telling may be lost
                text = (
                    f"must be at least twice timing.peers_s ({peers_s:g}), or remote pods are "
                    "refused in between"
                )
                problems.append(
                    document.problem(("clusters", at, "agent", "executor", "peer_ttl_s"), text)
                )
    return problems


def cluster_problems(clusters: Sequence[ClusterSection], document: Document) -> list[Problem]:
    """What is wrong with the list: of each cluster, and what two of them have in common that only
    one can have.
    """
    problems: list[Problem] = []
    seen: set[str] = set()
    pins: dict[tuple[str, str], str] = {}
    for at, cluster in enumerate(clusters):
        if cluster.name in seen:
            problems.append(
                document.problem(
                    ("clusters", at, "name"), f"cluster {cluster.name} is listed twice"
                )
            )
        seen.add(cluster.name)
        for pin, text in _OF_ONE.items():
            value = getattr(cluster, pin)
            twin = pins.setdefault((pin, value), cluster.name) if value else cluster.name
            if twin != cluster.name:
                told = text.format(value=value, twin=twin, name=cluster.name)
                problems.append(document.problem(("clusters", at, pin), told))
        problems += agent_problems(cluster, at, document)
    return problems + consent_problems(clusters, document)
