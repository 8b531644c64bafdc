"""The node and its live readings, reduced to what placement needs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta

from shared.model.bounds import MAX_NAMES, Amount, Text, Word
from shared.model.names import PROXY_LABEL, PROXY_TAINT, proxy_node_name
from shared.model.pod import Record, Toleration
from shared.model.signals import BASE_SIGNALS, CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL

# Of the features that nodes declare, those that decide where pods may go, in the order of their
# names.
RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"
FEATURES = (RESTART_ALL, USER_NAMESPACES, BIND_MOUNT_OPTIONS)
NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class Taint(Record, frozen=True):
    """core/v1 Taint."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        """As kubectl writes it: key=value:effect."""
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )

    def tolerated_by(self, toleration: Toleration) -> bool:
        """Kubernetes' rule: effect, key and (unless Exists) value must agree; empties widen."""
        if toleration.effect and toleration.effect != self.effect:
            return False
        if toleration.key and toleration.key != self.key:
            return False
        if toleration.operator == "Exists":
            return True
        return (
            bool(toleration.key)
            and toleration.operator in ("", "Equal")
            and toleration.value == self.value
        )


class Node(Record, frozen=True):
    """One node. `allocatable` in internal units, rounded down. `bandwidth` in bytes/s per
    direction, 0 unknown.

    `metrics`: name -> finite number of the annotations under names.METRIC_PREFIX, for plugins.
    `proxy_for`: the cluster that it stands for, "" for a node of the cluster itself, whatever its
    name. `features`: what it declares of FEATURES.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    allocatable: dict[Word, Amount] = {}
    bandwidth: int = 0
    images: dict[str, int] = {}
    proxy_for: str = ""
    metrics: dict[str, float] = {}
    features: Annotated[tuple[Word, ...], Meta(max_length=MAX_NAMES)] = ()


def cluster_behind(name: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> str:
    """The cluster that a node stands for, "" for a node of the cluster itself, whatever its name.

    A proxy node carries our label or our taint, and the name that goes with them: whichever of the
    two somebody takes off, its agent puts back.
    """
    marks = (labels.get(PROXY_LABEL, ""), *(one.value for one in taints if one.key == PROXY_TAINT))
    return next((cluster for cluster in marks if cluster and name == proxy_node_name(cluster)), "")


# Put on a node by the node controller, by the Ready condition that its kubelet writes.
_OF_READINESS = frozenset(("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"))


def closing_taints(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Of the taints of a proxy node those that keep new pods away from its cluster: the hard ones
    that somebody has put there.

    Whether that cluster is Ready is known at first hand: the node controller says so of a proxy
    node that was just made, or whose agent begins again, until some seconds after it was mended.
    """
    return tuple(
        one
        for one in taints
        if one.effect != PREFER_NO_SCHEDULE
        and one.key != PROXY_TAINT
        and one.key not in _OF_READINESS
    )


class Reading(Record, frozen=True):
    """Live load of one node: by signal a share 0..1 of its capacity, None unknown, and its age in
    seconds.

    Ages are counted by the agent on its own monotonic clock from the time of the sample, so no two
    machines' clocks are ever compared. `net` is the larger of receive and transmit over the
    bandwidth. `more` holds (share, age) of all signals beside cpu, memory and network, which keep
    the places they had on the wire before there were others. `source` is who told it; where several
    did, joined by "+", and `sources` has who told each signal.
    """

    node: str
    cpu: float | None = None
    memory: float | None = None
    net: float | None = None
    receive_bytes_s: float | None = None
    transmit_bytes_s: float | None = None
    cpu_age_s: float = 0.0
    memory_age_s: float = 0.0
    net_age_s: float = 0.0
    source: Text = ""
    more: Annotated[dict[Word, tuple[float, float]], Meta(max_length=MAX_NAMES)] = {}
    sources: Annotated[dict[Word, Text], Meta(max_length=MAX_NAMES)] = {}

    @classmethod
    def of(
        cls,
        node: str,
        signals: Mapping[str, tuple[float | None, float]],
        sources: Mapping[str, str] | None = None,
        **rates: float | None,
    ) -> "Reading":
        """A reading of (share, age) by signal, and of who told each; `rates`: `receive_bytes_s` and
        `transmit_bytes_s`, if known.
        """
        told_by = dict(sources or {})
        every = dict.fromkeys(told_by.values())  # an ordered set
        cpu, memory, net = (signals.get(name, _UNKNOWN) for name in BASE_SIGNALS)
        more = {
            name: (share, age)
            for name, (share, age) in signals.items()
            if name not in BASE_SIGNALS and share is not None
        }
        return cls(
            node,
            *(cpu[0], memory[0], net[0]),
            rates.get("receive_bytes_s"),
            rates.get("transmit_bytes_s"),
            *(cpu[1], memory[1], net[1]),
            "+".join(every),
            more,
            told_by if len(every) > 1 else {},
        )

    def source_of(self, signal: str) -> str:
        """Who told a signal that is known."""
        return self.sources.get(signal, self.source)

    def signals(self) -> Iterator[tuple[str, float, float]]:
        """(signal, share, age in seconds) of all that are known."""
        if self.cpu is not None:
            yield CPU_SIGNAL, self.cpu, self.cpu_age_s
        if self.memory is not None:
            yield MEMORY_SIGNAL, self.memory, self.memory_age_s
        if self.net is not None:
            yield NETWORK_SIGNAL, self.net, self.net_age_s
        for name, (share, age) in self.more.items():
            yield name, share, age


_UNKNOWN = (None, 0.0)
