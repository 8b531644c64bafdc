"""The members of a group by what they ask for, and how many of each kind have room where."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.cycle.batches import Item, unfit
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.framework import (
    CountedPlugin,
    Ints,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.domain_counts import MaxCount
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.sound_rules import flaw_of
from dispatcher.scheduling.groups.rooms import MOST, RoomTable, RoomTables, Wants
from shared.model.reasons import Reason, Why
from shared.model.topology import HOST_LEVEL

# of what is kept of one group by node and domain: 8 bytes a node for each kind of request
MOST_ROOM_BYTES = 128 * 2**20
# members of one class that follow each other, which are decided together; about three seconds
MOST_RUNS = 8192


class TooVariedError(Exception):
    """The members of one group are too unlike to be compared with all nodes, or to be decided one
    after the other: the text says so and what helps.
    """


@dataclass
class Template:
    """Members of one class, and so of one profile; `alike`: of one template, too.

    `said`: bytes of what the one of them says that says most. `most`: how many of them are not
    refused for themselves or for quota, as far as that is known.
    `room`, and `in_domains`, by topology key [domains] how many fit: none where `why` says that all
    nodes are closed to them.
    """

    scheduler: Scheduler
    key: ClassKey  # of the first of them
    items: list[Item]
    alike: bool = True
    said: int = 0
    most: int = 0
    why: Why | None = None
    closed: StaticFilters | None = None
    room: RoomTable | None = None
    in_domains: dict[str, Ints] = field(default_factory=dict)

    @property
    def first(self) -> PodInfo:
        """Whichever: all ask for the same."""
        return self.items[0][1]

    @property
    def reasons(self) -> set[Reason]:
        """For what nodes refuse them now, or would with more of them there, as far as room and what
        nodes are can tell.
        """
        found = {one for some in self.scheduler.plan.room_filters for one in some.REASONS}
        codes = {code for code, _ in self.closed.rejected} if self.closed else ()
        table = self.scheduler.fleet.reasons
        found |= {why.reason for code in codes for why in table.whys(code)}
        return found | ({self.why.reason} if self.why else set())


def templates_of(
    profiles: Profiles, waiting: Sequence[Item], tables: RoomTables, keys: Sequence[str]
) -> list[Template]:
    """In the order of their first members; how many fit in the domains of these topology keys is an
    upper bound, whoever else of the group is there. PluginError, TooVariedError.
    """
    found = dict[Hashable, Template]()
    known = dict[ClassKey, Template]()
    runs = 0
    last: Template | None = None
    for item in waiting:
        scheduler = profiles.of(item[1])
        own = scheduler.plan.class_key(item[1])
        template = known.get(own)
        if template is None:
            template = Template(scheduler, own, [])
            if last is not None:  # one alone needs no class
                found = found or {last.scheduler.classify(last.first): last}
                template = found.setdefault(scheduler.classify(item[1]), template)
            known[own] = template
        runs += template is not last
        if runs > MOST_RUNS:
            raise TooVariedError(
                f"one member is unlike the one before it more than {MOST_RUNS:,} times, which would "
                "take too long to decide: let more of them be of one template, or make smaller "
                "groups"
            )
        last = template
        template.alike = template.alike and own is template.key
        template.said = max(template.said, own.said)
        template.items.append(item)
    templates = list({id(one): one for one in known.values()}.values())
    rooms = _Rooms(profiles, tables, keys)
    for one in templates:
        one.most = _most(one)
        first = max(one.items, key=lambda item: item[1].pod.priority)
        with profiles.nominations.aside_for(*first):
            rooms.look(one, first[1])
    return templates


class _Rooms:
    """Those of the templates of one group: TooVariedError if they take too much memory together."""

    def __init__(self, profiles: Profiles, tables: RoomTables, keys: Sequence[str]) -> None:
        self._nodes = profiles.fleet.n
        self._nominated = len(profiles.nominations) > 0
        self._tables = tables
        self._keys = keys
        self._known: dict[Hashable, RoomTable] = {}
        self._in_domains: dict[Hashable, dict[str, Ints]] = {}
        self._closed: set[StaticFilters] = set()
        self._bytes = 0

    def look(self, one: Template, first: PodInfo) -> None:
        """Find the room of a template, as it is without nominees that are less important than
        `first` of its members.
        """
        closed = one.scheduler.closed_nodes(one.first)
        if isinstance(closed, Why):
            one.why = closed
            return
        wants = _wants(one)
        if isinstance(wants, Why):
            one.why = wants
            return
        one.closed = closed
        one.room = room = self._room(closed, wants, one.said)
        aside = (first.pod.priority, first.pod.needs, first.home) if self._nominated else ()
        of = (closed, wants, aside)
        if of not in self._in_domains:
            sums = {key: room.in_domains(key) for key in self._keys}
            # others of the group may be looked at with other nominees aside
            copied = {key: some.copy() for key, some in sums.items()}
            self._in_domains[of] = copied if self._nominated else sums
            self._take(sum(some.nbytes for some in sums.values()))
        one.in_domains = self._in_domains[of]

    def _room(self, closed: StaticFilters, wants: Wants, said: int) -> RoomTable:
        if closed not in self._closed:
            self._closed.add(closed)
            self._take(closed.refusal_codes.nbytes)
        room = self._known.get((closed, wants))
        if room is None:
            room = self._known[closed, wants] = self._tables.of(closed, wants, said)
            self._take(room.by_row.nbytes)
        else:
            room.refresh(closed)
        return room

    def _take(self, nbytes: int) -> None:
        self._bytes += nbytes
        if self._bytes > MOST_ROOM_BYTES:
            raise TooVariedError(
                f"its members are of more than {len(self._known) - 1} kinds by what they request and "
                f"where they may run, too many to compare with {self._nodes} nodes: let more "
                "of them request the same, or make smaller groups"
            )


def _most(one: Template) -> int:
    good = [item for item in one.items if unfit(item[1], one.scheduler) is None]
    return one.scheduler.fitting(good) if good else 0


def _wants(one: Template) -> Wants | Why:
    """What must be free for each pod; a filter that does not tell bounds nothing."""
    found = dict[str, int]()
    scheduler = one.scheduler
    for plugin in scheduler.plan.room_filters:
        state = guarded(plugin, plugin.pre_filter, one.first, scheduler.view)
        if isinstance(state, Refuse):
            return state.why
        wanted = None if isinstance(state, Skip) else guarded(plugin, plugin.wants, state)
        for name, amount in wanted or ():
            found[name] = max(found.get(name, 0), amount)
    return tuple(found.items())


def capped(template: Template) -> Ints | None:
    """[n] how many fit on each node by what policies count on hosts as well, as where members do not
    go to nodes with others of them; None if none does. PluginError.
    """
    if template.room is None:
        return None
    fleet = template.scheduler.fleet
    scheduler = template.scheduler
    found: Ints | None = None
    for plugin in scheduler.plan.filters:
        if not isinstance(plugin, CountedPlugin):
            continue
        state = guarded(plugin, plugin.pre_filter, template.first, scheduler.view)
        if isinstance(state, Skip | Refuse):
            continue
        rules = guarded(plugin, plugin.checked_rules, state, scheduler.view)
        if flaw_of(rules, fleet.domain(HOST_LEVEL), fleet.reasons):
            continue
        for one in rules.refusals:
            if isinstance(one, MaxCount) and one.present is None and one.domain_count.by_host:
                more = _more_of(one)
                if more is not None:
                    found = np.minimum(template.room.by_row if found is None else found, more)
    return found


def _more_of(limit: MaxCount) -> Ints | None:
    """[n] how many more pods the limit lets come to each host; None where they do not count."""
    count = limit.domain_count
    if count.more <= 0:
        return None
    left: Ints = np.maximum((limit.most - count.counts) // count.more + 1, 0)
    return left if count.counted is None else np.where(count.counted > 0, left, MOST)
