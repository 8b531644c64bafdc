"""The best place for a whole group, over all clusters: its members are booked there together, or none
is.

See docs/algorithms/groups.md.
"""

from collections.abc import Sequence

import msgspec

from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.groups.domain_levels import GroupPlace, domains_of
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import FLEET, Group
from shared.model.reasons import Reasons, Why

NodeName = tuple[str, str]  # (cluster, node)


class GroupResult(msgspec.Struct):
    """What became of the members that waited, in their order: decisions that are booked, or
    refusals, of all if nothing is booked.

    `place`: the domain that all went to; None where nothing is booked.
    """

    results: list[Result]
    place: GroupPlace | None = None

    @property
    def is_booked(self) -> bool:
        """Whether the group has a place."""
        return self.place is not None


class _Attempt(msgspec.Struct):
    place: GroupPlace
    results: list[Result]

    @property
    def held(self) -> int:
        return sum(isinstance(one, Decision) for one in self.results)


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
    needed = max(1, group.min_count - len(placed))
    best: _Attempt | None = None
    places = domains_of(profiles.fleet, group.within, placed)
    for place in places:
        attempt = _try(profiles, place, waiting)
        if best is None or attempt.held > best.held:
            best = attempt
    if best is not None and best.held >= needed:
        return GroupResult(_book(profiles, best.place, waiting), best.place)
    return GroupResult(_refusals(profiles, group, waiting, len(placed), len(places), best))


def _try(profiles: Profiles, place: GroupPlace, waiting: Sequence[Item]) -> _Attempt:
    with profiles.what_if() as trial:
        return _Attempt(place, trial.schedule(_only_in(place, waiting)))


def _book(profiles: Profiles, place: GroupPlace, waiting: Sequence[Item]) -> list[Result]:
    with profiles.what_if() as trial:
        results = trial.schedule(_only_in(place, waiting))
        trial.commit()
    return results


def _only_in(place: GroupPlace, waiting: Sequence[Item]) -> list[Item]:
    only_in = Domains(place.key, (place.value,))
    return [
        (pod_id, msgspec.structs.replace(pod_info, only_in=only_in)) for pod_id, pod_info in waiting
    ]


def _refusals(
    profiles: Profiles,
    group: Group,
    waiting: Sequence[Item],
    placed: int,
    tried: int,
    best: _Attempt | None,
) -> list[Result]:
    """One reason for all: the group, how many of how many, and what was missing in the best domain."""
    if best is None:
        where = "the fleet" if group.within == FLEET else f"one domain of {group.within}"
        text = f"{group.name}: no node is in {where}" + (
            " with the members that have a place" if placed else ""
        )
        return [
            profiles.of(pod_info).refused(pod_id, pod_info, Why(Reasons.GROUP, text))
            for pod_id, pod_info in waiting
        ]
    first = next(one for one in best.results if isinstance(one, Unschedulable))
    text = (
        f"{group.name}: {placed + best.held} of {group.min_count} members fit in "
        f"{best.place.words}, the best of {tried}; {first.message}"
    )
    message = Why(Reasons.GROUP, text).text
    found = list[Result]()
    for pod_id, pod_info in waiting:
        refused = first.again(pod_id, pod_info, first.time)
        refused.message = message
        refused.reasons = first.reasons | {Reasons.GROUP}
        found.append(refused)
    return found
