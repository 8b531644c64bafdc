"""The fault domains of one level: which are eligible for a pod, on which rows pods count, and what
they are called.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dispatcher.scheduling.framework import Bools, FleetView, Ints, Rows, SmallInts
from dispatcher.scheduling.framework.lifecycle import RowList
from dispatcher.scheduling.framework.memory import blocks, untouched, window_of
from shared.model.topology import HOST_LEVEL

_SHOWN_DOMAINS = 16


@dataclass(frozen=True)
class Domains:
    """Those of a level, on the nodes as they are: [n] domain of each row, and [domains] which ones
    are eligible.

    `counted`: the rows whose pods count, None for all that have a domain. `like`: domains of
    another level for which the same rows count, so that one `counting` stands for both.
    """

    level: str
    domain: SmallInts
    present: Bools
    counted: RowList | None
    like: "Domains | None" = None

    def eligible(self) -> Iterator[RowList]:
        """The eligible domains, ascending, piece by piece."""
        if self.level == HOST_LEVEL and self.counted is not None:
            yield self.counted  # every row is a host of its own
            return
        for block in blocks(slice(0, len(self.present))):
            yield np.flatnonzero(self.present[block]) + block.start

    @cached_property
    def where(self) -> Rows | None:
        """The `counted` rows, as a window if they lie side by side."""
        return None if self.counted is None else window_of(self.counted)

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first domain that may be eligible, and one after the last."""
        if self.level != HOST_LEVEL or self.counted is None:
            return 0, len(self.present)
        return (int(self.counted[0]), int(self.counted[-1]) + 1) if len(self.counted) else (0, 0)

    @cached_property
    def size(self) -> int:
        """How many domains are eligible."""
        if self.level == HOST_LEVEL and self.counted is not None:
            return len(self.counted)
        return int(np.count_nonzero(self.present))

    @cached_property
    def shown(self) -> RowList:
        """The first of these."""
        found = np.zeros(0, dtype=np.intp)
        for piece in self.eligible():
            found = np.concatenate((found, piece[: _SHOWN_DOMAINS - len(found)]))
            if len(found) == _SHOWN_DOMAINS:
                break
        return found

    @cached_property
    def shown_codes(self) -> list[int]:
        """The same as a list."""
        codes: list[int] = self.shown.tolist()
        return codes

    def names_of(self, codes: Sequence[int], fleet: FleetView) -> Mapping[int, str]:
        """What the shown domains and those of `codes` are called: cluster/node, of a host."""
        names = self._names
        if not names:  # no domain's name changes as long as no node does
            names.update(self._named(self.shown_codes, fleet))
        other = [code for code in codes if code not in names]
        return {**names, **self._named(other, fleet)} if other else names

    def name_of(self, code: int, fleet: FleetView) -> str:
        """What one domain is called."""
        found = self._names.get(code)
        return self._named([code], fleet)[code] if found is None else found

    def shown_names(self, fleet: FleetView) -> Iterable[str]:
        """What the shown domains are called, in their order."""
        if not self._names:
            self.names_of((), fleet)
        return self._names.values()

    @cached_property
    def _names(self) -> dict[int, str]:
        return {}

    def _named(self, codes: Sequence[int], fleet: FleetView) -> dict[int, str]:
        # not domain_values of hosts: it would name every node of the fleet for the sake of a few
        if self.level == HOST_LEVEL:
            return dict(zip(codes, map("/".join, fleet.nodes.names_of(codes)), strict=True))
        values = fleet.topology.domain_values(self.level)
        return {code: values[code] for code in codes}

    @cached_property
    def counting(self) -> SmallInts | None:
        """[n] 1 for rows whose pods count, else 0; None if all that have a domain do."""
        if self.counted is None or self.like is not None:
            return self.like.counting if self.like else None
        mask = untouched(len(self.domain), np.int32)
        mask[self.where] = 1
        return mask

    def by_host(self, pods: Hashable, by_row: Ints) -> Ints:
        """[domains] how many of these pods are on each host, given those of the counted rows. As
        with counts of the fleet, what was answered last for the same pods is written anew: half a
        million zeros cost more than all else.
        """
        if pods not in self._by_host:
            self._by_host.clear()
            self._by_host[pods] = untouched(len(self.present), np.int64)
        found = self._by_host[pods]
        found[self.where] = by_row  # each is a domain of its own
        return found

    @cached_property
    def _by_host(self) -> dict[Hashable, Ints]:
        return {}


def domains_of(level: str, fleet: FleetView, eligible: Bools) -> Domains:
    """`eligible`: [n] the live rows whose pods and domains have a part in it."""
    domain = fleet.topology.domain(level)
    having = rows_with(level, fleet)
    eligible = eligible & (domain >= 0)
    # Every row is a host of its own.
    present = eligible if level == HOST_LEVEL else None
    if np.count_nonzero(eligible) < having:
        return domains_on(level, fleet, np.flatnonzero(eligible), having, present=present)
    if present is None:
        present = np.zeros(len(fleet.topology.domain_values(level)), dtype=np.bool_)
        for block in blocks(slice(0, fleet.n)):
            present[domain[block][eligible[block]]] = True
    return Domains(level, domain, present, None)


def rows_with(level: str, fleet: FleetView) -> int:
    """How many live rows have a domain of the level."""
    return int(np.count_nonzero(fleet.nodes.live & (fleet.topology.domain(level) >= 0)))


def domains_on(
    level: str,
    fleet: FleetView,
    rows: RowList,
    having: int,
    other: Domains | None = None,
    present: Bools | None = None,
) -> Domains:
    """The same of eligible `rows`, ascending, of those `having` a domain. `other`: domains of
    another level, for which the same rows may count.
    """
    domain = fleet.topology.domain(level)
    where = window_of(rows)
    counted = None if len(rows) == having else rows
    if present is None and level == HOST_LEVEL:
        present = untouched(fleet.n, np.bool_)
        present[where] = True
    elif present is None:
        present = np.zeros(len(fleet.topology.domain_values(level)), dtype=np.bool_)
        present[domain[where]] = True
    like = None
    if counted is not None and other is not None and other.counted is not None:
        same = counted is other.counted or np.array_equal(counted, other.counted)
        like = (other.like or other) if same else None  # no chain that only grows
    return Domains(level, domain, present, counted, like)


def with_domains(fleet: FleetView, levels: Sequence[str]) -> Bools:
    """[n] the live rows that have domains of all `levels`."""
    found = fleet.nodes.live
    for level in levels:
        found = found & (fleet.topology.domain(level) >= 0)
    return found
