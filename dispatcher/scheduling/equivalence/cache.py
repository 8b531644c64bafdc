"""The LRU cache of equivalence classes, within bounds of memory."""

from collections import OrderedDict
from dataclasses import dataclass

from dispatcher.scheduling.equivalence.class_rows import ClassRows, RowTables
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.fleet_scoped import LastAsked
from dispatcher.scheduling.equivalence.static_answers import StaticAnswersCache
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.framework.roles import roles_of
from shared.messages.pod_cache import POD_CACHE_BYTES

_MOST_CLASSES = 512
# of a class: codes and totals, if it shares them with no other; totals with what clusters add
_BYTES_PER_ROW = 18
_BYTES_PER_COUNT = 8
_LARGE = 2**16  # bytes of a count by host, from where these matter


@dataclass(slots=True)
class ClassCounts:
    """Classes that are `kept`, how many were `dropped` to make room for others, and `passes` for
    pods of classes that are not kept.
    """

    kept: int = 0
    dropped: int = 0
    passes: int = 0


class EquivalenceCache:
    """Classes by key; the least recently used one makes room for the next.

    `limit`: bytes for the rows and counts of all classes. The columns and the parts that classes share
    (`static_answers`) may each use a further quarter of it.
    """

    def __init__(self, plan: Plan, fleet: FleetState, limit: int) -> None:
        self._plan = plan
        self._fleet = fleet
        self._limit = limit
        self.roles = roles_of(plan)
        self.static_answers = StaticAnswersCache(self.roles, fleet, limit // 4)
        self._classes: OrderedDict[ClassKey, EquivalenceClass] = OrderedDict()
        self._tables = RowTables(self.roles, fleet)
        self._last_asked = LastAsked()
        self._said = 0  # bytes of what pods of these classes say
        self.counts = ClassCounts()

    def __contains__(self, key: ClassKey) -> bool:
        return key in self._classes

    def get(self, key: ClassKey) -> EquivalenceClass:
        """The class of a key: `Plan.class_key`, extended by `Plan.fleet_key`."""
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
            self._said += max(0, key.said - found.said)
            found.said = max(found.said, key.said)
            return found
        while self._classes and not self._has_room(key):
            dropped = self._classes.popitem(last=False)[1]
            dropped.rows.leave(reuse=True)
            self._said -= dropped.said
            self.counts.dropped += 1
        rows = ClassRows(self._fleet, self._tables, key)
        made = EquivalenceClass(self._plan, self.roles, self._fleet, self.static_answers, key, rows)
        made.last_asked = self._last_asked
        made.said = key.said
        self._classes[key] = made
        self._said += made.said
        self.counts.kept = len(self._classes)
        return made

    def _has_room(self, key: ClassKey) -> bool:
        """For one more."""
        if self._said + key.said > POD_CACHE_BYTES:
            return False
        n = max(1, self._fleet.n)
        left = self._limit - _BYTES_PER_ROW * n * (len(self._classes) + 1)
        if left < 0 or len(self._classes) >= _MOST_CLASSES:
            return False
        return _BYTES_PER_COUNT * n < _LARGE or self._bytes_of_counts() <= left

    def _bytes_of_counts(self) -> int:
        """Of the counts of pods that classes look at, also of those that nobody else looks at any
        more: by host they are as long as the fleet, and a pod may have dozens of its own.
        """
        evaluators = [one for some in self._classes.values() for one in some.evaluators]
        counts = {id(count): count for one in evaluators for count, _ in one.versions}
        return sum([count.counts.nbytes for count in counts.values()])

    def drop(self, key: ClassKey) -> None:
        """Forget a class: what it holds may be half written."""
        dropped = self._classes.pop(key, None)
        if dropped is not None:
            self._said -= dropped.said
            dropped.rows.leave(reuse=False)
            self._tables.forget(dropped.rows.plugins)
            self.counts.kept = len(self._classes)
