"""The one compact picture of a cluster: nodes, the pods that matter, and the numbered log of what
changed in it.

Kept in full: our pods (by schedulerName) and delegates. Kept reduced: bound foreign pods that have
not ended, for the room they hold. Not kept: the rest. What is kept is what crosses the wire, so the
cache and a follower compare equal.
"""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from agents.observer.adopters import Adopter, Adopters
from agents.observer.changes import ChangeLog
from agents.observer.namespace_shares import NamespaceShares
from agents.observer.occupancy import Occupancy
from agents.observer.pod_groups import PodGroups
from agents.observer.seen import (
    NODES,
    PODS,
    GroupSeen,
    InvalidAnnotation,
    NodeSeen,
    NodeTarget,
    ObjectSeen,
    PodSeen,
    Seen,
    WrongSchedulerName,
)
from agents.observer.target_clusters import names_clusters, unknown_clusters
from shared.model.group_kinds import OBJECTS, POD_GROUPS
from shared.model.names import EPOCH, PROXY_NODE_PREFIX
from shared.model.node import Node
from shared.model.objects import (
    AnyObject,
    AnyWatched,
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
)
from shared.model.pod import HostPort, Pod, PodRef, SourceRef
from shared.model.resources import PODS as PLACES

MAX_WARNED = 10_000  # pods, of which one namespace has a quarter at the most
MAX_WARNINGS = 16  # of one pod, as long as it is there


class ClusterCache:
    """Fed by one list-and-watch per kind, in order; read by the executor (as its ClusterView) and
    the changes.

    `kinds` are those of the objects beside nodes and pods that are watched, too. PodGroups are no
    such objects: what they mean for their pods is told with these. One write may have all pods of a
    group judged anew: at most `judged_at_once` (None: any number) until `judge_late` is called, and
    the others then, so that nobody who writes often takes the agent's time from others.
    """

    def __init__(
        self,
        log: ChangeLog,
        kinds: Iterable[str] = (),
        *,
        groups: bool = False,
        judged_at_once: int | None = None,
    ) -> None:
        self.log = log
        self.targets: dict[str, NodeTarget] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._on = Occupancy()
        self._objects: dict[str, dict[str, AnyWatched]] = {kind: {} for kind in kinds}
        self._adopters = Adopters()
        self._groups = PodGroups() if groups else None
        self._judged_at_once = judged_at_once
        self._judged = 0  # anew, since `judge_late`
        self._judging = False
        self._shares = NamespaceShares()
        needed = (NODES, PODS, *self._objects, *((POD_GROUPS,) if groups else ()))
        beside = OBJECTS if groups else ()
        self._versions: dict[str, dict[str, int]] = {kind: {} for kind in (*needed, *beside)}
        self._needed = frozenset(needed)
        self._listed: dict[str, set[str]] = {}
        self._complete: set[str] = set()
        self._hidden: set[str] = set()  # kinds that the server does not show (any more)
        self._warned: dict[str, tuple[str, set[int]]] = {}  # by UID: its namespace, and of what
        self._warned_in = Counter[str]()  # pods, by namespace
        self._warnings: list[WrongSchedulerName | InvalidAnnotation] = []
        self._unfinished: dict[str, PodRef] = {}
        self._foreign_bytes = Counter[
            tuple[str, str]
        ]()  # of delegates, by source cluster and namespace, or ""
        self._weighed: dict[
            str, tuple[tuple[tuple[str, str], ...], int]
        ] = {}  # by UID, where it counts, and its bytes
        # pods that name clusters and were seen unbound, not looked at yet
        self._choosy: set[str] = set()
        self.on_bound: Callable[[str, str], None] = lambda namespace, name: (
            None
        )  # a pod shows on a node

    # --- writing
    # ----------------------------------------------------------------------------------------------

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list of `kind` starts. `forget_versions` after the API server itself went back
        (restored from a backup).
        """
        self._listed[kind] = set()
        if forget_versions:
            self._versions[kind].clear()

    def page(self, kind: str, items: Iterable[Seen]) -> tuple[int, int] | None:
        """Part of that list, which was read with quorum: an object at an older version than known
        is taken, too.

        Such an object proves that the server went back although its own version may not show it.
        The answer is then (version known, version shown) of the first one.
        """
        listed = self._listed[kind]
        versions = self._versions[kind]
        older: tuple[int, int] | None = None
        for seen in items:
            listed.add(seen.key)
            known = versions.get(seen.key, 0)
            if seen.version and seen.version < known:
                older = older or (known, seen.version)
                del versions[seen.key]
            self.apply(seen)
        return older

    def end(self, kind: str) -> None:
        """The list is complete: what was not in it is gone, but nobody has seen it go."""
        listed = self._listed.pop(kind)
        for key in [key for key in self._versions[kind] if key not in listed]:
            self._bury(kind, key, missing=True)
        for key in [key for key in self._known(kind) if key not in listed]:
            self._bury(kind, key, missing=True)
        self._hidden.discard(kind)
        self._completed(kind)

    def absent(self, kind: str) -> None:
        """The server has no such kind, or does not show it: nothing of it is waited for. What was
        known stays.
        """
        self._hidden.add(kind)
        self._completed(kind)

    def _completed(self, kind: str) -> None:
        if kind not in self._complete:
            self._complete.add(kind)
            self.log.bump()

    def _known(self, kind: str) -> Iterable[str]:
        known: dict[str, Iterable[str]] = {NODES: self._nodes, PODS: self._pods}
        return known[kind] if kind in known else self._objects.get(kind, ())

    def apply(self, seen: Seen) -> None:
        """One object as it is now. An older version than the one known is ignored; an equal object
        changes nothing.
        """
        versions = self._versions[_kind_of(seen)]
        if seen.version and seen.version < versions.get(seen.key, 0):
            return
        versions[seen.key] = seen.version
        if isinstance(seen, NodeSeen):
            self._put_node(seen)
        elif isinstance(seen, PodSeen):
            self._put_pod(seen)
        elif isinstance(seen, ObjectSeen):
            self._put_object(seen)
        elif isinstance(seen, GroupSeen) and self._groups is not None:
            self._groups.put(seen)
            self._judge()

    def forget(self, kind: str, key: str) -> None:
        """The object was seen to be deleted."""
        self._bury(kind, key)

    def _bury(self, kind: str, key: str, *, missing: bool = False) -> None:
        """`missing`: it is just not there any more."""
        self._versions[kind].pop(key, None)
        if kind == NODES:
            self.targets.pop(key, None)
            if self._nodes.pop(key, None) is not None:
                self.log.drop(NODES, key, missing=missing)
        elif kind == PODS:
            if key in self._warned:
                namespace, _ = self._warned.pop(key)
                self._warned_in[namespace] -= 1
            self._unfinished.pop(key, None)
            self._drop_pod(key, missing=missing)
        elif kind in OBJECTS:
            if self._groups is not None:
                self._groups.drop(kind, key)
                self._judge()
        else:
            self._adopters.drop(kind, key)
            if self._objects[kind].pop(key, None) is not None:
                self.log.drop(kind, key, missing=missing)

    def take_warnings(self, cluster: str = "") -> list[WrongSchedulerName | InvalidAnnotation]:
        """What people are to be warned of since the last call, each pod and text once. `cluster`:
        the name of this one.

        The clusters that pods name are looked at as soon as there is a proxy node of another
        cluster to compare with.
        """
        others = (
            {one.proxy_for for one in self._nodes.values() if one.proxy_for}
            if self._choosy
            else set()
        )
        if others and NODES in self._complete:
            chosen = (self._pods.get(uid) for uid in sorted(self._choosy))
            for pod in filter(None, chosen):
                for warning in unknown_clusters(pod, others | {cluster}):
                    self._warn(warning)
            self._choosy.clear()
        taken = self._warnings
        self._warnings = []
        return taken

    def _warn(self, warning: WrongSchedulerName | InvalidAnnotation) -> None:
        namespace = warning.namespace
        if warning.uid not in self._warned:
            if len(self._warned) >= MAX_WARNED or self._warned_in[namespace] >= MAX_WARNED // 4:
                return
            self._warned[warning.uid] = namespace, set()
            self._warned_in[namespace] += 1
        _, told = self._warned[warning.uid]
        if hash(warning) not in told and len(told) < MAX_WARNINGS:
            told.add(hash(warning))
            self._warnings.append(warning)

    def _put_node(self, seen: NodeSeen) -> None:
        if seen.target is not None:
            self.targets[seen.key] = seen.target
        else:
            self.targets.pop(seen.key, None)
        if self._nodes.get(seen.key) != seen.node:
            self._nodes[seen.key] = seen.node
            self.log.touch(NODES, seen.key)
            if seen.key.startswith(PROXY_NODE_PREFIX):
                for pod in self._on.pods(seen.key):
                    self._keep(self._placed(pod, pod))

    def _placed(self, pod: Pod, known: Pod | None) -> Pod:
        """The same, as its node tells whether it runs here; where the node is not seen, as was
        `known` of the pod. What it would need elsewhere is told on: it is derived of pods that
        wait.
        """
        if pod.needs is None and pod.node and known is not None and known.needs is not None:
            pod = msgspec.structs.replace(pod, needs=known.needs)
        if not pod.node.startswith(PROXY_NODE_PREFIX):
            return pod
        node = self._nodes.get(pod.node)
        before = known is not None and known.at_home
        at_home = before if node is None else not node.proxy_for
        return pod if pod.at_home == at_home else msgspec.structs.replace(pod, at_home=at_home)

    def _put_object(self, seen: ObjectSeen) -> None:
        objects = self._objects[seen.kind]
        if isinstance(seen.record, DaemonSet):  # nobody else looks at it, and no peer is told
            self._adopters.put(seen.record)
        elif objects.get(seen.key) != seen.record:
            objects[seen.key] = seen.record
            self._adopters.put(seen.record)
            self.log.touch(seen.kind, seen.key)

    def judge_late(self) -> None:
        """Judge pods that were left out."""
        self._judged = 0
        self._judge()

    def _judge(self) -> None:
        """Pods whose group is another one now, or is gone."""
        if self._groups is None or self._judging:
            return
        self._judging = True
        try:
            most = self._judged_at_once
            while most is None or self._judged < most:
                member = self._groups.next_again()
                if member is None:
                    break
                self._judged += 1
                self._put_pod(member)
        finally:
            self._judging = False

    def _put_pod(self, seen: PodSeen) -> None:
        if seen.misplaced is not None:
            self._warn(seen.misplaced)
        for warning in seen.invalid_annotation:
            self._warn(warning)
        if seen.unfinished is not None:
            self._unfinished[seen.uid] = seen.unfinished
        else:
            self._unfinished.pop(seen.uid, None)
        known = self._pods.get(seen.uid)
        pod = self._groups.judged(seen) if self._groups is not None else seen.pod
        self._weigh(seen.uid, pod.source if pod is not None else None, seen.size)
        if pod is None:
            # A delegate that is none any more was not deleted: somebody has taken its marks off.
            self._drop_pod(seen.uid, missing=known is not None and known.source is not None)
            return
        for told in self._shares.put(pod, seen.memory):
            self._keep(self._placed(told, self._pods.get(told.uid)))
        self._judge()

    def _keep(self, pod: Pod) -> None:
        known = self._pods.get(pod.uid)
        if known == pod:
            return
        if known is not None:
            self._on.remove(known)
        if names_clusters(pod) and not pod.node and len(self._choosy) < MAX_WARNED:
            self._choosy.add(pod.uid)
        self._pods[pod.uid] = pod
        self._names[pod.namespace, pod.name] = pod.uid
        self._on.put(pod)
        self.log.touch(
            PODS,
            pod.uid,
            urgent=not pod.node,
            confirms=known is not None and _bound_as_ordered(known, pod),
        )
        if pod.node:
            self.on_bound(pod.namespace, pod.name)

    def _weigh(self, uid: str, source: SourceRef | None, size: int = 0) -> None:
        """Count the bytes of a delegate in place of what was counted of it; 0: as many as before."""
        before = self._weighed.pop(uid, None)
        if before is not None:
            size = size or before[1]
            for key in before[0]:
                self._foreign_bytes[key] -= before[1]
        if source is not None:
            keys = ((source.cluster, ""), (source.cluster, source.namespace))
            self._weighed[uid] = (keys, size)
            for key in keys:
                self._foreign_bytes[key] += size

    def _drop_pod(self, uid: str, *, missing: bool = False) -> None:
        if self._groups is not None:
            self._groups.forget_pod(uid)
        self._judge()
        for told in self._shares.drop(uid):
            self._keep(self._placed(told, self._pods.get(told.uid)))
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._weigh(uid, None)
        self._on.remove(pod)
        if self._names.get((pod.namespace, pod.name)) == uid:
            del self._names[pod.namespace, pod.name]
        self.log.drop(PODS, uid, missing=missing)

    # --- reading
    # ----------------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether every kind was listed once, or is known not to be shown."""
        return self._needed <= self._complete

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of objects beside nodes and pods."""
        return self._objects.keys()

    def count(self, kind: str) -> int:
        """Objects of this kind that the server has shown and not taken back, also those that are
        not kept.
        """
        return len(self._versions[kind])

    def object(self, kind: str, key: str) -> AnyWatched | None:
        """The object of this kind and key."""
        return self._objects[kind].get(key)

    def objects(self) -> Iterable[AnyObject]:
        """All objects beside nodes and pods, but for those told otherwise, or not at all."""
        every = (record for objects in self._objects.values() for record in objects.values())
        apart = PriorityClass | RuntimeClass | DaemonSet
        return (record for record in every if not isinstance(record, apart))

    def priority_classes(self) -> tuple[PriorityClass, ...]:
        """All PriorityClasses by name; none while that kind is not shown."""
        found = self._objects.get(PriorityClass.__name__, {})
        return tuple(one for _, one in sorted(found.items()) if isinstance(one, PriorityClass))

    def runtime_classes(self) -> tuple[str, ...] | None:
        """The names of all RuntimeClasses; None while that kind is not shown."""
        kind = RuntimeClass.__name__
        if kind not in self._complete or kind in self._hidden:
            return None
        return tuple(sorted(self._objects[kind]))

    def namespace(self, name: str) -> Namespace | None:
        """The Namespace of this name; None also while that kind is not watched."""
        found = self._objects.get(Namespace.__name__, {}).get(name)
        return found if isinstance(found, Namespace) else None

    def namespaces(self) -> Iterable[Namespace]:
        """All Namespaces; none while that kind is not watched."""
        found = self._objects.get(Namespace.__name__, {}).values()
        return (one for one in found if isinstance(one, Namespace))

    def budgets(self) -> Iterable[PodDisruptionBudget]:
        """All PodDisruptionBudgets; none while that kind is not watched."""
        found = self._objects.get(PodDisruptionBudget.__name__, {}).values()
        return (one for one in found if isinstance(one, PodDisruptionBudget))

    def adopters(self, namespace: str) -> Iterable[Adopter]:
        """Those of a namespace that may take a delegate for their own; none while these kinds are
        not watched.
        """
        return self._adopters.of(namespace)

    def node(self, name: str) -> Node | None:
        """The node of this name, proxy nodes included."""
        return self._nodes.get(name)

    def nodes(self) -> Iterable[Node]:
        """All nodes."""
        return self._nodes.values()

    def pod(self, uid: str) -> Pod | None:
        """The pod of this UID, if it matters."""
        return self._pods.get(uid)

    def pods(self) -> Iterable[Pod]:
        """All pods that matter."""
        return self._pods.values()

    def pod_version(self, uid: str) -> str:
        """resourceVersion of the pod as seen here, '' if it is not known."""
        version = self._versions[PODS].get(uid, 0)
        return str(version) if version else ""

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now, if it matters."""
        return self._pods.get(self._names.get((namespace, name), ""))

    def foreign_bytes(self, cluster: str, namespace: str = "") -> int:
        """Bytes of JSON of the delegates of a cluster, or of a namespace of it."""
        return self._foreign_bytes[cluster, namespace]

    def unfinished(self) -> Iterable[PodRef]:
        """Delegates by the name of their scheduler that are on no node, and that nobody has signed
        for.
        """
        return self._unfinished.values()

    def pods_on(self, node: str) -> list[Pod]:
        """Pods bound to the node; foreign ones only while they have not ended."""
        return self._on.pods(node)

    def ports_on(self, node: str) -> list[HostPort]:
        """Host ports taken on the node."""
        return [port for pod in self._on.pods(node) if not pod.terminal for port in pod.ports]

    def free(self, node: str) -> dict[str, int]:
        """Allocatable minus requests of pods not ended ('pods': places left), maybe negative. Empty
        if unknown.
        """
        known = self._nodes.get(node)
        if known is None:
            return {}
        requested = self._on.requested(node)
        names = {**known.allocatable, PLACES: known.allocatable.get(PLACES, 0)}
        return {name: value - requested.get(name, 0) for name, value in names.items()}


def _bound_as_ordered(before: Pod, pod: Pod) -> bool:
    """Whether all that is new of a pod of this cluster is the node that a dispatcher had it bound
    to.
    """
    bound = not before.node and pod.node and EPOCH in pod.annotations
    elsewhere = pod.claim is not None or pod.source is not None
    return bool(bound) and not elsewhere and not pod.terminating and pod.phase == before.phase


def _kind_of(seen: Seen) -> str:
    if isinstance(seen, ObjectSeen):
        return seen.kind
    if isinstance(seen, GroupSeen):
        return seen.kind
    return NODES if isinstance(seen, NodeSeen) else PODS
