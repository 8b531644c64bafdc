"""How many members have room in each domain by what they ask for together: an upper bound.

Of each resource those who ask for least come first: as many as their requests, summed up, are free
in the domain. Fewer where another resource says fewer.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Floats, Ints, SmallInts
from dispatcher.scheduling.groups.templates import Template

_MOST_RESOURCES = 16  # those that most members ask for: pods ask for any
_ROUNDING = 1e-9  # sums are floats, and their bound may be too high, never too low


class Sums:
    """`free`: by resource [n] what is free on nodes that are open to some of the members; `asked`:
    the sums of the smallest 1, 2, ... requests for it, of `askers` members.
    """

    def __init__(self, fleet: FleetState, templates: Sequence[Template]) -> None:
        self._members = sum(len(one.items) for one in templates)
        amounts = dict[str, list[tuple[int, int]]]()
        askers = dict[str, int]()
        for one in templates:
            for name, amount in one.room.wants if one.room is not None else ():
                amounts.setdefault(name, []).append((amount, len(one.items)))
                askers[name] = askers.get(name, 0) + len(one.items)
        names = sorted(askers, key=lambda name: (-askers[name], name))[:_MOST_RESOURCES]
        self._asked = [_cumulated(amounts[name]) for name in names]
        is_open = _open_to_some(fleet, templates)
        self._free = [_free(fleet, name, is_open) for name in names]

    def in_domains(self, codes: SmallInts, size: int) -> Ints:
        """[domains] at most so many members have room; `codes`: [n] the domain of each row, -1 for
        none.
        """
        found: Ints = np.full(size, self._members, dtype=np.int64)
        where = np.where(codes < 0, size, codes)
        for asked, free in zip(self._asked, self._free, strict=True):
            there = np.bincount(where, weights=free, minlength=size + 1)[:size]
            do_not_ask = self._members - len(asked)
            np.minimum(found, do_not_ask + np.searchsorted(asked, there, side="right"), out=found)
        return found


def sums_of(
    profiles: Profiles, waiting: Sequence[Item], templates: Sequence[Template]
) -> Sums | None:
    """None where that says no more than the room of each template does, or where pods that are
    promised room are in the way of some members and not of others.
    """
    if len(templates) < 2:
        return None
    if not len(profiles.nominations):
        return Sums(profiles.fleet, templates)
    if len({(one.pod.priority, one.pod.needs, one.home) for _, one in waiting}) > 1:
        return None
    with profiles.nominations.aside_for(*waiting[0]):
        return Sums(profiles.fleet, templates)


def _cumulated(amounts: Sequence[tuple[int, int]]) -> Floats:
    """[askers] of (amount, how many ask for it). Amounts are up to 2^62: no integer holds the sum."""
    each = np.repeat(
        np.asarray([amount for amount, _ in amounts], dtype=np.float64),
        [count for _, count in amounts],
    )
    each.sort()
    sums: Floats = np.cumsum(each) * (1.0 - _ROUNDING)
    return sums


def _open_to_some(fleet: FleetState, templates: Sequence[Template]) -> Bools:
    """[n]"""
    found: Bools = np.zeros(fleet.n, dtype=np.bool_)
    for closed in {one.closed for one in templates if one.closed is not None}:
        found |= closed.refusal_codes[: fleet.n] == 0
    return found


def _free(fleet: FleetState, name: str, is_open: Bools) -> Floats:
    """[n]"""
    column = fleet.axis.column(name)
    if column is None:
        return np.zeros(fleet.n)
    free = fleet.allocatable[column, : fleet.n] - fleet.requested[column, : fleet.n]
    found: Floats = np.where(is_open, np.maximum(free, 0), 0).astype(np.float64)
    return found
