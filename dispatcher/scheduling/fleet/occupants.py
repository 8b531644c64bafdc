"""What pods take on a row: who sits where, their share of the columns, and which of it no reading
shows yet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import AppName, AppNames, Label, PodSet
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.messages.pod_cache import POD_CACHE_BYTES, said
from shared.model.names import DOMAIN_SCOPE, is_app_label
from shared.model.node import Node
from shared.model.pod import RUNNING, Pod, PodId


class Occupant(msgspec.Struct, eq=False, gc=False):
    """A pod on a node. `row` is None while that node is unknown; `assumed` until the cluster shows
    the pod there.

    `placed_at`, `unseen_cpu` and `unseen_memory` say since when it is there and whether `recent`
    still counts it; `settles` whether the means may not hold all of its load yet, and `settling`
    what of its (CPU, memory) `settling` of the columns counts for it, by `counts_as` as it was when
    the pod came (`PodInfo.counts_as`), else by its request.
    """

    pod_id: PodId
    pod_info: PodInfo
    cluster: str
    node: str
    assumed: bool
    placed_at: float
    row: int | None = None
    unseen_cpu: bool = False
    unseen_memory: bool = False
    settles: bool = False
    counts_as: tuple[int, int] | None = None
    settling: tuple[int, int] = (0, 0)

    @property
    def amounts(self) -> tuple[int, int]:
        """(milli-CPU, bytes) that it counts as until the means hold its load."""
        return self.counts_as or nonzero_request(self.pod_info.pod)

    @property
    def is_awaited(self) -> bool:
        """Whether readings to come will change what is counted for it."""
        return self.settles or self.unseen_cpu or self.unseen_memory


_pod_id_of = attrgetter("pod_id")
_footprint_of = attrgetter(
    "requests", "expected", "ports", "volumes", "namespace", "terminating", "pod_affinity", "pod_anti_affinity",
    "labels_cut",
)  # fmt: skip


def same_footprint(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod take and count the same on their node, but for what their
    labels say.
    """
    return one is other or (
        _footprint_of(one) == _footprint_of(other)
        and one.annotations.get(DOMAIN_SCOPE) == other.annotations.get(DOMAIN_SCOPE)
    )


_counted_by = attrgetter(
    "namespace", "labels", "annotations", "terminating", "pod_affinity", "pod_anti_affinity"
)


def runs_alike(pods: Sequence[PodInfo]) -> Iterator[tuple[PodInfo, slice]]:
    """Runs of pods that count the same wherever pods are counted: the first of each, and which pods
    these are.
    """
    counted_by = list(
        zip([one.home for one in pods], map(_counted_by, [one.pod for one in pods]), strict=True)
    )
    first = 0
    while first < len(pods):
        end = len(pods)
        if first or counted_by.count(counted_by[0]) < end:  # nearly always all are of one template
            end = next((at for at in range(first, end) if counted_by[at] != counted_by[first]), end)
        yield pods[first], slice(first, end)
        first = end


def is_unseen(pod_info: PodInfo) -> bool:
    """Whether a pod that is met for the first time still has its load before it: not if it already
    runs.
    """
    return pod_info.pod.phase != RUNNING


class Apps:
    """The pods of each app, and the apps with each label, so that few pods are looked at to count
    those of a set. Pods without labels that tell their app are in none.
    """

    def __init__(self) -> None:
        self._pods: dict[AppName, dict[PodId, Occupant]] = {}
        self._with_label: dict[Label, dict[AppName, None]] = {}
        self._name = AppNames().of

    def put(self, occupant: Occupant) -> None:
        """A pod is somewhere."""
        name = self._name(occupant.pod_info.pod)
        pods = self._pods.get(name)
        if pods is not None:
            pods[occupant.pod_id] = occupant
        elif name[1]:
            self._pods[name] = {occupant.pod_id: occupant}
            for label in name[1]:
                self._with_label.setdefault(label, {})[name] = None

    def put_all(self, occupants: Sequence[Occupant]) -> None:
        """Pods of one app are somewhere."""
        self.put(occupants[0])
        pods = self._pods.get(self._name(occupants[0].pod_info.pod))
        if pods is not None:
            pods.update(zip(map(_pod_id_of, occupants), occupants, strict=True))

    def drop(self, occupant: Occupant) -> None:
        """The exact inverse of `put`."""
        name = self._name(occupant.pod_info.pod)
        if name[1]:
            pods = self._pods[name]
            del pods[occupant.pod_id]
            if not pods:
                del self._pods[name]
                for label in name[1]:
                    del self._with_label[label][name]
                    if not self._with_label[label]:
                        del self._with_label[label]

    def holding(self, pods: PodSet) -> Iterable[Occupant] | None:
        """Pods among which all members of a set are; None if no label that tells an app says which
        these are.
        """
        if pods.app is not None and pods.app[1]:
            return self._pods.get(pods.app, {}).values()
        clues = [clue for clue in pods.clues if all(is_app_label(key) for key, _ in clue)]
        if not clues:
            return None
        rarest = min(
            clues, key=lambda clue: sum([len(self._with_label.get(label, ())) for label in clue])
        )
        found = dict.fromkeys(name for label in rarest for name in self._with_label.get(label, ()))
        named = (name for name in found if pods.namespaces is None or name[0] in pods.namespaces)
        return (occupant for name in named for occupant in self._pods[name].values())


class PodsByNode:
    """The pods on each node: by row, or by (cluster, node) as long as no such node is known."""

    def __init__(self) -> None:
        self._on: list[list[Occupant] | None] = []
        self._awaiting: dict[tuple[str, str], list[Occupant]] = {}

    def on(self, row: int) -> Sequence[Occupant]:
        """The pods on a row."""
        return (self._on[row] or ()) if row < len(self._on) else ()

    def awaiting(self, place: tuple[str, str]) -> Sequence[Occupant]:
        """The pods that are on a node which is not known."""
        return self._awaiting.get(place, ())

    def put(self, occupant: Occupant, row: int | None) -> None:
        """A pod is there; None: its node is not known."""
        if row is None:
            self._awaiting.setdefault((occupant.cluster, occupant.node), []).append(occupant)
        else:
            self.put_all([occupant], [row])

    def put_all(self, occupants: Sequence[Occupant], rows: Sequence[int]) -> None:
        """Each is on its row."""
        on = self._on
        on.extend(repeat(None, max(rows) + 1 - len(on)))
        for occupant, row in zip(occupants, rows, strict=True):
            there = on[row]
            if there is None:
                on[row] = [occupant]
            else:
                there.append(occupant)

    def drop(self, occupant: Occupant, row: int | None) -> int:
        """The exact inverse of `put`; the how many-th of the pods there it was."""
        place = occupant.cluster, occupant.node
        there = self._awaiting[place] if row is None else self._on[row]
        if there is None:
            raise LookupError(f"no pod is on row {row}")
        at = there.index(occupant)
        del there[at]
        if not there and row is None:
            del self._awaiting[place]
        elif not there and row is not None:
            self._on[row] = None
        return at

    def put_back(self, occupant: Occupant, row: int | None, at: int) -> None:
        """The exact inverse of `drop`."""
        self.put(occupant, row)
        there = self._awaiting[occupant.cluster, occupant.node] if row is None else self._on[row]
        if there is not None:
            there.insert(at, there.pop())

    def arrive(self, place: tuple[str, str], row: int) -> None:
        """The node is known from now on."""
        there = self._awaiting.pop(place, None)
        if there is not None:
            self.put_all(there, [row] * len(there))

    def leave(self, place: tuple[str, str], row: int) -> None:
        """The node is not known any more."""
        there = self.on(row)
        if there:
            self._awaiting[place], self._on[row] = list(there), None


_SHARED_FIELDS = ("labels", "requests", "annotations", "node_selector")
_SHARED_TEXTS = ("namespace", "scheduler_name", "phase", "owner")
_SHARED = (*_SHARED_FIELDS, *_SHARED_TEXTS)
_shared_of = attrgetter(*_SHARED)
_SHARED_OF_NODES = ("allocatable", "images", "metrics")


class SharedDicts:
    """Equal dicts, texts and times of pods and nodes, kept once: a template's pods differ in their
    names, a pool's nodes too, and times of Kubernetes are whole seconds.

    The records are those that last; what they hold is exchanged for what is equal to it. All is
    forgotten beyond `limit` of a kind, or 64 MiB of what pods say.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._said = 0
        self._kept: dict[frozenset[tuple[str, object]], dict[str, Any]] = {}
        self._texts: dict[str, str] = {}
        self._times: dict[float, float] = {}
        self._last: dict[
            tuple[str, str], tuple[Any, ...]
        ] = {}  # what the last pod of each owner holds of `_SHARED`

    def share(self, pod: Pod) -> None:
        """Let the pod hold the dicts that equal pods hold; none of them is ever written."""
        self._share_times(pod)
        whose = (pod.namespace, pod.owner)
        last = self._last.get(whose)
        if last is not None and last == _shared_of(pod):
            for _ in map(msgspec.structs.force_setattr, repeat(pod), _SHARED, last):
                pass
            return
        self._share_anew(pod)
        if len(self._last) > self._limit:
            self._last.clear()
        self._last[whose] = _shared_of(pod)

    def _share_times(self, pod: Pod) -> None:
        if len(self._times) > self._limit:
            self._times.clear()
        kept = self._times.setdefault
        created = pod.created
        started = pod.started
        msgspec.structs.force_setattr(pod, "created", kept(created, created))
        msgspec.structs.force_setattr(pod, "started", kept(started, started))

    def _share_anew(self, pod: Pod) -> None:
        if len(self._kept) > self._limit:
            self._kept.clear()
        if self._said > 4 * POD_CACHE_BYTES:
            self._forget_pods()
        for field in _SHARED_FIELDS:
            own: dict[str, Any] = getattr(pod, field)
            key = frozenset(own.items())
            kept = self._kept.get(key)
            if kept is None:
                self._kept[key] = own
                self._said += said(own)
            elif kept is not own:
                msgspec.structs.force_setattr(pod, field, kept)
        for field in _SHARED_TEXTS:
            text: str = getattr(pod, field)
            same = self._text(text)
            if same is not text:
                msgspec.structs.force_setattr(pod, field, same)

    def _forget_pods(self) -> None:
        self._kept.clear()
        self._texts.clear()
        self._last.clear()
        self._said = 0

    def share_node(self, node: Node, before: Node | None = None) -> None:
        """The same for a node; labels differ by the host's name, so their values are exchanged one
        by one. `before`: what holds what lasts already, and mostly the same.
        """
        if len(self._kept) > self._limit:
            self._kept.clear()
        if len(self._texts) > self._limit:
            self._texts.clear()
        for field in _SHARED_OF_NODES:
            own: dict[str, Any] = getattr(node, field)
            kept: dict[str, Any] | None = None if before is None else getattr(before, field)
            if kept != own:
                kept = self._kept.setdefault(frozenset(own.items()), own)
            if kept is not own:
                msgspec.structs.force_setattr(node, field, kept)
        name = node.name
        labels = node.labels
        kept_text = self._texts.setdefault
        for key, value in labels.items():
            labels[key] = name if value == name else kept_text(value, value)

    def _text(self, text: str) -> str:
        if len(self._texts) > self._limit:
            self._texts.clear()
        kept = self._texts.get(text)
        if kept is None:
            kept = self._texts[text] = text
            self._said += len(text)
        return kept


class Ports:
    """Host ports taken: row -> (protocol, port) -> addresses, one entry for each pod that takes it."""

    def __init__(self) -> None:
        self._taken: dict[int, dict[tuple[str, int], list[str]]] = {}

    def take(self, row: int, pod: Pod) -> None:
        """The pod's ports are in use on a row."""
        for port in pod.ports:
            self._taken.setdefault(row, {}).setdefault((port.protocol, port.port), []).append(
                port.ip
            )

    def release(self, row: int, pod: Pod) -> None:
        """The exact inverse of `take`."""
        for port in pod.ports:
            taken = self._taken[row]
            addresses = taken[port.protocol, port.port]
            addresses.remove(port.ip)
            if not addresses:
                del taken[port.protocol, port.port]
            if not taken:
                del self._taken[row]

    def on(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> addresses taken on a row."""
        return self._taken.get(row, {})

    def rows(self) -> Sequence[int]:
        """Rows on which any host port is taken, ascending."""
        return sorted(self._taken)
