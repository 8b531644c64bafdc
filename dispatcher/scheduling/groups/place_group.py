"""The best place for a whole group, over all clusters: its members are booked there together, or none
is.

Which domain that is, the bound that spares most of them a what-if, and an example:
docs/algorithms/groups.md.
"""

from collections.abc import Sequence

import msgspec

from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.groups.candidates import Candidates, Rank
from dispatcher.scheduling.groups.domain_levels import DomainLevels, GroupPlace
from dispatcher.scheduling.groups.members import MOST_DECISIONS, Members, NodeName, held
from dispatcher.scheduling.groups.preemption import Emptied, GroupPreemption
from dispatcher.scheduling.groups.refusals import (
    Tried,
    missing_in,
    missing_of,
    refusals,
    refused_alone,
)
from dispatcher.scheduling.groups.templates import Template, TooVariedError
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import Group, PodId
from shared.model.reasons import Reasons, Why
from shared.model.topology import LEVELS, meant_level

# what-ifs of one group; each is about a millisecond. Only filters that look further than at room and
# at node objects make more than one fail.
MOST_TRIED = 256
_FEW = 4  # that fail, before what is counted on hosts is asked for
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

    Where pods of lower priority are in the way, refusals may tell victims, and to which nodes the
    members are nominated then; what they were promised before is taken back if it is of no use.
    """
    if not waiting:
        raise ValueError("a group without members that wait")
    nominations = profiles.nominations
    asked = waiting if len(nominations) else ()
    promised = [one for pod_id, _ in asked if (one := nominations.of(pod_id)) is not None]
    search = _Search(profiles, group, waiting, placed, promised)
    if not promised:
        return search.run()
    with profiles.what_if() as trial:  # what members are promised is there for each of them
        for nominee in promised:
            nominations.drop(nominee.pod_id)
        found = search.run()
        if not search.waits:
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
        promised: Sequence[Nominee],
    ) -> None:
        self._profiles = profiles
        self._promised = promised
        self.waits = False  # for pods that leave the nodes which members are promised
        self._group = group
        self._waiting = waiting
        self._placed = placed
        self._tried = Tried(group, len(placed), max(1, group.min_count - len(placed)))
        self._told: Unschedulable | None = None  # the refusal of a member in the best domain
        self._emptied: Emptied | None = None  # what evictions could do

    def run(self) -> GroupResult:
        """The best place, booked; or refusals."""
        try:
            found = self._place()
        except PluginError as error:
            found = None
            self._refuse(Why(Reasons.PLUGIN_ERROR, error.plugin))
        if found is not None:
            return found
        self.waits = any(one.victims for one in self._promised)
        if self.waits:
            self._tried.missing += "; it waits for pods to leave that were evicted for it"
        refused = refusals(self._profiles, self._waiting, self._tried, self._told)
        if self.waits:
            for one, nominee in self._with_promise(refused):
                one.nominated = nominee.cluster, nominee.node
        elif self._emptied is not None:
            self._nominate(refused, self._emptied)
        return GroupResult([*refused])

    def _with_promise(
        self, refused: Sequence[Unschedulable]
    ) -> list[tuple[Unschedulable, Nominee]]:
        by_pod = {one.pod_id: one for one in self._promised}
        return [(one, by_pod[one.pod_id]) for one in refused if one.pod_id in by_pod]

    def _nominate(self, refused: Sequence[Unschedulable], emptied: Emptied) -> None:
        """Promise the members their nodes: what PostFilter does for one pod."""
        where = {
            one.pod_id: (one.cluster, one.node)
            for one in emptied.results
            if isinstance(one, Decision)
        }
        to_go = [one for one in refused if one.pod_id in where]
        victims = _shared_out(emptied.victims, [(one.pod_id, *where[one.pod_id]) for one in to_go])
        nominations = self._profiles.nominations
        for one in to_go:
            one.nominated = where[one.pod_id]
            one.victims = tuple(victims[one.pod_id])
            one.displaced = tuple(nominations.lower_on(*one.nominated, one.pod_info))
            for pod_id in one.displaced:
                nominations.drop(pod_id)
        for one in to_go:
            evicted = frozenset(victim.pod_id for victim in one.victims)
            nominations.put(Nominee(one.pod_id, one.pod_info, *where[one.pod_id], evicted))

    def _place(self) -> GroupResult | None:
        tried = self._tried
        names = sorted({one.pod.scheduler_name for _, one in self._waiting})
        if len(names) > 1:
            text = f"{self._group.name}: its pods name several profiles: {', '.join(names)}"
            self._refuse(Why(Reasons.INVALID, text))
            return None
        if tried.needed > len(self._waiting):
            self._refuse(Why(Reasons.GROUP, f"{len(self._waiting)} of {tried.needed} members wait"))
            return None
        try:
            members = Members(self._profiles, self._group, self._waiting, self._placed)
        except TooVariedError as error:
            self._refuse(Why(Reasons.GROUP, ""))
            tried.missing = str(error)
            return None
        alone = refused_alone(members.templates, tried.needed)
        if alone is not None:
            self._refuse(alone)
            return None
        found = self._first_that_fits(members, self._candidates(members))
        if found is None and tried.place is not None:
            tried.reasons |= {one for some in members.templates for one in some.reasons}
        if found is None and not any(one.victims for one in self._promised):
            preemption = GroupPreemption(members)
            self._emptied = preemption.best()
            if preemption.is_cut and self._emptied is None:
                tried.missing += (
                    "; whom to evict for it would take too long to find: make smaller groups, or "
                    "let their members ask for the same"
                )
        return found

    def _refuse(self, why: Why) -> None:
        self._tried.place = None
        self._tried.missing = why.text
        self._tried.reasons = {why.reason}

    # --- which domains may hold it
    # ----------------------------------------------------------------------------------------------

    def _candidates(self, members: Members) -> Candidates:
        """The domains whose room may be enough; if there is none, the best of the others is noted."""
        tried = self._tried
        found = Candidates(len(self._waiting))
        for level, key in enumerate(members.keys):
            codes = members.codes(key)
            if len(codes):
                found.add(level, codes, *members.bound_in(key))
        if not len(found):
            placed = "the members that have a place are in no common one" if self._placed else ""
            self._refuse(Why(Reasons.OUTSIDE_DOMAIN, ""))
            within = self._group.within
            meant = meant_level(within)
            hint = f"; did you mean {meant}?" if meant else ""
            lacking = f"no node has label {LEVELS.get(within) or within}{hint}"
            tried.missing = f"no domain of {within}: {placed or lacking}"
            return found
        most, level, code = found.most()
        if most < tried.needed:
            key = members.keys[level]
            self._note(members.levels, key, members.levels.place(key, code), most)
            tried.missing = missing_in(members.templates, members.levels, key, code)
        found.keep(tried.needed)
        return found

    def _note(self, levels: DomainLevels, key: str, place: GroupPlace, most: int) -> None:
        tried = self._tried
        tried.place = place
        tried.held = most
        tried.domains = len(levels.with_nodes(key))

    # --- which of them does
    # ----------------------------------------------------------------------------------------------

    def _first_that_fits(self, members: Members, candidates: Candidates) -> GroupResult | None:
        """Book in the best domain that holds so many. The bound says in which order they are tried:
        the first that holds as many as it says is the best of all.
        """
        best: tuple[Rank, GroupPlace] | None = None
        tries = _Tries(members, candidates)
        while tries.go_on():
            rank, at = candidates.best()
            if best is not None and best[0] <= rank:
                break
            key = members.keys[rank.level]
            codes = candidates.codes(at)
            chosen = _preferred(members, key, codes)
            place = members.levels.place(key, codes[chosen])
            with self._profiles.what_if() as trial:
                results = members.decide_in(trial, place)
                there = held(results)
                found = rank._replace(missing=len(self._waiting) - there)
                fits = there >= members.needed
                is_better = fits and (best is None or found < best[0])
                if is_better:
                    best = found, place
                if is_better and found == rank:
                    trial.commit()
                    return self._booked(members, place, results)
                candidates.drop(at.item(chosen))
                if is_better and (not len(candidates) or found <= candidates.best()[0]):
                    trial.commit()
                    return self._booked(members, place, results)
            if not fits and self._failed(members, place, results):
                break
            tries.note(rank.level, fits)
        self._tried.untried = tries.untried
        return None if best is None else self._book(members, best[1])

    def _failed(self, members: Members, place: GroupPlace, results: Sequence[Result]) -> bool:
        """Note what was missing; whether it would be so in every domain."""
        tried = self._tried
        refused = [one for one in results if isinstance(one, Unschedulable)]
        tried.reasons |= {reason for one in refused for reason in one.reasons}
        if held(results) > tried.held:
            self._told = refused[0]
            self._note(members.levels, place.key, place, held(results))
            tried.missing = missing_of(refused[0])
        scheduler = self._profiles.of(refused[0].pod_info)
        anywhere = len(scheduler.bulk) == len(scheduler.plan.pod_plugins)
        alone = sum(not one.context.evaluated for one in refused)
        return anywhere and alone > len(self._waiting) - members.needed

    # --- booked
    # ----------------------------------------------------------------------------------------------

    def _book(self, members: Members, place: GroupPlace) -> GroupResult:
        """What was tried there before, once more and to stay."""
        with self._profiles.what_if() as trial:
            results = members.decide_in(trial, place)
            trial.commit()
        return self._booked(members, place, results)

    def _booked(self, members: Members, place: GroupPlace, results: list[Result]) -> GroupResult:
        """Members need not carry their domain any more; those without room are told which it is."""
        note = {
            "group": self._group.name,
            "domain": place.words,
            "domains": len(members.levels.with_nodes(place.key)),
            "members": held(results) + len(self._placed),
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


class _Tries:
    """How many domains are tried for one group: until what one group may cost is spent, and then the
    best of the widest level, if none of that was.

    `untried`: domains that are left out by that.
    """

    def __init__(self, members: Members, candidates: Candidates) -> None:
        self._members = members
        self._candidates = candidates
        self._widest = candidates.widest
        self._levels = set[int]()
        self._tried = 0
        self._is_tight = False
        self.untried = 0

    def go_on(self) -> bool:
        """Whether another one is to be tried; candidates are those that may be."""
        if self._is_spent:
            self._tighten()
            self.untried = self.untried or len(self._candidates)
            if self._widest in self._levels:
                return False
            self._candidates.keep_level(self._widest)
        return len(self._candidates) > 0

    def note(self, level: int, fits: bool) -> None:
        """One of this level was tried."""
        self._tried += 1
        self._levels.add(level)
        if self.untried:
            self.untried -= 1
        elif not fits and self._tried == _FEW:
            self._tighten()

    @property
    def _is_spent(self) -> bool:
        members = self._members
        after = members.decisions + members.a_try
        return self._tried > 0 and (self._tried >= MOST_TRIED or after > MOST_DECISIONS)

    def _tighten(self) -> None:
        if self._is_tight:
            return
        self._is_tight = True
        members = self._members
        for level, bound in enumerate((members.tightened() or {}).values()):
            self._candidates.tighten(level, bound, members.needed)


def _shared_out(
    victims: Sequence[Victim], members: Sequence[tuple[PodId, str, str]]
) -> dict[PodId, list[Victim]]:
    """Each victim is evicted for one member: on its node, else in its cluster."""
    found: dict[PodId, list[Victim]] = {pod_id: [] for pod_id, _, _ in members}
    by_node = {(cluster, node): pod_id for pod_id, cluster, node in reversed(members)}
    by_cluster = {cluster: pod_id for pod_id, cluster, _ in reversed(members)}
    for victim in victims:
        in_cluster = by_cluster.get(victim.cluster, members[0][0])
        found[by_node.get((victim.cluster, victim.node), in_cluster)].append(victim)
    return found


def _preferred(members: Members, key: str, codes: Sequence[int]) -> int:
    """Of domains that are alike, the one where a member of the most frequent template would go by
    itself; the first by name where it would go nowhere.
    """
    if len(codes) == 1:
        return 0
    levels = members.levels
    most = max(members.templates, key=lambda one: len(one.items))
    pod_id, pod_info = most.items[0]
    if not _hold_all_room(members, most, key, codes):
        values = tuple([levels.place(key, code).value for code in codes])
        pod_info = msgspec.structs.replace(pod_info, only_in=Domains(key, values))
    decision = most.scheduler.would_choose(pod_id, pod_info)
    if decision is None:
        by_name = {levels.place(key, code).value: at for at, code in enumerate(codes)}
        return by_name[min(by_name)]
    return codes.index(levels.codes(key).item(decision.row))


def _hold_all_room(members: Members, template: Template, key: str, codes: Sequence[int]) -> bool:
    """Whether no node elsewhere has room, so that no more need be said than the pod says."""
    if template.room is None or len(members.profiles.nominations):
        return False
    inside: int = template.in_domains[key][codes].sum().item()
    return inside == int(template.room.by_row.sum())
