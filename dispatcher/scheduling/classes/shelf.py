"""The pod classes that are kept, within bounds of memory; the one unused for longest makes room for the next."""

from collections import OrderedDict

from dispatcher.scheduling.classes.glance import Glance
from dispatcher.scheduling.classes.glances import LARGE, Glances
from dispatcher.scheduling.classes.pod_class import PodClass
from dispatcher.scheduling.classes.rows import Passes
from dispatcher.scheduling.classes.shared_part import SharedAnswers
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.points import ClassKey, Plan
from dispatcher.scheduling.framework.roles import roles_of

_MOST_CLASSES = 512  # memory that is used again is faster than fresh memory
_MOST_MET, _WORTH_KEEPING = 4096, 4
_BYTES_PER_ROW = 16  # of a class: totals, codes, peaks


class ClassShelf:
    """Classes by key. `limit`: bytes; a quarter of it for what classes share. `passes`: who else may be asked.

    `large`: see `Glances`.
    """

    def __init__(
        self, plan: Plan, fleet: FleetState, limit: int, passes: Passes | None = None, large: int = LARGE
    ) -> None:
        self._plan, self._fleet, self._limit, self._passes = plan, fleet, limit, passes
        self._roles = roles_of(plan)
        self._shared = SharedAnswers(self._roles, fleet, limit // 4)
        self._classes: OrderedDict[ClassKey, PodClass] = OrderedDict()
        self._glances = Glances(plan, self._roles, fleet, self._shared, large)
        self._met: OrderedDict[ClassKey, int] = OrderedDict()

    def glance(self, key: ClassKey, placed: Placed) -> Glance | None:
        """A look at a pod whose class is not kept (yet); None if the class has to decide. Raises PluginError.

        A class that is met for the fourth time is worth its memory.
        """
        if key in self._classes:
            return None
        met = self._met.pop(key, 0) + 1
        if met >= _WORTH_KEEPING:
            return None
        self._met[key] = met
        if len(self._met) > _MOST_MET:
            self._met.popitem(last=False)
        return self._glances.at(key, placed)

    def get(self, key: ClassKey) -> PodClass:
        """The class of a key (see `Plan.class_key`)."""
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
            return found
        most = max(1, min(_MOST_CLASSES, self._limit // (_BYTES_PER_ROW * max(1, self._fleet.n))))
        found = None
        while len(self._classes) >= most:
            _, found = self._classes.popitem(last=False)
        if found is None:  # fresh memory costs more than the answers that go into it
            found = PodClass(self._plan, self._roles, self._fleet, self._shared, self._passes)
        found.begin(key)
        self._classes[key] = found
        return found

    def drop(self, key: ClassKey) -> None:
        """Forget a class: what it holds may be half written."""
        self._classes.pop(key, None)
