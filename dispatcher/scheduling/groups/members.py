"""The members of a group that wait, what is known of their room, and their decision in one domain."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby

import msgspec
import numpy as np

from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.cycle.what_if import WhatIf
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.groups.domain_levels import DomainLevels, GroupPlace, keys_up_to
from dispatcher.scheduling.groups.rooms import RoomTables, summed
from dispatcher.scheduling.groups.sums import sums_of
from dispatcher.scheduling.groups.templates import capped, templates_of
from dispatcher.scheduling.records.decision import Decision
from shared.messages.pod_cache import PodCache
from shared.model.pod import Group

_MOST_HOPELESS = 1024  # shapes of groups of which it is kept that no eviction helps them
# of members in the what-ifs of one group, about a second; and as many to find victims. What a group
# needs for one try it has.
MOST_DECISIONS = 4096
_ALIKE = 16  # members of one template are decided in the time of one
NodeName = tuple[str, str]  # (cluster, node)


class Members:
    """`needed`: so many of those that wait have to find a place, or none goes. `keys`: of the levels
    of domains that they may go to. PluginError, TooVariedError.
    """

    def __init__(
        self,
        profiles: Profiles,
        group: Group,
        waiting: Sequence[Item],
        placed: Sequence[NodeName],
    ) -> None:
        self.profiles = profiles
        self.group = group
        self.waiting = waiting
        self.placed = placed
        self.needed = max(1, group.min_count - len(placed))
        self.keys = keys_up_to(group.within)
        self.decisions = 0  # of members in what-ifs, as `MOST_DECISIONS` counts them
        kept = profiles.of_groups
        if "levels" not in kept:
            kept["levels"] = levels = DomainLevels(profiles.fleet)
            kept["rooms"] = RoomTables(profiles.fleet, levels)
            kept["hopeless"] = PodCache(_MOST_HOPELESS)
        self.levels: DomainLevels = kept["levels"]
        rooms: RoomTables = kept["rooms"]
        # shapes of groups that no eviction helps, each with how the fleet stood, and when
        self.hopeless: PodCache[Hashable, tuple[tuple[int, ...], float]] = kept["hopeless"]
        self.templates = templates_of(profiles, waiting, rooms, self.keys)
        # decisions of a domain that holds all
        self.a_try = sum(_cost(len(one.items), alike=one.alike) for one in self.templates)
        self._sums = sums_of(profiles, waiting, self.templates)
        self._template_of = {
            pod_id: at for at, one in enumerate(self.templates) for pod_id, _ in one.items
        }

    def codes(self, key: str) -> RowList:
        """The domains with nodes, or the one that holds all members that have a place."""
        if not self.placed:
            return self.levels.with_nodes(key)
        rows = [self.profiles.fleet.row_of(*one) for one in self.placed]
        codes = {-1 if row is None else self.levels.codes(key).item(row) for row in rows}
        return np.asarray([*codes] if len(codes) == 1 and -1 not in codes else [], dtype=np.intp)

    def fitting_in(self, key: str) -> tuple[Ints, Floats]:
        """[domains] how many members have room at most, and how many such groups."""
        rooms = (one.in_domains.get(key) for one in self.templates)
        return self.fitting(rooms, self.levels.size(key))

    def bound_in(self, key: str) -> tuple[Ints, Floats]:
        """The same, and by what members of several templates ask for together."""
        fit, left = self.fitting_in(key)
        if self._sums is not None:
            codes = self.levels.codes(key)
            np.minimum(fit, self._sums.in_domains(codes, self.levels.size(key)), out=fit)
        return fit, left

    def fitting(self, rooms: Iterable[Ints | None], size: int) -> tuple[Ints, Floats]:
        """The same where so many of each template have room. [domains]"""
        fit: Ints = np.zeros(size, dtype=np.int64)
        left: Floats = np.full(size, np.inf)
        for one, room in zip(self.templates, rooms, strict=True):
            if room is None:
                left[:] = 0.0
            else:
                fit += np.minimum(room, one.most)
                np.minimum(left, room / len(one.items), out=left)
        return fit, left

    def tightened(self) -> dict[str, Ints] | None:
        """By topology key [domains] how many members fit at most, by what is counted on hosts as
        well; None if that says no more than room does. PluginError.
        """
        if len(self.profiles.nominations):
            return None
        found = {key: np.zeros(self.levels.size(key), dtype=np.int64) for key in self.keys}
        says_more = False
        for one in self.templates:
            cap = capped(one)
            says_more = says_more or cap is not None
            for key, fit in found.items():
                room = one.in_domains.get(key)
                if cap is not None:
                    room = summed(self.levels.codes(key), cap, self.levels.size(key))
                if room is not None:
                    np.add(fit, np.minimum(room, one.most), out=fit)
        return found if says_more else None

    def decide_in(self, trial: WhatIf, place: GroupPlace) -> list[Result]:
        """Decide them there in their order, until too many find no place."""
        may_fail = len(self.waiting) - self.needed
        results = list[Result]()
        failed = 0
        only_in = place.only_in
        for at, run in groupby(self.waiting, lambda item: self._template_of[item[0]]):
            items = [
                (pod_id, msgspec.structs.replace(pod_info, only_in=only_in))
                for pod_id, pod_info in run
            ]
            alike = self.templates[at].alike
            found = trial.schedule_class(items, alike=alike)
            results += found
            there = held(found)
            self.decisions += _cost(there if alike else len(found), alike=alike)
            failed += len(found) - there
            if failed > may_fail:
                break
        return results


def _cost(members: int, *, alike: bool) -> int:
    return 1 + members // _ALIKE if alike else members


def held(results: Sequence[Result]) -> int:
    """How many have a place."""
    return len([one for one in results if isinstance(one, Decision)])
