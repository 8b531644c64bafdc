"""What the dispatcher knows of each cluster: whether to trust it now, its nodes and its pods, as
last reported.

Other objects are not kept here: they go straight into the fleet, where plugins look for them.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

import msgspec

from dispatcher.scheduling.fleet.objects import ClusterObjects
from shared.messages import Changes
from shared.messages.memory import memory_of_record
from shared.messages.peer_links import PodReach
from shared.messages.peers import SERVICE
from shared.model import names
from shared.model.bounds import REPORT_MIB
from shared.model.crossing import Opening
from shared.model.labels import is_label_value
from shared.model.names import REACH
from shared.model.node import Node
from shared.model.objects import AnyObject, PriorityClass
from shared.model.pod import Pod
from shared.model.probe_address import published
from shared.security.signatures import MAX_KEYS, from_pinned, plain_keys

MOST_MEMORY = REPORT_MIB * 2**20  # of one cluster
_MOST_TEXT = 300  # characters of what an agent says of a way


class SharedLabels:
    """How many real nodes of a cluster have which value of each label that its proxy nodes may show
    ("": none).
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {key: Counter() for key in names.SHARED_LABELS}

    def replace(self, before: Node | None, after: Node | None) -> None:
        """A node came (`before` None), changed or went (`after` None)."""
        was = before.labels if before is not None and not before.proxy_for else None
        now = after.labels if after is not None and not after.proxy_for else None
        if was == now:
            return
        for key, counts in self._counts.items():
            gone = None if was is None else was.get(key, "")
            came = None if now is None else now.get(key, "")
            if gone == came:
                continue
            if came is not None:
                counts[came] += 1
            if gone is not None:
                counts[gone] -= 1
                if not counts[gone]:
                    del counts[gone]

    @property
    def agreed(self) -> dict[str, str]:
        """Those on which all real nodes agree. What no API server takes would be told to each
        cluster in vain.
        """
        alike = (
            (key, next(iter(counts))) for key, counts in self._counts.items() if len(counts) == 1
        )
        return {key: value for key, value in alike if value and is_label_value(value)}


@dataclass
class ClusterView:
    """One cluster as last reported. `ready`: the agent answers, has listed everything, and its API
    server answers.
    """

    name: str
    uid: str = ""
    # the only one that it may have, as configured; "": the first that is heard
    pinned_uid: str = ""
    pinned_key: str = ""  # the one from which its keys must follow, as configured; "": any
    network: str = names.OWN_NETWORK  # the pod network that it is part of, as configured
    most_memory: int = MOST_MEMORY  # bytes that what it reports may take, as configured
    memory: int = 0  # what is known of its nodes, pods and other objects takes, about
    incarnation: str = ""
    revision: int = 0
    synced: bool = False
    api_ok: bool = False
    silent: bool = True
    # whether the executor is there, where it is a process apart from who reports
    executor: bool | None = None
    refuses: bool = False  # it has said that it obeys nothing that we sign
    problem: str = "has not reported yet"
    # it went back in time and is not reconciled: what is missing there proves nothing
    restored: bool = False
    confirmed: int = 0  # as in Changes
    keys: tuple[str, ...] = ()  # its public keys, the one it signs with first
    evicts_foreign: bool = False  # pods of other schedulers may be evicted there
    opens: tuple[Opening, ...] | None = None  # as in Changes
    priority_classes: tuple[PriorityClass, ...] = ()  # as in Changes
    runtime_classes: tuple[str, ...] | None = None  # likewise
    # its first report is being folded: to others it is as if it had not reported yet
    hidden: bool = False
    probe: str = ""  # where its agent answers probes of others, as in PeersAck
    pod_address: str = ""  # where it answers as a pod, as in PeersAck
    reaches: tuple[PodReach, ...] = ()  # as in PeersAck, of clusters of ours
    # Clusters of which an operator here has declared, by global-dispatcher.io/fenced=true on their
    # proxy nodes, that nothing runs there any more. It holds for pods that were submitted here.
    fenced: frozenset[str] = frozenset()
    follows: tuple[str, ...] | None = None  # as in PeersAck, None before the first
    heard: bool = False  # reported or was declared silent: its state is known, for good or bad
    last_report_at: float = float("-inf")
    ready_since: float = float("inf")
    not_ready_since: float = float("-inf")
    answered_at: float = float("-inf")  # when its agent last gave a word that renews its leases
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    shared: SharedLabels = field(default_factory=SharedLabels, compare=False, repr=False)

    @property
    def ready(self) -> bool:
        """Whether new pods may go there and absence of a pod there means something."""
        return self.synced and self.api_ok and not self.silent

    @property
    def told(self) -> tuple[object, ...]:
        """What filters go by beside its readiness."""
        return self.opens, self.priority_classes, self.runtime_classes

    @property
    def serves(self) -> bool:
        """Whether its executor gives Services, and makes those of others."""
        return SERVICE in (self.follows or ())

    @property
    def executor_answers(self) -> bool:
        """Whether its executor is there."""
        return not self.silent if self.executor is None else self.executor

    @property
    def takes_orders(self) -> bool:
        """Whether its executor is there, and obeys us."""
        return self.executor_answers and not self.refuses

    def unrenewed_s(self, now: float) -> float:
        """For how long none of its leases can have been renewed, 0 while it is ready.

        Who led before us may have renewed until we began: what was before we missed the cluster
        does not count.
        """
        return 0.0 if self.ready else max(0.0, now - max(self.answered_at, self.not_ready_since))


def share_network(one: ClusterView, other: ClusterView) -> bool:
    """Whether pods of one cluster reach those of the other by their addresses, as an operator has
    said.
    """
    return one.network == other.network != names.OWN_NETWORK


def credible(told: Iterable[PodReach], others: Collection[str]) -> tuple[PodReach, ...]:
    """What an agent tells of the pods of others, each once; nonsense is left out."""
    found: dict[str, PodReach] = {}
    for one in told:
        known = one.cluster in others and one.state in REACH
        if known and math.isfinite(one.for_s) and min(one.for_s, one.tries, one.failed) >= 0:
            found[one.cluster] = msgspec.structs.replace(
                one, problem=one.problem[:_MOST_TEXT], address=published(one.address)
            )
    return tuple(found.values())


def brings_services(home: ClusterView, other: ClusterView) -> bool:
    """Whether Services of home are made in the other cluster for pods that go there: their pod
    network is one, and the agents of both do that.
    """
    return home.serves and other.serves and share_network(home, other)


Seen = TypeVar("Seen", Node, Pod, AnyObject)


class Change(msgspec.Struct, Generic[Seen], frozen=True, gc=False):
    """One object before and after; None before: new, None after: gone.

    `seen_deleted` is False for one that is only missing from a list: no watch event has shown its
    deletion.
    """

    before: Seen | None
    after: Seen | None
    seen_deleted: bool = True


class GapError(ValueError):
    """The report does not continue what is known: ask for a full one."""


def check_continues(view: ClusterView, changes: Changes) -> None:
    """Raise GapError unless `changes` is full or starts where `view` ends, in the same incarnation."""
    if changes.full:
        return
    if (
        view.memory > view.most_memory
    ):  # by what came since the last full one, which is weighed before it is read
        raise GapError(
            f"cluster {view.name}: its reports take {view.memory >> 20} MiB, more than its share"
        )
    if changes.incarnation != view.incarnation or changes.since != view.revision:
        raise GapError(
            f"cluster {view.name}: report from {changes.incarnation}/{changes.since} does not "
            "continue "
            f"{view.incarnation}/{view.revision}"
        )


def wrong_identity(view: ClusterView, changes: Changes, clusters: Mapping[str, ClusterView]) -> str:
    """Why this is no report of the cluster that is meant, '' if it may be: a cluster is the UID of
    its kube-system.

    An agent asserts that UID itself. So a configured one counts before all that is heard; without,
    of two names of one cluster the one that was heard first holds: what it told of is counted once.
    """
    uid = changes.cluster_uid
    if not uid or uid == view.uid:
        return ""
    if view.pinned_uid:
        return _not_as_pinned(view, uid)
    owner = next((name for name, other in clusters.items() if other.pinned_uid == uid), "")
    if owner:
        return (
            f'"{view.name}" says it is the cluster {uid} (kube-system), which `uid` of "{owner}" '
            "pins: list it once"
        )
    if view.uid:
        return (
            f'"{view.name}" leads to another cluster now (kube-system {uid}, was {view.uid}): '
            "correct its kubeconfig "
            "or context; if the cluster was made anew, start the dispatcher again"
        )
    twin = next((name for name, other in clusters.items() if other.uid == uid), "")
    return (
        f'"{view.name}" is the same cluster as "{twin}" (kube-system {uid}): list it once'
        if twin
        else ""
    )


def wrong_keys(view: ClusterView, changes: Changes) -> str:
    """Why these are no keys of the cluster that is meant, '' if they may be."""
    if not (view.pinned_key and changes.keys) or from_pinned(view.pinned_key, changes.keys):
        return ""
    keys = ", ".join(plain_keys(changes.keys))[:200]
    return (
        f'"{view.name}": its entry in `clusters` has key: {view.pinned_key}, and its agent says '
        "that the cluster signs "
        f"with {keys}, for which that one does not vouch: nobody is told of it. If you have "
        "replaced the key, set key "
        "to the new one (`global-dispatcher join` prints it) and start the dispatcher again; if "
        "not, find out who "
        "speaks there as its agent"
    )


def without_older_keys(view: ClusterView, changes: Changes) -> Changes:
    """The same, with the newest keys alone, each of which every mark of the cluster may have to be
    held against; and without those for which the pinned one does not stand.
    """
    if len(changes.keys) <= 1:
        return changes
    keys = (
        from_pinned(view.pinned_key, changes.keys) if view.pinned_key else changes.keys[:MAX_KEYS]
    )
    return msgspec.structs.replace(changes, keys=keys)


def _not_as_pinned(view: ClusterView, uid: str) -> str:
    if uid == view.pinned_uid:
        return ""
    return (
        f'"{view.name}": its entry in `clusters` has uid: {view.pinned_uid}, and its agent says '
        f"{uid}: correct its "
        "kubeconfig or context, or whoever runs there as its agent; if the cluster was made anew, "
        "set uid to what "
        "`kubectl get ns kube-system -o jsonpath={.metadata.uid}` says there, and start the "
        "dispatcher again"
    )


def fold_nodes(view: ClusterView, changes: Changes) -> Iterator[Change[Node]]:
    """Bring `view.nodes` up to date and yield what changed."""
    put = {node.name: node for node in changes.nodes}
    gone = view.nodes.keys() - put.keys() if changes.full else set(changes.nodes_gone)
    for change in _fold(view, changes, view.nodes, put, gone):
        view.shared.replace(change.before, change.after)
        yield change


def fold_pods(view: ClusterView, changes: Changes) -> Iterator[Change[Pod]]:
    """Bring `view.pods` up to date and yield what changed."""
    put = {pod.uid: pod for pod in changes.pods}
    gone = view.pods.keys() - put.keys() if changes.full else set(changes.pods_gone)
    unseen = gone if changes.full else set(changes.pods_missing)
    yield from _fold(view, changes, view.pods, put, gone, unseen)


def _fold(
    view: ClusterView,
    changes: Changes,
    known: dict[str, Seen],
    put: Mapping[str, Seen],
    gone: Collection[str],
    unseen: Collection[str] = (),
) -> Iterator[Change[Seen]]:
    """What went, then what came or changed; `unseen`: whose deletion nobody has seen."""
    for key, after in chain(((key, None) for key in sorted(gone)), put.items()):
        before = known.get(key)
        if before == after:
            continue
        if after is None:
            del known[key]
        else:
            known[key] = after
        if not changes.full:  # that was weighed as a whole
            view.memory += memory_of_record(after) - memory_of_record(before)
        yield Change(before, after, seen_deleted=after is not None or key not in unseen)


def fold_objects(
    view: ClusterView, kept: ClusterObjects, changes: Changes
) -> Iterator[Change[AnyObject]]:
    """Bring what is kept of the cluster up to date and yield what changed: what came or changed
    first, then what went.

    In this order a claim that got its volume is never seen without it.
    """
    cluster = changes.cluster
    put = {(type(found).__name__, found.key): found for found in changes.objects}
    gone = {(ref.kind, ref.key) for ref in changes.objects_gone}
    if changes.full:
        gone = set(kept.keys_of(cluster)) - put.keys()
    for (kind, key), after in chain(put.items(), ((key, None) for key in sorted(gone))):
        before = kept.get(cluster, kind, key)
        if not (kept.remove(cluster, kind, key) if after is None else kept.put(cluster, after)):
            continue
        if not changes.full:
            view.memory += memory_of_record(after) - memory_of_record(before)
        yield Change(before, after)


def is_as_healthy(view: ClusterView, changes: Changes) -> bool:
    """Whether a Ready cluster is as trustworthy as before by its report: nothing follows from when
    that is folded.
    """
    healthy = changes.synced and changes.api_ok and not (changes.restored or view.restored)
    known = (view.keys, *view.told, view.evicts_foreign)
    reported = (
        changes.keys or view.keys,
        changes.opens,
        changes.priority_classes,
        changes.runtime_classes,
        changes.evicts_foreign,
    )
    return view.ready and healthy and known == reported and not confirms(view, changes)


def fold_health(view: ClusterView, changes: Changes, now: float) -> None:
    """Take over who the agent is and how its API server does."""
    view.uid = changes.cluster_uid or view.uid
    view.incarnation = changes.incarnation
    view.revision = changes.revision
    view.synced = changes.synced
    view.api_ok = changes.api_ok
    view.silent = False
    view.problem = changes.problem
    view.evicts_foreign = changes.evicts_foreign
    view.restored = changes.restored
    view.keys = changes.keys or view.keys
    view.confirmed = changes.confirmed
    if changes.synced:
        view.opens = changes.opens
        view.priority_classes = changes.priority_classes
        view.runtime_classes = changes.runtime_classes
    view.heard = view.heard or changes.synced
    view.last_report_at = now


def confirms(view: ClusterView, changes: Changes) -> bool:
    """Whether this report says that an operator has confirmed what the API server shows, since the
    report before.

    What was confirmed before this dispatcher first heard of the cluster says nothing of what is
    missing now.
    """
    before = view.confirmed if view.incarnation == changes.incarnation else 0
    return bool(view.incarnation) and changes.confirmed > before
