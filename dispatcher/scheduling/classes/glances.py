"""Which pods can be decided at a glance: those that plugins judge by nodes alone, or by single rows within bounds.

All others, and those without any place, are left to `PodClass`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dispatcher.scheduling.classes.ceilings import Ceilings
from dispatcher.scheduling.classes.free_room import FreeRoom
from dispatcher.scheduling.classes.glance import Glance, Setting
from dispatcher.scheduling.classes.judges import Judge
from dispatcher.scheduling.classes.shared_part import SharedAnswers, SharedPart
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.bounds import BoundedScore, RoomFilter
from dispatcher.scheduling.framework.points import ClassKey, Plan
from dispatcher.scheduling.framework.roles import Reach, Role

LARGE = 1 << 14  # rows
_MOST_SILENT = 4096
_MOST_TABLES = 4


@dataclass(slots=True)
class _Silent:
    """Plugins that have nothing to say about pods alike to them. `watchful`: those who may change their minds."""

    at: int
    watchful: list[Judge]

    def holds(self, fleet: FleetState) -> bool:
        """Whether they still have nothing to say."""
        same = self.at == fleet.changes.position
        return same and not any(one.is_stale(fleet, changed=False, touched=True) for one in self.watchful)


class Glances:
    """Glances at pods of one plan. That plugins have nothing to say is kept for all pods alike to them.

    `large`: from so many rows on few are looked at; below, that costs more than asking all.
    """

    def __init__(
        self, plan: Plan, roles: Sequence[Role], fleet: FleetState, shared: SharedAnswers, large: int = LARGE
    ) -> None:
        self._large = large
        self._profile, self._fleet, self._shared = plan.profile, fleet, shared
        by_class = [role for role in roles if role.reach is not Reach.SHARED]
        self._able = all(role.score_at is None or role.weight >= 0.0 for role in roles)
        self._bounded = [Judge(role) for role in by_class if _bounded(role)]  # asked anew for each pod
        self._others = [role for role in by_class if not _bounded(role)]
        self._room = FreeRoom(fleet)
        self._silent: dict[tuple[Hashable, ...], _Silent] = {}
        self._ceilings: dict[tuple[Role, ...], Ceilings] = {}

    def at(self, key: ClassKey, placed: Placed) -> Glance | None:
        """A glance at a pod of the class of a key; None if one will not do. Raises PluginError."""
        part = self._shared.part(key)
        if (
            not self._fleet.n
            or not self._able
            or (not part.current and part.catch_up(placed) is not None)
            or not part.uniform
        ):
            return None
        if not self._are_silent(key, placed):
            return None
        judges: list[Judge] = []
        for judge in self._bounded:
            if judge.pre_filter(placed, self._fleet) is not None:
                return None
            if not judge.silent:
                judges.append(judge)
        setting = self._setting(part, tuple([judge.role for judge in judges]))
        if setting is None or (setting.ceilings is not None and not setting.ceilings.catch_up()):
            return None
        self._room.catch_up()
        return Glance(self._fleet, setting, judges, self._room)

    def _are_silent(self, key: ClassKey, placed: Placed) -> bool:
        """Whether all those that would have to be asked about every row have nothing to say."""
        fleet, name = self._fleet, tuple([key[role.key_at] for role in self._others])
        known = self._silent.get(name)
        if known is not None and known.holds(fleet):
            return True
        watchful: list[Judge] = []
        for role in self._others:
            judge = Judge(role)
            if judge.pre_filter(placed, fleet) is not None or not judge.silent:
                return False
            judge.note(fleet)
            seen = judge.observed
            if seen.now or seen.counts or seen.kinds or judge.is_stale(fleet, changed=False, touched=True):
                watchful.append(judge)
        if len(self._silent) >= _MOST_SILENT:
            self._silent.clear()
        self._silent[name] = _Silent(fleet.changes.position, watchful)
        return True

    def _setting(self, part: SharedPart, roles: tuple[Role, ...]) -> Setting | None:
        large = self._fleet.n >= self._large
        known = part.settings.get((roles, large))
        if isinstance(known, Setting) and known.current:
            return known
        by_row = tuple(role for role in roles if role.score_at is not None)
        if not by_row:
            return None
        made = Setting(self._profile, part, roles, self._ceilings_of(by_row) if large else None)
        part.settings[roles, large] = made
        return made

    def _ceilings_of(self, roles: tuple[Role, ...]) -> Ceilings:
        found = self._ceilings.get(roles)
        if found is None:
            if len(self._ceilings) >= _MOST_TABLES:
                self._ceilings.clear()
            found = self._ceilings[roles] = Ceilings(roles, self._fleet)
        return found


def _bounded(role: Role) -> bool:
    if role.reach is not Reach.ROW:
        return False
    scores, filters = role.score_at is not None, role.filter_at is not None
    return (not scores or isinstance(role.plugin, BoundedScore)) and (
        not filters or isinstance(role.plugin, RoomFilter)
    )
