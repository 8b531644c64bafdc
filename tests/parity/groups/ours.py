"""Our side of groups: the same PodGroups and pods through the agents' decoding, placed by our core."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from agents.kube.convert import pod_seen
from agents.kube.pod_groups import KUBERNETES
from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.groups.domain_levels import GroupPlace
from dispatcher.scheduling.groups.members import Members, held
from dispatcher.scheduling.groups.place_group import place_group
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import Group, Pod
from shared.model.topology import CLUSTER_LEVEL, level_of, within_cluster
from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.groups.case import EVERYWHERE, Gang
from tests.parity.ours import CLUSTER, OurSide
from tests.parity.profile import DEFAULT, PREEMPTING


class Placed(NamedTuple):
    """pod -> node, empty if the group waits. `victims`: who is evicted first, and then `nodes` are those where members
    go; `promised`: those that they are promised meanwhile.
    """

    nodes: dict[str, str]
    victims: frozenset[str] = frozenset()
    promised: Mapping[str, str] = MappingProxyType({})


class GroupSide(OurSide):
    """One fleet in our core; groups are judged one after the other, and booked where somebody says."""

    def __init__(self, fleet: Case, groups: Sequence[Object] = ()) -> None:
        self._groups = {key_of(group): _group(group) for group in groups}
        super().__init__(fleet)
        self._profiles = Profiles([self._schedulers[name] for name in (DEFAULT, PREEMPTING)])

    def _running(self, pod: Object) -> Pod | None:
        found = super()._running(pod)
        group = pod["spec"].get("schedulingGroup")
        if found is None or group is None:
            return found
        key = f"{pod['metadata']['namespace']}/{group['podGroupName']}"
        return msgspec.structs.replace(found, group=self._groups[key])

    def place(self, gang: Gang) -> Placed:
        """What becomes of it; nothing is booked."""
        items = _items(gang)
        group = self._groups[gang.key] = items[0][1].pod.group
        assert group is not None, f"{gang.key} is none to us"
        with self._profiles.what_if() as trial:
            first = self._placed(group, items, gang)
            if not first.victims:
                return first
            for key in first.victims:
                trial.take_away(self.ids[key])
            now = self._placed(group, items, gang)
        assert not now.victims, f"{gang.key} evicts others, too"
        return Placed(now.nodes, first.victims, first.promised)

    def _placed(self, group: Group, items: list[Item], gang: Gang) -> Placed:
        results = place_group(self._profiles, group, items, _running(gang)).results
        told = [(info.pod.key, one) for (_, info), one in zip(items, results, strict=True)]
        waiting = [(key, one) for key, one in told if isinstance(one, Unschedulable)]
        return Placed(
            {key: one.node for key, one in told if isinstance(one, Decision)},
            frozenset(victim.pod_info.pod.key for _, one in waiting for victim in one.victims),
            {key: one.nominated[1] for key, one in waiting if one.nominated},
        )

    def trier(self, gang: Gang) -> Callable[[str, str, frozenset[str]], bool]:
        """Whether so many find places as are needed, in a domain of a label, once these are gone."""
        items = _items(gang)
        group = items[0][1].pod.group
        assert group is not None
        members = Members(self._profiles, group, items, _running(gang))

        def fits(topology_key: str, domain: str, gone: frozenset[str]) -> bool:
            with self._profiles.what_if() as trial:
                for key in gone:
                    trial.take_away(self.ids[key])
                return held(members.decide_in(trial, _place(topology_key, domain))) >= members.needed

        return fits

    def held(self, gang: Gang, topology_key: str) -> dict[str, int]:
        """Domain of that label -> how many members are held, if it is as many as are needed."""
        items = _items(gang)
        group = items[0][1].pod.group
        if group is None:
            return self._held_alone(gang)
        members = Members(self._profiles, group, items, _running(gang))
        key = _key(topology_key)
        found = dict[str, int]()
        for code in members.codes(key):
            place = members.levels.place(key, int(code))
            with self._profiles.what_if() as trial:
                many = held(members.decide_in(trial, place))
            if many >= members.needed:
                found[place.value.partition("/")[2] if topology_key else EVERYWHERE] = many
        return found

    def _held_alone(self, gang: Gang) -> dict[str, int]:
        """The same, each decided by itself."""
        booked = []
        for pod in gang.members:
            if node := self.judge(pod).node:
                self.book(pod, node)
                booked.append(pod)
        self.leave(booked)
        return {EVERYWHERE: len(booked)} if booked else {}

    def leave(self, pods: list[Object]) -> None:
        """These pods are gone."""
        self.follow(Verdict("", victims=frozenset(map(key_of, pods))))


def decides_alone(group: Object) -> bool:
    """Whether each of its pods is decided by itself here."""
    return _group(group) is None


def only_in(topology_key: str, domain: str) -> Domains:
    """The domain as members carry it that are tried there."""
    return _place(topology_key, domain).only_in


def _place(topology_key: str, domain: str) -> GroupPlace:
    return GroupPlace(_key(topology_key), f"{CLUSTER}/{domain}" if topology_key else CLUSTER)


def _key(topology_key: str) -> str:
    return within_cluster(level_of(topology_key) if topology_key else CLUSTER_LEVEL)


def _running(gang: Gang) -> list[tuple[str, str]]:
    return [(CLUSTER, node) for node in gang.placed]


def _items(gang: Gang) -> list[Item]:
    group = _group(gang.group)
    return [_item(pod, group) for pod in gang.members]


def _group(manifest: Object) -> Group | None:
    """None for pods that are decided each by itself."""
    seen = KUBERNETES.seen(json.dumps(manifest).encode())
    assert seen is not None
    assert not seen.holds, f"{key_of(manifest)} is not read"
    return seen.group


def _item(pod: Object, group: Group | None) -> Item:
    seen = pod_seen(json.dumps(pod).encode())
    assert seen is not None
    assert seen.pod is not None
    made = msgspec.structs.replace(seen.pod, group=group)
    return (CLUSTER, made.uid), PodInfo(made, CLUSTER)
