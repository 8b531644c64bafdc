"""The members of a group by what they ask for, and how many of each kind have room where."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.cycle.batches import Item, unfit
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.framework import (
    DomainPlugin,
    Ints,
    PodInfo,
    Refuse,
    RoomFilter,
    Skip,
)
from dispatcher.scheduling.framework.domain_counts import MaxCount
from dispatcher.scheduling.framework.domains import tells_rules
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.sound_rules import flaw_of
from dispatcher.scheduling.groups.rooms import MOST, RoomTable, RoomTables, Wants
from shared.model.reasons import Reason, Why
from shared.model.topology import HOST_LEVEL


@dataclass
class Template:
    """Members of one class, and so of one profile; `alike`: of one template, too.

    `said`: bytes of what the one of them says that says most. `most`: how many of them are not
    refused for themselves or for quota, as far as that is known.
    `room`, and `in_domains`, by topology key [domains] how many fit: none where `why` says that all
    nodes are closed to them.
    """

    scheduler: Scheduler
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
        filters = self.scheduler.plan.filters
        found = {one for some in filters if isinstance(some, RoomFilter) for one in some.REASONS}
        codes = {code for code, _ in self.closed.rejected} if self.closed else ()
        table = self.scheduler.fleet.reasons
        found |= {why.reason for code in codes for why in table.whys(code)}
        return found | ({self.why.reason} if self.why else set())


def templates_of(
    profiles: Profiles, waiting: Sequence[Item], tables: RoomTables, keys: Sequence[str]
) -> list[Template]:
    """In the order of their first members; how many fit in the domains of these topology keys is an
    upper bound, whoever else of the group is there. PluginError.
    """
    found = dict[Hashable, Template]()
    known = dict[int, tuple[object, Template]]()  # by the id of what pods of one template share
    for item in waiting:
        pod_info = item[1]
        scheduler = profiles.of(pod_info)
        same = scheduler.plan.class_key(pod_info)
        if id(same) not in known:
            key = scheduler.classify(pod_info)
            template = found.get(key)
            if template is None:
                template = found[key] = Template(scheduler, [])
            else:
                template.alike = False
            template.said = max(template.said, same.said)
            known[id(same)] = same, template
        known[id(same)][1].items.append(item)
    nominated = len(profiles.nominations) > 0
    for one in found.values():
        one.most = _most(one)
        first = max(one.items, key=lambda item: item[1].pod.priority)
        with profiles.nominations.aside_for(*first):
            room = _look(one, tables)
            if room is None:
                continue
            for key in keys:
                in_domains = room.in_domains(key)
                # others of the group may be looked at with other nominees aside
                one.in_domains[key] = in_domains.copy() if nominated else in_domains
    return list(found.values())


def _most(one: Template) -> int:
    good = [item for item in one.items if unfit(item[1], one.scheduler) is None]
    return one.scheduler.fitting(good) if good else 0


def _look(one: Template, tables: RoomTables) -> RoomTable | None:
    closed = one.scheduler.closed_nodes(one.first)
    if isinstance(closed, Why):
        one.why = closed
        return None
    wants = _wants(one)
    if isinstance(wants, Why):
        one.why = wants
        return None
    one.closed = closed
    one.room = tables.of(closed, wants, one.said)
    return one.room


def _wants(one: Template) -> Wants | Why:
    """What must be free for each pod; a filter that does not tell bounds nothing."""
    found = dict[str, int]()
    scheduler = one.scheduler
    for plugin in scheduler.plan.filters:
        if not isinstance(plugin, RoomFilter):
            continue
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
        if not (isinstance(plugin, DomainPlugin) and tells_rules(type(plugin))):
            continue
        state = guarded(plugin, plugin.pre_filter, template.first, scheduler.view)
        if isinstance(state, Skip | Refuse):
            continue
        rules = guarded(plugin, plugin.count_rules, state, template.first, scheduler.view)
        if rules is None or flaw_of(rules, fleet.domain(HOST_LEVEL), fleet.reasons):
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
