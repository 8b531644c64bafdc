"""Which node is a series about? By its labels against name, hostname and every address of the
nodes; never a guess.

Exporters name nodes in different ways: kube-prometheus' `instance` is the node's name,
kube-prometheus-stack's is IP:9100, cAdvisor's label is `node` in one chart and `instance` in the
other, DCGM's `Hostname` is often a pod's name. So every label is looked up, and those that mean a
node have to agree.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from agents.observer.loads import Measure, Sample
from agents.observer.seen import NodeTarget
from agents.telemetry.source import Answer, Matching

T = TypeVar("T")

LABELS = ("node", "kubernetes_node", "nodename", "Hostname", "instance")
MAX_NAME = 300  # characters; above that no node is called so


class Nodes:
    """Index of the nodes by all that they are called."""

    def __init__(self, targets: Mapping[str, NodeTarget], labels: Iterable[str] = LABELS) -> None:
        self._labels = tuple(labels)
        self._known: dict[str, set[str]] = {}
        for name, target in targets.items():
            for called in {name, target.address, *target.addresses} - {""}:
                self._known.setdefault(_plain(called), set()).add(name)

    def named(self, label: str) -> set[str]:
        """The nodes that one label's value may mean."""
        if len(label) > MAX_NAME:
            return set()
        return (
            self._known.get(_plain(label)) or self._known.get(_plain(_without_port(label))) or set()
        )

    def find(self, labels: Mapping[str, str], matching: Matching) -> str | None:
        """The one node that the labels are about; None is counted in `matching`."""
        told = {label: labels[label] for label in self._labels if labels.get(label)}
        found = [nodes for value in told.values() if (nodes := self.named(value))]
        agreed = set.intersection(*found) if found else set()
        if len(agreed) == 1:
            return agreed.pop()
        text = (
            ", ".join(f"{label}={value}" for label, value in told.items())
            or "no label that names a node"
        )
        (matching.clash if found else matching.miss)(text)
        return None


def take_by_name(
    answer: Answer,
    source: str,
    told: Iterable[tuple[str, T]],
    targets: Mapping[str, NodeTarget],
    measures: Callable[[T, NodeTarget], dict[str, Measure]],
) -> None:
    """Put into `answer` a sample of each node that is told by one of its names; one that is told
    twice has none.
    """
    nodes = Nodes(targets, ("name",))
    samples = dict[str, Sample]()
    for name, of_node in told:
        node = nodes.find({"name": name}, answer.matching)
        if node is None:
            continue
        if node in samples:
            answer.matching.clash(f"{node} twice")
            samples[node] = Sample(source)
            continue
        samples[node] = Sample(source, measures(of_node, targets[node]))
    answer.samples = {node: sample for node, sample in samples.items() if sample.measures}


def _without_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return text
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


@lru_cache(
    maxsize=2**16
)  # the same of every answer; reading an address takes longer than all else about a series
def _plain(text: str) -> str:
    """Names in lower case, as DNS has them; addresses in their one shortest form."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()
