"""What one look at an API object tells the observer: its identity, its version, and what placement
needs of it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from shared.model.delegate_events import DelegateEvent
from shared.model.node import Node
from shared.model.node_group import NodeGroup
from shared.model.objects import AnyWatched
from shared.model.pod import Group, Pod, PodRef

NODES = "nodes"
PODS = "pods"


@dataclass(frozen=True, slots=True)
class NodeTarget:
    """What telemetry needs of a node and placement does not: where its kubelet answers, and what
    its shares are of.

    `cpu` in milli-cores and `memory` in bytes are the machine's capacity, `bandwidth` bytes/s per
    direction, 0 unknown. `addresses`: all that its status lists, names among them. `kind`: its
    instance type, empty where it has none.
    """

    name: str
    address: str = ""
    port: int = 10250
    cpu: int = 0
    memory: int = 0
    bandwidth: int = 0
    addresses: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node at one resourceVersion (0 if that is not a number)."""

    node: Node
    version: int
    target: NodeTarget | None = None
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Nodes are known by their name."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class WrongSchedulerName:
    """A pod that asks for us by annotation and for another scheduler by name: it gets one warning
    and is left alone.
    """

    uid: str
    namespace: str
    name: str
    scheduler_name: str


@dataclass(frozen=True, slots=True)
class InvalidAnnotation:
    """Something on a pod that means nothing, or not what its owner takes it for: an event of
    `reason` tells `text`.
    """

    uid: str
    namespace: str
    name: str
    reason: str
    text: str


class GroupMark(NamedTuple):
    """A group that a pod says it is a member of, and in which field. Where an object defines it,
    `group` holds its kind and name alone.
    """

    field: str
    group: Group


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """A pod at one resourceVersion. `pod` is None when nobody needs it: foreign, and holding no
    room on any node.

    `unfinished`: by its scheduler's name it is a delegate, but on no node, and nobody has signed
    for it. `size`: bytes of JSON of a delegate. `memory`: bytes that `pod` takes in the dispatcher.
    `marks`: the groups that a pod of ours names, each once.
    """

    uid: str
    version: int
    pod: Pod | None = None
    misplaced: WrongSchedulerName | None = None
    invalid_annotation: tuple[InvalidAnnotation, ...] = ()
    unfinished: PodRef | None = None
    size: int = 0
    marks: tuple[GroupMark, ...] = ()
    memory: int = 0

    @property
    def key(self) -> str:
        """Pods are known by their UID: a pod made again under the same name is another pod."""
        return self.uid


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object beside nodes and pods at one resourceVersion. Its kind is the name of its record."""

    record: AnyWatched
    version: int
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """namespace/name, or the name alone."""
        return self.record.key

    @property
    def kind(self) -> str:
        """As in `model.objects.ObjectRef`."""
        return type(self.record).__name__


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A PodGroup at one resourceVersion, of the API that `kind` names (`group_kinds.OBJECTS`).

    `holds`: why its pods wait. Else `group`; None: each of them is placed as any other pod.
    `of_all`: why they wait while the group has more members than start together; "": they do not.
    """

    kind: str
    namespace: str
    name: str
    version: int
    group: Group | None = None
    holds: str = ""
    of_all: str = ""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An Event at one resourceVersion, known by its own UID (`key`): what happened to a pod.

    Any writer of events may name any UID, but an event lies in the namespace of what it names.
    """

    key: str
    version: int
    pod_uid: str
    namespace: str  # of the pod
    name: str
    event: DelegateEvent


@dataclass(frozen=True, slots=True)
class NodeGroupSeen:
    """An object that may be a group of nodes at one resourceVersion; `group` None: it is none of
    this cluster. `ready`: how many of its nodes are.
    """

    kind: str
    key: str  # the group's name
    version: int
    group: NodeGroup | None
    ready: int = 0


@dataclass(frozen=True, slots=True)
class AutoscalerSeen:
    """The status of Cluster Autoscaler at one resourceVersion: for which groups it makes no nodes,
    as that has failed.
    """

    key: str
    version: int
    backing_off: frozenset[str]


Seen = NodeSeen | PodSeen | ObjectSeen | GroupSeen | EventSeen | NodeGroupSeen | AutoscalerSeen
