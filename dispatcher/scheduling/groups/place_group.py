"""The best place for a whole group, over all clusters: its members are booked there together, or none
is.

Which domain that is, the bound that spares most of them a what-if, and an example:
docs/algorithms/groups.md.
"""

from collections.abc import Sequence
from itertools import groupby

import msgspec
import numpy as np

from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.cycle.what_if import WhatIf
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.groups.candidates import Candidates, Rank
from dispatcher.scheduling.groups.domain_levels import DomainLevels, GroupPlace, keys_up_to
from dispatcher.scheduling.groups.refusals import (
    Tried,
    missing_in,
    missing_of,
    refusals,
    refused_alone,
)
from dispatcher.scheduling.groups.rooms import RoomTables
from dispatcher.scheduling.groups.templates import Template, templates_of
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import Group, PodId
from shared.model.reasons import Reasons, Why

NodeName = tuple[str, str]  # (cluster, node)
# what-ifs of one group; each is about a millisecond. Only filters that look further than at room and
# at node objects make more than one fail.
MOST_TRIED = 256
NOTED = "PodGroup"  # under which a decision's record tells of the group


class GroupResult(msgspec.Struct):
    """What became of the members that waited, in their order: decisions that are booked, and
    refusals of those for whom there was no more room there; or refusals of all, and nothing is
    booked.

    `place`: the domain that those went to; None where nothing is booked.
    """

    results: list[Result]
    place: GroupPlace | None = None

    @property
    def is_booked(self) -> bool:
        """Whether the group has a place."""
        return self.place is not None


def place_group(
    profiles: Profiles, group: Group, waiting: Sequence[Item], placed: Sequence[NodeName] = ()
) -> GroupResult:
    """Book the members that wait on nodes of the best domain: with those that are `placed` already
    at least `min_count`, and as many more as fit there; or nothing. ValueError for no member, or one
    that has a place.

    `placed`: the nodes of members that have a place, which say in which domain the others go.
    """
    if not waiting:
        raise ValueError("a group without members that wait")
    nominations = profiles.nominations
    if not any(nominations.of(pod_id) for pod_id, _ in waiting):
        return _Search(profiles, group, waiting, placed).run()
    with profiles.what_if() as trial:  # what members are promised is there for each of them
        for pod_id, _ in waiting:
            nominations.drop(pod_id)
        found = _Search(profiles, group, waiting, placed).run()
        if found.is_booked:
            trial.commit()
    return found


class _Search:
    """One search for one group."""

    def __init__(
        self,
        profiles: Profiles,
        group: Group,
        waiting: Sequence[Item],
        placed: Sequence[NodeName],
    ) -> None:
        self._profiles = profiles
        self._fleet = profiles.fleet
        self._group = group
        self._waiting = waiting
        self._placed = placed
        needed = max(1, group.min_count - len(placed))
        kept = profiles.of_groups
        if "levels" not in kept:
            kept["levels"] = levels = DomainLevels(self._fleet)
            kept["rooms"] = RoomTables(self._fleet, levels)
        self._levels: DomainLevels = kept["levels"]
        self._rooms: RoomTables = kept["rooms"]
        self._keys = keys_up_to(group.within)
        self._templates: list[Template] = []
        self._template_of: dict[PodId, int] = {}
        self._tried = Tried(group, len(placed), needed)
        self._told: Unschedulable | None = None  # the refusal of a member in the best domain

    def run(self) -> GroupResult:
        """The best place, booked; or refusals."""
        try:
            found = self._place()
        except PluginError as error:
            found = None
            self._refuse(Why(Reasons.PLUGIN_ERROR, error.plugin))
        if found is not None:
            return found
        return GroupResult(refusals(self._profiles, self._waiting, self._tried, self._told))

    def _place(self) -> GroupResult | None:
        tried = self._tried
        names = sorted({one.pod.scheduler_name for _, one in self._waiting})
        if len(names) > 1:
            text = f"{self._group.name}: its pods name several profiles: {', '.join(names)}"
            self._refuse(Why(Reasons.INVALID, text))
            return None
        self._templates = templates_of(self._profiles, self._waiting, self._rooms, self._keys)
        self._template_of = {
            pod_id: at for at, one in enumerate(self._templates) for pod_id, _ in one.items
        }
        if tried.needed > len(self._waiting):
            self._refuse(Why(Reasons.GROUP, f"{len(self._waiting)} of {tried.needed} members wait"))
            return None
        alone = refused_alone(self._templates, tried.needed)
        if alone is not None:
            self._refuse(alone)
            return None
        candidates = self._candidates()
        return self._first_that_fits(candidates) if len(candidates) else None

    def _refuse(self, why: Why) -> None:
        self._tried.place = None
        self._tried.missing = why.text
        self._tried.reasons = {why.reason}

    # --- which domains may hold it
    # ----------------------------------------------------------------------------------------------

    def _candidates(self) -> Candidates:
        """The domains whose room may be enough; if there is none, the best of the others is noted."""
        tried = self._tried
        found = Candidates(len(self._waiting))
        for level, key in enumerate(self._keys):
            codes = self._codes(key)
            if len(codes):
                found.add(level, codes, *self._fitting_in(key))
        tried.reasons |= {one for some in self._templates for one in some.reasons}
        if not len(found):
            placed = "the members that have a place are in no common one" if self._placed else ""
            self._refuse(Why(Reasons.OUTSIDE_DOMAIN, ""))
            tried.missing = f"no domain of {self._group.within}: {placed or 'no node has one'}"
            return found
        held, level, code = found.most()
        if held < tried.needed:
            key = self._keys[level]
            self._note(key, code, held)
            worst = min(
                self._templates,
                key=lambda one: one.in_domains[key].item(code) / len(one.items) if one.room else -1,
            )
            tried.missing = missing_in(worst, self._levels, key, code)
        found.keep(tried.needed)
        return found

    def _fitting_in(self, key: str) -> tuple[Ints, Floats]:
        """[domains] how many members have room, and how many such groups."""
        size = self._levels.size(key)
        fit: Ints = np.zeros(size, dtype=np.int64)
        left: Floats = np.full(size, np.inf)
        for one in self._templates:
            room = one.in_domains.get(key)
            if room is None:
                left[:] = 0.0
            else:
                fit += np.minimum(room, one.most)
                np.minimum(left, room / len(one.items), out=left)
        return fit, left

    def _codes(self, key: str) -> RowList:
        """The domains with nodes, or the one that holds all members that have a place."""
        if not self._placed:
            return self._levels.with_nodes(key)
        rows = [self._fleet.row_of(*one) for one in self._placed]
        codes = {-1 if row is None else self._levels.codes(key).item(row) for row in rows}
        return np.asarray([*codes] if len(codes) == 1 and -1 not in codes else [], dtype=np.intp)

    def _note(self, key: str, code: int, held: int) -> None:
        tried = self._tried
        tried.place = self._levels.place(key, code)
        tried.held = held
        tried.domains = len(self._levels.with_nodes(key))

    # --- which of them does
    # ----------------------------------------------------------------------------------------------

    def _first_that_fits(self, candidates: Candidates) -> GroupResult | None:
        """Book in the best domain that holds so many. The bound says in which order they are tried:
        the first that holds as many as it says is the best of all.
        """
        best: tuple[Rank, GroupPlace] | None = None
        tried = 0
        while len(candidates) and tried < MOST_TRIED:
            rank, at = candidates.best()
            if best is not None and best[0] <= rank:
                break
            key = self._keys[rank.level]
            chosen = self._preferred(key, candidates.codes(at))
            place = self._levels.place(key, candidates.codes(at)[chosen])
            candidates.drop(at.item(chosen))
            tried += 1
            following = candidates.best()[0] if len(candidates) else None
            with self._profiles.what_if() as trial:
                results = self._members_in(trial, place)
                held = sum(isinstance(one, Decision) for one in results)
                found = rank._replace(missing=len(self._waiting) - held)
                if held >= self._tried.needed and (best is None or found < best[0]):
                    best = found, place
                    if following is None or found <= following:
                        trial.commit()
                        return self._booked(place, results)
            if held < self._tried.needed and self._failed(place, key, results, held):
                break
        return None if best is None else self._book(best[1])

    def _preferred(self, key: str, codes: Sequence[int]) -> int:
        """Of domains that are alike, the one where a member of the most frequent template would go
        by itself; the first where it would go nowhere.
        """
        if len(codes) == 1:
            return 0
        most = max(self._templates, key=lambda one: len(one.items))
        pod_id, pod_info = most.items[0]
        if not self._hold_all_room(most, key, codes):
            values = tuple([self._levels.place(key, code).value for code in codes])
            pod_info = msgspec.structs.replace(pod_info, only_in=Domains(key, values))
        decision = most.scheduler.would_choose(pod_id, pod_info)
        if decision is None:
            by_name = {self._levels.place(key, code).value: at for at, code in enumerate(codes)}
            return by_name[min(by_name)]
        return codes.index(self._levels.codes(key).item(decision.row))

    def _hold_all_room(self, template: Template, key: str, codes: Sequence[int]) -> bool:
        """Whether no node elsewhere has room, so that no more need be said than the pod says."""
        if template.room is None or len(self._profiles.nominations):
            return False
        inside: int = template.in_domains[key][codes].sum().item()
        return inside == int(template.room.by_row.sum())

    def _members_in(self, trial: WhatIf, place: GroupPlace) -> list[Result]:
        """Decide the members there in their order, until too many find no place."""
        may_fail = len(self._waiting) - self._tried.needed
        results = list[Result]()
        only_in = place.only_in
        for _, run in groupby(self._waiting, lambda item: self._template_of[item[0]]):
            results += trial.schedule(
                [
                    (pod_id, msgspec.structs.replace(pod_info, only_in=only_in))
                    for pod_id, pod_info in run
                ]
            )
            if sum(isinstance(one, Unschedulable) for one in results) > may_fail:
                break
        return results

    def _failed(self, place: GroupPlace, key: str, results: Sequence[Result], held: int) -> bool:
        """Note what was missing; whether it would be so in every domain."""
        tried = self._tried
        refused = [one for one in results if isinstance(one, Unschedulable)]
        tried.reasons |= {reason for one in refused for reason in one.reasons}
        if held > tried.held:
            self._told = refused[0]
            tried.place = place
            tried.held = held
            tried.domains = len(self._levels.with_nodes(key))
            tried.missing = missing_of(refused[0])
        scheduler = self._profiles.of(refused[0].pod_info)
        anywhere = len(scheduler.bulk) == len(scheduler.plan.pod_plugins)
        alone = sum(not one.context.evaluated for one in refused)
        return anywhere and alone > len(self._waiting) - tried.needed

    # --- booked
    # ----------------------------------------------------------------------------------------------

    def _book(self, place: GroupPlace) -> GroupResult:
        """What was tried there before, once more and to stay."""
        with self._profiles.what_if() as trial:
            results = self._members_in(trial, place)
            trial.commit()
        return self._booked(place, results)

    def _booked(self, place: GroupPlace, results: list[Result]) -> GroupResult:
        """Members need not carry their domain any more; those without room are told which it is."""
        held = sum(isinstance(one, Decision) for one in results)
        note = {
            "group": self._group.name,
            "domain": place.words,
            "domains": len(self._levels.with_nodes(place.key)),
            "members": held + len(self._placed),
        }
        for result, (pod_id, pod_info) in zip(results, self._waiting, strict=True):
            result.pod_info = pod_info
            if isinstance(result, Decision):
                self._profiles.of(pod_info).show(pod_id, pod_info)
                result.note(NOTED, note)
            else:
                missing = f"{self._group.name}: no more room in {place.words}; {missing_of(result)}"
                result.message = Why(Reasons.GROUP, missing).text
                result.reasons |= {Reasons.GROUP}
        return GroupResult(results, place)
