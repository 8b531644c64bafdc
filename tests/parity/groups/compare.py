"""One group before both sides: what must be equal, and which rows of docs/parity.md explain the rest.

Equal must be, in each domain that kube-scheduler tried: the nodes and the scores of each member in its turn, whether
the domain holds the group, and how many members it holds. Then a domain is chosen, by other rules here than there: the
rules of here are checked by themselves (`_where`), and that each place is one that kube-scheduler's filters allow.

Of a group that evicts others all of this must be equal as if all pods of lower priority were gone. Then each side's
victims must be those of its own rule (`victims.py`): so the two rules are all that may differ.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.compare import TOLERANCE, Difference, differences
from tests.parity.generate_nodes import ZONE
from tests.parity.groups.case import Gang, GroupVerdict
from tests.parity.groups.generate import RACK
from tests.parity.groups.ours import GroupSide, Placed, decides_alone, only_in
from tests.parity.groups.victims import Cost, Evictions, fewest
from tests.parity.oracle import filters
from tests.parity.oracle.judge import Oracle
from tests.parity.oracle.requests import requests
from tests.parity.oracle.world import Place

# Rows of docs/parity.md.
TIES = "ties of nodes"
DOMAIN = "which domain of a topology constraint"
NARROWER = "a group without a topology constraint, or of a zone"
WHOM = "whom a group evicts"
# From the narrowest up: where a group goes that asks for one of them.
_LEVELS = (RACK, ZONE, "")
_MOST_TIES = 2000  # ways to break ties that are looked at
_Least = tuple[Cost, int, str, list[str]]  # cost, level, domain, victims


@dataclass
class GroupReport:
    """`counts`: groups, basic, beside members that run, whole, in part, waiting, members, tables; of those that wait
    those that evict others, and victims. `rows`: intended differences. `found`: all others.
    """

    counts: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    found: list[Difference] = field(default_factory=list)

    def summary(self) -> str:
        """One line of figures."""
        figures = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        rows = "; ".join(f"{count} {row}" for row, count in self.rows.most_common())
        return f"{figures}; intended: {rows or 'none'}"

    def differing(self) -> str:
        """What differs, a line each."""
        return "\n".join(json.dumps(one.record()) for one in self.found)


def examine(fleet: Case, verdicts: Sequence[GroupVerdict], report: GroupReport, running: Sequence[Object] = ()) -> None:
    """Each gang of a fleet, which is booked where kube-scheduler put it. `running`: groups of pods of the fleet."""
    groups = [*running, *(theirs.gang.group for theirs in verdicts)]
    side, oracle = GroupSide(fleet, groups), Oracle(fleet)
    for theirs in verdicts:
        _count(report, theirs)
        one = _Examined(fleet, side, oracle, theirs, report, groups)
        report.found += [*one.differences()]
        last = theirs.emptied or theirs
        side.follow(Verdict("", victims=last.victims))
        oracle.follow(Verdict("", victims=last.victims))
        for pod in theirs.gang.members:
            node = last.placed.get(key_of(pod))
            if node:
                side.book(pod, node)
                oracle.book(pod, node)


def _count(report: GroupReport, theirs: GroupVerdict) -> None:
    many, placed = len(theirs.gang.members), len(theirs.placed)
    report.counts["groups"] += 1
    report.counts["basic"] += "basic" in theirs.gang.group["spec"]["schedulingPolicy"]
    report.counts["beside members that run"] += bool(theirs.gang.placed)
    report.counts["whole" if placed == many else "in part" if placed else "waiting"] += 1
    report.counts["members"] += many
    if theirs.emptied is not None and theirs.emptied.placed:
        report.counts["evict others"] += 1
        report.counts["victims"] += len(theirs.emptied.victims)
    tables = [*theirs.tables.values(), *(theirs.emptied.tables.values() if theirs.emptied else ())]
    report.counts["tables"] += sum(one.totals is not None for told in tables for one in told)


class _Examined:
    """One gang."""

    def __init__(
        self,
        fleet: Case,
        side: GroupSide,
        oracle: Oracle,
        theirs: GroupVerdict,
        report: GroupReport,
        groups: Sequence[Object],
    ) -> None:
        self._fleet, self._side, self._oracle, self._groups = fleet, side, oracle, groups
        self._theirs, self._gang, self._report = theirs, theirs.gang, report
        self._pods = {key_of(pod): pod for pod in self._gang.members}

    def differences(self) -> Iterator[Difference]:
        """What differs and is no row's."""
        theirs, gang = self._theirs, self._gang
        held = self._side.held(gang, gang.topology_key)
        yield from self._looks(held)
        if decides_alone(gang.group):
            return
        ours = self._side.place(gang)
        yield from self._where(held, {} if ours.victims else ours.nodes)
        if theirs.emptied is not None:
            yield from self._emptied(theirs.emptied, ours)
        elif ours.victims:
            yield self._differs("victims", [], sorted(ours.victims))

    def _looks(self, held: dict[str, int]) -> Iterator[Difference]:
        """In all domains that it tried."""
        theirs, gang = self._theirs, self._gang
        if set(theirs.tables) != set(gang.domains(self._fleet.nodes)):
            yield self._differs("domains", sorted(theirs.tables), sorted(gang.domains(self._fleet.nodes)))
        for domain, tables in theirs.tables.items():
            yield from self._in_domain(domain, tables, held)
        yield from self._shares(held)

    def _differs(self, what: str, theirs: Any, ours: Any, node: str = "") -> Difference:
        return Difference(self._gang.key, what, theirs, ours, node)

    # --- in one domain

    def _in_domain(self, domain: str, tables: list[Verdict], held: dict[str, int]) -> Iterator[Difference]:
        """Member by member, until it is not known where kube-scheduler supposed one, for ties."""
        booked = list[Object]()
        try:
            for told in tables:
                pod = self._pods[told.pod]
                mine = self._side.judge(pod, only_in(self._gang.topology_key, domain))
                yield from self._of_member(told, mine)
                nodes = _where_supposed(told, mine)
                node = self._theirs.placed.get(told.pod, "") if domain == self._theirs.chosen else None
                if node is None:
                    if len(nodes) > 1:
                        return
                    node = next(iter(nodes), "")
                elif node not in (nodes or {""}):
                    yield self._differs("node", node, sorted(nodes), domain)
                if node:
                    self._side.book(pod, node)
                    booked.append(pod)
            many = len(booked) if len(booked) >= self._gang.needed else 0
            if bool(many) != (domain in self._theirs.shares):
                yield self._differs("scores of the domain", domain in self._theirs.shares, many, domain)
        finally:
            self._side.leave(booked)
        if many != held.get(domain, 0):
            yield from self._by_ties(domain, many, held.get(domain, 0))

    def _of_member(self, told: Verdict, mine: Verdict) -> Iterator[Difference]:
        if told.totals is not None:
            yield from differences(told, mine)
        elif len(mine.feasible or ()) > 1:
            yield Difference(told.pod, "feasible", "one at most", sorted(mine.feasible or ()))

    def _by_ties(self, domain: str, theirs: int, ours: int) -> Iterator[Difference]:
        """A row, if both numbers are those of some way to break ties."""
        if {theirs, ours} <= self._reachable(domain):
            self._report.rows[TIES] += 1
        else:
            yield self._differs("members", theirs, ours, domain)

    def _reachable(self, domain: str) -> set[int]:
        """How many members a domain may hold, by each way to break ties; 0 for fewer than are needed."""
        found, left = set[int](), [_MOST_TIES]

        def decide(at: int, many: int) -> None:
            left[0] -= 1
            if left[0] < 0:
                return
            if at == len(self._gang.members):
                found.add(many if many >= self._gang.needed else 0)
                return
            pod = self._gang.members[at]
            mine = self._side.judge(pod, only_in(self._gang.topology_key, domain))
            nodes = _best(mine)
            for node in nodes:
                self._side.book(pod, node)
                decide(at + 1, many + 1)
                self._side.leave([pod])
            if not nodes:
                decide(at + 1, many)

        decide(0, 0)
        return found

    # --- of all domains

    def _shares(self, held: dict[str, int]) -> Iterator[Difference]:
        """Which domains hold the group, and how many members: as here, or as if ties were broken otherwise."""
        if self._agree(held):
            return
        domains = [*self._theirs.tables]
        reachable = [self._reachable(domain) for domain in domains]
        so_here = all(held.get(domain, 0) in many for domain, many in zip(domains, reachable, strict=True))
        for many in product(*reachable) if so_here else ():
            if self._agree({domain: one for domain, one in zip(domains, many, strict=True) if one}):
                self._report.rows[TIES] += 1
                return
        yield self._differs("shares", self._theirs.shares, held)

    def _agree(self, held: dict[str, int]) -> bool:
        """Whether these numbers of members have kube-scheduler's shares."""
        shares, most = self._theirs.shares, max(held.values(), default=0)
        return shares.keys() == held.keys() and all(
            told in (None, held[domain] * 100 // most) for domain, told in shares.items()
        )

    def _where(self, held: dict[str, int], ours: dict[str, str]) -> Iterator[Difference]:
        """That our place is the best by docs/algorithms/groups.md, and that kube-scheduler's filters allow it."""
        gang, theirs = self._gang, self._theirs
        yield from self._allowed(ours)
        ranks = self._ranks(held)
        if not ranks:
            if ours:
                yield self._differs("placed", theirs.placed, ours)
            return
        best = min(rank for rank, _ in ranks)
        if not ours:
            yield self._differs("waits", theirs.placed, best)
            return
        good = [nodes for rank, nodes in ranks if rank[:2] == best[:2] and rank[2] - best[2] < TOLERANCE]
        if len(ours) != len(gang.members) - best[0] or not any(nodes.issuperset(ours.values()) for nodes in good):
            yield self._differs("place", best, ours)
        domains = gang.domains(self._fleet.nodes)
        inside = [one for one, nodes in domains.items() if nodes.issuperset(ours.values())]
        if len(inside) != 1 or len(ours) < gang.needed:
            yield self._differs("domain", theirs.chosen, inside)
        elif inside != [theirs.chosen] and theirs.chosen is not None:
            self._report.rows[DOMAIN] += 1
        if len(ours) > len(theirs.placed) and len(ours) > max(held.values(), default=0):
            self._report.rows[NARROWER] += 1
        elif theirs.chosen is not None and len(ours) < len(theirs.placed) == held.get(theirs.chosen, 0):
            yield self._differs("fewer", len(theirs.placed), len(ours))

    def _allowed(self, ours: dict[str, str]) -> Iterator[Difference]:
        seats = {name: [*place.seats] for name, place in self._oracle.world.places.items()}
        for pod in self._gang.members:
            node = ours.get(key_of(pod))
            if node is not None:
                feasible = self._oracle.judge(pod).feasible or frozenset()
                if node not in feasible:
                    yield self._differs("not allowed", sorted(feasible), node, key_of(pod))
                self._oracle.book(pod, node)
        for name, place in self._oracle.world.places.items():
            place.seats = seats[name]

    def _ranks(self, held: dict[str, int]) -> list[tuple[tuple[int, int, float], set[str]]]:
        """The domains that hold the group: members without a place, level, room for such groups; and their nodes."""
        gang = self._gang
        asked = gang.topology_key
        found = []
        for level, key in enumerate(_levels(asked)):
            many = held if key == asked else self._side.held(gang, key)
            for domain, nodes in _domains(key, self._fleet.nodes).items():
                if domain in many:
                    rank = len(gang.members) - many[domain], level, self._left(nodes)
                    found.append((rank, nodes))
        return found

    # --- whom it evicts

    def _emptied(self, theirs: GroupVerdict, ours: Placed) -> Iterator[Difference]:
        """Its second look; that those go whom its rule says, and of ours those whom our rule says."""
        evictions = self._evictions(self._groups, self._oracle.world.places)
        lower = [seat.pod for unit in evictions.units for seat in unit]
        self._side.leave(lower)
        held = self._side.held(self._gang, self._gang.topology_key)
        second = _Examined(self._fleet, self._side, self._oracle, theirs, self._report, self._groups)
        yield from second._looks(held)
        for pod in lower:
            self._side.book(pod, pod["spec"]["nodeName"])
        expected = evictions.where_they_are(theirs.placed) if theirs.placed else frozenset()
        if expected != theirs.victims:
            yield self._differs("victims by the rule of kube-scheduler", sorted(theirs.victims), sorted(expected))
        if ours.nodes and not ours.victims:
            return  # in a narrower domain than it asks for, as `_where` has found
        least = self._least()
        yield from self._evicted(ours, min(least, default=None))
        widest = len(_levels(self._gang.topology_key)) - 1
        if bool(held) != any(level == widest for _, level, *_ in least):
            yield self._differs("fits once they are gone", theirs.message, sorted(least))
        elif ours.victims and not held:
            self._report.rows[NARROWER] += 1
        elif ours.victims != theirs.victims:
            self._report.rows[WHOM] += 1

    def _evicted(self, ours: Placed, least: _Least | None) -> Iterator[Difference]:
        """That ours costs no more, and that its members have places then which kube-scheduler's filters allow."""
        told = self._cost(ours) if ours.victims else None
        # less where a way to pack the members was found that one by one is not
        if bool(least) != bool(told) or (least and told and told > least[0]):
            yield self._differs("victims by our rule", least, (told, sorted(ours.victims)))
        if ours.victims and (len(ours.nodes) < self._gang.needed or not ours.promised):
            yield self._differs("no place once they are gone", sorted(ours.victims), ours.nodes)
        kept = {name: [*place.seats] for name, place in self._oracle.world.places.items()}
        self._oracle.follow(Verdict("", victims=ours.victims))
        yield from self._allowed(ours.nodes)
        for name, place in self._oracle.world.places.items():
            place.seats = kept[name]

    def _evictions(self, groups: Iterable[Object], nodes: Iterable[str]) -> Evictions:
        return Evictions(self._oracle, self._gang, groups, self._fleet.objects, nodes)

    def _within(self) -> Iterator[tuple[int, str, str, Evictions]]:
        """Where it may go: level, topology key, domain, and who may be evicted for it there."""
        groups = [one for one in self._groups if not decides_alone(one)]
        for level, key in enumerate(_levels(self._gang.topology_key)):
            for domain, nodes in _domains(key, self._fleet.nodes).items():
                if nodes.issuperset(self._gang.placed):
                    yield level, key, domain, self._evictions(groups, nodes)

    def _least(self) -> list[_Least]:
        """Of each domain that would hold the group: what it costs to evict as few as need to go, and whom."""
        fits, found = self._side.trier(self._gang), []
        for level, key, domain, evictions in self._within():
            victims = fewest(evictions.units, partial(fits, key, domain))
            if victims:
                found.append((evictions.cost(victims), level, domain, sorted(victims)))
        return found

    def _cost(self, ours: Placed) -> Cost | None:
        """What ours costs in the domain where the members go; None if these are in none."""
        there = {*ours.promised.values()}
        costs = [one.cost(ours.victims) for *_, one in self._within() if one.nodes.issuperset(there)]
        return min(costs, default=None)

    def _left(self, nodes: set[str]) -> float:
        """The least of room / members over the templates."""
        templates: dict[str, list[Object]] = {}
        for pod in self._gang.members:
            templates.setdefault(json.dumps(pod["spec"], sort_keys=True), []).append(pod)
        places = [self._oracle.world.places[name] for name in nodes]
        return min(sum(_room(pods[0], place) for place in places) / len(pods) for pods in templates.values())


def _levels(asked: str) -> tuple[str, ...]:
    return _LEVELS[: _LEVELS.index(asked) + 1] if asked in _LEVELS else (asked,)


def _domains(key: str, nodes: list[Object]) -> dict[str, set[str]]:
    topology = [{"key": key}] if key else []
    return Gang({"spec": {"schedulingConstraints": {"topology": topology}}}, []).domains(nodes)


def _room(pod: Object, place: Place) -> int:
    """How many such pods a node has room for, 0 if it refuses them whatever runs there."""
    if any(refuses(pod, place) for refuses in (filters.taint_toleration, filters.node_affinity)):
        return 0
    free = [
        (place.allocatable.get(name, 0) - place.requested(name)) // amount
        for name, amount in requests(pod).items()
        if amount > 0
    ]
    return max(0, min([*free, place.allocatable["pods"] - len(place.seats)]))


def _best(verdict: Verdict) -> frozenset[str]:
    """The nodes with the best total, or the only one, or none."""
    if verdict.totals is None:
        return verdict.feasible or frozenset()
    most = max(verdict.totals.values())
    return frozenset(node for node, total in verdict.totals.items() if most - total < TOLERANCE)


def _where_supposed(told: Verdict, mine: Verdict) -> frozenset[str]:
    """The nodes of which kube-scheduler took one for a member; of one node it tells no scores."""
    return _best(told if told.totals is not None else mine)
