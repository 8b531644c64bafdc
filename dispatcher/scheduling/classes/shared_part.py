"""What classes of pods have in common, kept once: the answers of all plugins that rest on nodes alone."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from dispatcher.model.reasons import Why
from dispatcher.scheduling.classes.groups import Bonus
from dispatcher.scheduling.classes.judges import GRID
from dispatcher.scheduling.classes.partitions import Partitions
from dispatcher.scheduling.classes.peaks import NOWHERE
from dispatcher.scheduling.classes.shared_answers import JointCodes, SharedColumn
from dispatcher.scheduling.fleet.columns import grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed, Readings, Rows
from dispatcher.scheduling.framework.points import ClassKey
from dispatcher.scheduling.framework.roles import Reach, Role

_NEVER = -1


class SharedPart:
    """All that classes have in common whose pods look alike to every plugin that rests on nodes alone.

    `heard`: the columns with something to say, in profile order; `joint`: the filters among them that stand before any
    other filter. `epoch` moves when answers other than those of changed rows may have.
    """

    def __init__(
        self, columns: Sequence[SharedColumn], leading: int, fleet: FleetState, partitions: Partitions
    ) -> None:
        self._columns, self._leading, self._fleet = tuple(columns), leading, fleet
        self._partitions = partitions
        self._bonus: Bonus | None = None
        self._grouped = False
        self._uniform: bool | None = None
        self.epoch = 0
        self.heard: tuple[SharedColumn, ...] = ()
        self.joint = JointCodes(())
        self._watchful: list[tuple[SharedColumn, int]] = []
        self._seen: tuple[object, ...] = ()
        self._at = _NEVER
        self.settings: dict[Hashable, object] = {}  # what glances at such pods have in common
        self._tops: Readings = np.zeros(0, dtype=np.float32)
        self._tops_at = _NEVER, _NEVER  # epoch, position

    @property
    def current(self) -> bool:
        """Whether it is up to date."""
        if self._at != self._fleet.changes.position:
            return False
        return not any(
            one.epoch != epoch or one.judge.is_stale(self._fleet, changed=False, touched=False)
            for one, epoch in self._watchful
        )

    def catch_up(self, placed: Placed) -> Why | None:
        """Bring all columns up to date; the reason if a plugin refuses the pods as a whole."""
        self._at = _NEVER
        for column in self._columns:
            refused = column.catch_up(placed, self._fleet)
            if refused is not None:
                return refused
        self.heard = tuple(column for column in self._columns if not column.silent)
        leading = tuple(one for one in self.heard if one.role.filter_at is not None and one.role.key_at < self._leading)
        if self.joint.columns != leading:
            self.joint = JointCodes(leading)
        self.joint.catch_up(self._fleet)
        watchful = [one for one in self._columns if one.judge.observed.now or one.judge.observed.kinds]
        self._watchful = [(one, one.epoch) for one in watchful]
        self._bonus = self._uniform = None
        seen = (self.joint, self.joint.epoch, *((one, one.epoch) for one in self.heard))
        self.epoch += seen != self._seen
        self._seen, self._at = seen, self._fleet.changes.position
        return None

    def tops(self) -> Readings:
        """[n] the points that `heard` columns without normalising add to a row, rounded up; -inf where `joint` refuses.

        In single precision: a bound, not a score.
        """
        fleet, (epoch, position) = self._fleet, self._tops_at
        changed = fleet.changes.since(position) if epoch == self.epoch else None
        if changed is None or len(changed):
            rows: Rows = slice(0, fleet.n) if changed is None else changed
            scoring = (one for one in self.heard if one.role.score_at is not None and not one.role.normalizes)
            points = [one.points[rows] for one in scoring]
            top = sum(points, np.zeros(len(self.joint.first[rows]))) * ((1.0 + 2.0**-20) / GRID)
            self._tops = grown(self._tops, fleet.n, 0.0)
            self._tops[rows] = np.where(self.joint.first[rows] == 0, top, NOWHERE)
            self._tops_at = self.epoch, fleet.changes.position
        return self._tops[: fleet.n]

    @property
    def uniform(self) -> bool:
        """Whether all filters with something to say stand in `joint`, and all rows get the same normalised scores."""
        if self._uniform is None:
            filters = [column for column in self.heard if column.role.filter_at is not None]
            bonus = self.bonus if all(column in self.joint.columns for column in filters) else None
            self._uniform = bonus is not None and bonus.partition is None and bonus.size == 1
        return self._uniform

    @property
    def normalizing(self) -> list[SharedColumn]:
        """The columns whose scores mean something only beside those of other rows."""
        return [column for column in self.heard if column.role.normalizes]

    @property
    def bonus(self) -> Bonus | None:
        """What groups of rows add where nothing rests on domains; None if there would be nearly a group a row."""
        if self._bonus is None:
            self._bonus = Bonus(self.normalizing, (), self._partitions)
            self._grouped = self._bonus.ask(self._fleet)
        return self._bonus if self._grouped else None


class SharedAnswers:
    """What classes of a plan share, by key; what was unused for longest is dropped beyond about `limit` bytes."""

    def __init__(self, roles: Sequence[Role], fleet: FleetState, limit: int) -> None:
        self.partitions = Partitions(fleet)
        self._fleet, self._limit = fleet, limit
        self._roles = [role for role in roles if role.reach is Reach.SHARED]
        others = [role.key_at for role in roles if role.reach is not Reach.SHARED and role.filter_at is not None]
        self._leading = min(others, default=len(roles) + max((role.key_at for role in roles), default=0))
        self._columns: OrderedDict[tuple[Role, Hashable], SharedColumn] = OrderedDict()
        self._parts: OrderedDict[tuple[Hashable, ...], SharedPart] = OrderedDict()

    def part(self, key: ClassKey) -> SharedPart:
        """The shared part of the class of a key."""
        keys = tuple([key[role.key_at] for role in self._roles])
        found = self._parts.get(keys)
        if found is None:
            self._make_room(self._parts, 6)
            columns = [self._column(role, one) for role, one in zip(self._roles, keys, strict=True)]
            found = self._parts[keys] = SharedPart(columns, self._leading, self._fleet, self.partitions)
        else:
            self._parts.move_to_end(keys)
        return found

    def _column(self, role: Role, key: Hashable) -> SharedColumn:
        found = self._columns.get((role, key))
        if found is None:
            self._make_room(self._columns, 22)
            found = self._columns[role, key] = SharedColumn(role)
        else:
            self._columns.move_to_end((role, key))
        return found

    def _make_room(self, kept: OrderedDict[Any, Any], bytes_per_row: int) -> None:
        most = max(64, self._limit // max(1, bytes_per_row * self._fleet.n))
        while len(kept) >= most:
            kept.popitem(last=False)
