"""Answers `changes` for one follower: a full state, or what changed since the revision that it has."""

from dataclasses import dataclass

import msgspec

from agents.observer.cache import ClusterCache
from agents.observer.loads import READINGS, Loads
from agents.observer.node_groups import NODE_GROUPS, NodeGroupWatch
from agents.observer.owner_uses import USES, OwnerUses
from agents.observer.seen import NODES, PODS
from shared.messages import Changes
from shared.model.bounds import MAX_NAMES
from shared.model.crossing import Opening
from shared.model.node import Node, Reading
from shared.model.node_group import NodeGroups
from shared.model.objects import ObjectRef, PriorityClass, RuntimeClass
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod

# Kinds of which all are told with each report, beside the objects that older dispatchers know.
_TOLD_WHOLE = frozenset((PriorityClass.__name__, RuntimeClass.__name__))


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose changes these are. `evicts_foreign`: pods of other schedulers may be evicted here.
    `keys`: as in Hello. `opens`: as in Changes.
    """

    cluster: str
    cluster_uid: str
    incarnation: str
    evicts_foreign: bool = False
    keys: tuple[str, ...] = ()
    opens: tuple[Opening, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the picture can be trusted to be fresh, and why not. `restored`, `confirmed`: as in
    Changes.
    """

    api_ok: bool = False
    problem: str = ""
    restored: bool = False
    confirmed: int = 0


class ChangeFeed:
    """Answers `since(revision)`. A follower that applies every answer in turn ends with the cache's
    own content.
    """

    def __init__(
        self,
        cache: ClusterCache,
        loads: Loads,
        uses: OwnerUses,
        node_groups: NodeGroupWatch | None = None,
    ) -> None:
        self._cache = cache
        self._node_groups = node_groups
        self._loads = loads
        self._uses = uses
        self._log = cache.log

    @property
    def revision(self) -> int:
        """The latest revision."""
        return self._log.revision

    def ready(self, who: Identity) -> bool:
        """Whether there is a picture to tell: everything was listed once and the cluster is known
        by its UID.
        """
        return self._cache.synced and bool(who.cluster_uid)

    def has_news(self, who: Identity, asked: str, since: int) -> bool:
        """Whether `since` would be answered with anything but silence."""
        stranger = asked != who.incarnation or not self._log.knows(since)
        return self.ready(who) and (stranger or since < self.revision)

    def only_confirms(self, who: Identity, asked: str, since: int) -> bool:
        """Whether `since` would be told that pods show where they were bound to, and nothing else."""
        known = asked == who.incarnation and self._log.knows(since)
        return known and self.ready(who) and self._log.unexpected <= since < self.revision

    def since(self, who: Identity, asked: str, since: int, health: Health, now: float) -> Changes:
        """Changes after `since` of the incarnation `asked`; a full snapshot where that cannot be
        told.

        Until everything has been listed once nothing is told, so the answer continues what the
        follower has, whatever incarnation that came from: synced False, no objects, the follower's
        own incarnation and revision.
        """
        if not self.ready(who):
            frame = Changes(who.cluster, who.cluster_uid, asked, since, since, synced=False)
            return _with(
                frame, health, problem=health.problem or "the first list is not complete yet"
            )
        consent = who.evicts_foreign
        known = (who.cluster, who.cluster_uid, who.incarnation, since, self.revision)
        frame = Changes(
            *known,
            evicts_foreign=consent,
            keys=who.keys,
            opens=who.opens,
            priority_classes=self._priority_classes(),
            runtime_classes=self._runtime_classes(),
        )
        if asked != who.incarnation or not self._log.knows(since):
            return _with(frame, health, **self._everything(now))
        return _with(frame, health, **self._difference(since, now))

    def _everything(self, now: float) -> dict[str, object]:
        return {
            "since": 0,
            "full": True,
            "nodes": tuple(self._cache.nodes()),
            "pods": tuple(self._cache.pods()),
            "readings": self._readings(list(self._loads.names()), now),
            "objects": tuple(self._cache.objects()),
            "uses": self._owner_uses(list(self._uses.keys()), now),
            "node_groups": self._told_groups(news=True),
        }

    def _difference(self, since: int, now: float) -> dict[str, object]:
        changed = self._by_kind(list(self._log.changed(since)))
        gone = self._by_kind(list(self._log.gone(since)))
        kinds = [kind for kind in self._cache.kinds if kind not in _TOLD_WHOLE]
        nodes: tuple[Node, ...] = tuple(
            found for key in changed[NODES] if (found := self._cache.node(key)) is not None
        )
        pods: tuple[Pod, ...] = tuple(
            pod for key in changed[PODS] if (pod := self._cache.pod(key)) is not None
        )
        return {
            "nodes": nodes,
            "nodes_gone": tuple(gone[NODES]),
            "pods": pods,
            "pods_gone": tuple(gone[PODS]),
            "pods_missing": tuple(uid for uid in gone[PODS] if self._log.missing(PODS, uid)),
            "readings": self._readings(changed[READINGS], now),
            "uses": self._owner_uses(changed[USES], now),
            "objects": tuple(
                record
                for kind in kinds
                for key in changed[kind]
                if (record := self._cache.object(kind, key)) is not None
            ),
            "objects_gone": tuple(ObjectRef(kind, key) for kind in kinds for key in gone[kind]),
            "node_groups": self._told_groups(news=bool(changed[NODE_GROUPS])),
        }

    def _told_groups(self, *, news: bool) -> NodeGroups | None:
        return self._node_groups.told() if news and self._node_groups is not None else None

    def _priority_classes(self) -> tuple[PriorityClass, ...]:
        """All there are; none where they are more than one message may hold: of a part it could not
        be told so.
        """
        found = self._cache.priority_classes()
        return found if len(found) <= MAX_NAMES else ()

    def _runtime_classes(self) -> tuple[str, ...] | None:
        found = self._cache.runtime_classes()
        return found if found is None or len(found) <= MAX_NAMES else None

    def _readings(self, names: list[str], now: float) -> tuple[Reading, ...]:
        return tuple(
            reading for name in names if (reading := self._loads.reading(name, now)) is not None
        )

    def _owner_uses(self, keys: list[str], now: float) -> tuple[OwnerUse, ...]:
        return tuple(use for key in keys if (use := self._uses.use(key, now)) is not None)

    def _by_kind(self, keys: list[tuple[str, str]]) -> dict[str, list[str]]:
        """Keys of each kind, earliest change first."""
        kinds: dict[str, list[str]] = {
            kind: [] for kind in (NODES, PODS, READINGS, USES, NODE_GROUPS, *self._cache.kinds)
        }
        for kind, key in reversed(keys):
            kinds[kind].append(key)
        return kinds


def _with(frame: Changes, health: Health, **fields: object) -> Changes:
    known = {
        "api_ok": health.api_ok,
        "problem": health.problem,
        "restored": health.restored,
        "confirmed": health.confirmed,
    }
    return msgspec.structs.replace(frame, **{**known, **fields})
