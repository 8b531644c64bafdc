"""Small builders for tests: valid by default, so that a test names only what it is about.

`node("n1").cpu("4").labels(zone="a")` and `pod("web-1").cpu("500m")` are fluent and end in `.build()`; every place that
takes a built object in this module takes the builder, too. `fleet(a=[node("n1")])` is a FleetState with Ready clusters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.model import names
from shared.model.labels import LabelSelector, NodeSelectorTerm, PreferredTerm, Requirement
from shared.model.node import NO_SCHEDULE, Node, Reading, Taint
from shared.model.pod import (
    Affinity,
    HostPort,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SourceRef,
    SpreadConstraint,
    Toleration,
    WeightedPodAffinityTerm,
)
from shared.model.resources import parse_resources
from shared.model.topology import LEVELS


def _label_key(name: str) -> str:
    """A fault-domain level stands for its label: labels(zone="a")."""
    return LEVELS.get(name) or name


class NodeBuilder:
    """A Ready node with 4 CPU, 8 GiB and room for 110 pods, unless told otherwise."""

    def __init__(self, name: str) -> None:
        self._fields: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "ready": True}
        self._allocatable: dict[str, object] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        self._labels: dict[str, str] = {names.HOSTNAME: name}
        self._taints: list[Taint] = []

    def cpu(self, quantity: str | int) -> Self:
        """Allocatable CPU as Kubernetes writes it: "4", "250m"."""
        return self.resource("cpu", quantity)

    def memory(self, quantity: str | int) -> Self:
        """Allocatable memory: "8Gi"."""
        return self.resource("memory", quantity)

    def pods(self, count: int) -> Self:
        """How many pods fit."""
        return self.resource("pods", count)

    def resource(self, name: str, quantity: str | int) -> Self:
        """Any allocatable resource."""
        self._allocatable[name] = quantity
        return self

    def labels(self, **labels: str) -> Self:
        """Labels by name; region, zone, rack and provider stand for their well-known labels."""
        return self.label(labels)

    def label(self, labels: Mapping[str, str]) -> Self:
        """Labels whose keys are no Python names."""
        self._labels.update({_label_key(key): value for key, value in labels.items()})
        return self

    def taint(self, key: str, value: str = "", effect: str = NO_SCHEDULE) -> Self:
        """One more taint."""
        self._taints.append(Taint(key, value, effect))
        return self

    def ready(self, ready: bool = True) -> Self:
        """The Ready condition."""
        self._fields["ready"] = ready
        return self

    def cordoned(self) -> Self:
        """spec.unschedulable."""
        self._fields["unschedulable"] = True
        return self

    def declares(self, *features: str) -> Self:
        """status.declaredFeatures."""
        self._fields["features"] = features
        return self

    def images(self, sizes: Mapping[str, int]) -> Self:
        """The images it holds, in bytes."""
        self._fields["images"] = dict(sizes)
        return self

    def bandwidth(self, bytes_per_second: int) -> Self:
        """Network capacity per direction."""
        self._fields["bandwidth"] = bytes_per_second
        return self

    def build(self) -> Node:
        """The node."""
        return Node(
            **self._fields,
            labels=dict(self._labels),
            taints=tuple(self._taints),
            allocatable=parse_resources(self._allocatable, where="allocatable", round_up=False),
        )


class PodBuilder:
    """A pending pod of namespace `default` that requests nothing, unless told otherwise."""

    def __init__(self, name: str) -> None:
        self._fields: dict[str, Any] = {
            "uid": f"uid-{name}",
            "namespace": "default",
            "name": name,
            "scheduler_name": names.SCHEDULER_NAME,
        }
        self._requests: dict[str, object] = {}
        self._preferred: list[PreferredTerm] = []
        self._required: tuple[NodeSelectorTerm, ...] | None = None

    def set(self, **fields: Any) -> Self:
        """Any field of `model.pod.Pod` as it is."""
        self._fields.update(fields)
        return self

    def _add(self, field: str, *items: Any) -> Self:
        self._fields[field] = (*self._fields.get(field, ()), *items)
        return self

    def namespace(self, namespace: str) -> Self:
        """The namespace."""
        return self.set(namespace=namespace)

    def uid(self, uid: str) -> Self:
        """The UID, by default `uid-<name>`."""
        return self.set(uid=uid)

    def cpu(self, quantity: str | int) -> Self:
        """CPU request."""
        return self.request("cpu", quantity)

    def memory(self, quantity: str | int) -> Self:
        """Memory request."""
        return self.request("memory", quantity)

    def request(self, name: str, quantity: str | int) -> Self:
        """Request of any resource."""
        self._requests[name] = quantity
        return self

    def labels(self, **labels: str) -> Self:
        """Pod labels."""
        return self.set(labels={**self._fields.get("labels", {}), **labels})

    def annotation(self, key: str, value: str) -> Self:
        """One more annotation."""
        return self.set(annotations={**self._fields.get("annotations", {}), key: value})

    def priority(self, priority: int) -> Self:
        """spec.priority."""
        return self.set(priority=priority)

    def created(self, created: float) -> Self:
        """creationTimestamp in seconds."""
        return self.set(created=created)

    def gated(self) -> Self:
        """Has scheduling gates."""
        return self.set(gated=True)

    def node_selector(self, labels: Mapping[str, str]) -> Self:
        """spec.nodeSelector."""
        return self.set(node_selector={_label_key(key): value for key, value in labels.items()})

    def requires(self, key: str, operator: str, *values: str) -> Self:
        """One more alternative term of required node affinity, of one clause."""
        term = NodeSelectorTerm((Requirement(_label_key(key), operator, values),))
        self._required = (*(self._required or ()), term)
        return self

    def prefers(self, weight: int, key: str, operator: str, *values: str) -> Self:
        """One more preferred node affinity term, of one clause."""
        term = NodeSelectorTerm((Requirement(_label_key(key), operator, values),))
        self._preferred.append(PreferredTerm(weight, term))
        return self

    def tolerates(self, key: str = "", value: str = "", *, operator: str = "Equal", effect: str = "") -> Self:
        """One more toleration."""
        return self._add("tolerations", Toleration(key, operator, value, effect))

    def port(self, port: int, protocol: str = "TCP", ip: str = "0.0.0.0") -> Self:
        """One more host port."""
        return self._add("ports", HostPort(port, protocol, ip))

    def spread(
        self,
        key: str,
        max_skew: int = 1,
        *,
        hard: bool = True,
        selector: LabelSelector | None = None,
        min_domains: int = 1,
    ) -> Self:
        """One more spread constraint."""
        return self._add("spread", SpreadConstraint(key, max_skew, hard, selector, min_domains))

    def near(self, key: str, *selectors: LabelSelector | None, weight: int = 0, **where: Any) -> Self:
        """Pod affinity terms of one key, required without a weight; `where`: namespaces, namespace_selector."""
        return self._tie("pod_affinity", key, selectors, weight, where)

    def away(self, key: str, *selectors: LabelSelector | None, weight: int = 0, **where: Any) -> Self:
        """Pod anti-affinity terms, as in `near`."""
        return self._tie("pod_anti_affinity", key, selectors, weight, where)

    def _tie(
        self, field: str, key: str, selectors: Sequence[LabelSelector | None], weight: int, where: dict[str, Any]
    ) -> Self:
        known: PodAffinity = self._fields.get(field) or PodAffinity()
        own = {"namespaces": () if where.get("namespace_selector") else (self._fields["namespace"],), **where}
        terms = tuple(PodAffinityTerm(_label_key(key), selector, **own) for selector in selectors)
        if weight:
            weighted = tuple(WeightedPodAffinityTerm(weight, term) for term in terms)
            return self.set(**{field: PodAffinity(known.required, (*known.preferred, *weighted))})
        return self.set(**{field: PodAffinity((*known.required, *terms), known.preferred)})

    def delegate_of(self, cluster: str, uid: str, *, epoch: int = 1) -> Self:
        """Make it the delegate of a source pod."""
        fields = self._fields
        return self.set(source=SourceRef(cluster, f"kube-{cluster}", fields["namespace"], fields["name"], uid, epoch))

    def on(self, node: str, phase: str = "Running") -> Self:
        """Bound to a node, in a phase."""
        return self.set(node=node, phase=phase)

    def build(self) -> Pod:
        """The pod."""
        requests = parse_resources(self._requests, where="requests")
        affinity = Affinity(self._required, tuple(self._preferred)) if self._required or self._preferred else None
        return Pod(**{"affinity": affinity, **self._fields, "requests": requests})

    def placed(self, home: str = "a") -> PodInfo:
        """The pod as submitted in cluster `home`."""
        return PodInfo(self.build(), home)


def node(name: str = "n1") -> NodeBuilder:
    """Start a node."""
    return NodeBuilder(name)


def pod(name: str = "p1") -> PodBuilder:
    """Start a pod."""
    return PodBuilder(name)


def selector(**labels: str) -> LabelSelector:
    """A label selector of matchLabels."""
    return LabelSelector(dict(labels))


def built_node(one: NodeBuilder | Node | str) -> Node:
    """A node from a builder, a node or a name."""
    if isinstance(one, str):
        return node(one).build()
    return one.build() if isinstance(one, NodeBuilder) else one


def built_pod(one: PodBuilder | Pod | str) -> Pod:
    """A pod from a builder, a pod or a name."""
    if isinstance(one, str):
        return pod(one).build()
    return one.build() if isinstance(one, PodBuilder) else one


def fleet(*, now: float = 1000.0, **clusters: Sequence[NodeBuilder | Node | str]) -> FleetState:
    """A fleet of Ready clusters: fleet(a=[node("n1"), "n2"], b=["n1"])."""
    state = FleetState(now=now)
    for name, nodes in clusters.items():
        state.set_cluster(name, ready=True, synced=True)
        for one in nodes:
            state.put_node(name, built_node(one))
    return state


def put(state: FleetState, one: PodBuilder | Pod | str, cluster: str, node_name: str, *, home: str = "a") -> Pod:
    """Seat a pod on a node as if its cluster had shown it there; returns the pod."""
    seated = built_pod(one)
    state.place((home, seated.uid), PodInfo(seated, home), cluster, node_name, assumed=False)
    return seated


def reading(node_name: str, *, age: float = 0.0, **shares: Any) -> Reading:
    """A reading with one age for all: reading("n1", cpu=0.5, net=0.1, age=10)."""
    plain = Reading(node_name, source="test", cpu_age_s=age, memory_age_s=age, net_age_s=age)
    return msgspec.structs.replace(plain, **shares)
