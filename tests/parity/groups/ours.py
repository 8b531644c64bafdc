"""Our side of groups: the same PodGroups and pods through the agents' decoding, placed by our core."""

import json

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
from dispatcher.scheduling.records.decision import Decision
from shared.model.pod import Group
from shared.model.topology import CLUSTER_LEVEL, level_of, within_cluster
from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.groups.case import EVERYWHERE, Gang
from tests.parity.ours import CLUSTER, OurSide
from tests.parity.profile import DEFAULT


class GroupSide(OurSide):
    """One fleet in our core; groups are judged one after the other, and booked where somebody says."""

    def __init__(self, fleet: Case) -> None:
        super().__init__(fleet)
        self._profiles = Profiles([self._schedulers[DEFAULT]])

    def place(self, gang: Gang) -> dict[str, str]:
        """Where it goes: pod -> node, empty if it waits; nothing is booked."""
        items = _items(gang)
        group = items[0][1].pod.group
        assert group is not None, f"{gang.key} is none to us"
        with self._profiles.what_if():
            results = place_group(self._profiles, group, items, _running(gang)).results
        assert not any(getattr(one, "victims", ()) for one in results), f"{gang.key} evicts"
        placed = [(info.pod.key, one) for (_, info), one in zip(items, results, strict=True)]
        return {key: one.node for key, one in placed if isinstance(one, Decision)}

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


def is_alone(gang: Gang) -> bool:
    """Whether each of its pods is decided by itself here."""
    return _items(gang)[0][1].pod.group is None


def only_in(topology_key: str, domain: str) -> Domains:
    """The domain as members carry it that are tried there."""
    value = f"{CLUSTER}/{domain}" if topology_key else CLUSTER
    return GroupPlace(_key(topology_key), value).only_in


def _key(topology_key: str) -> str:
    return within_cluster(level_of(topology_key) if topology_key else CLUSTER_LEVEL)


def _running(gang: Gang) -> list[tuple[str, str]]:
    return [(CLUSTER, node) for node in gang.placed]


def _items(gang: Gang) -> list[Item]:
    seen = KUBERNETES.seen(json.dumps(gang.group).encode())
    assert seen is not None
    assert not seen.holds, f"{gang.key} is not read"
    return [_item(pod, seen.group) for pod in gang.members]


def _item(pod: Object, group: Group | None) -> Item:
    seen = pod_seen(json.dumps(pod).encode())
    assert seen is not None
    assert seen.pod is not None
    made = msgspec.structs.replace(seen.pod, group=group)
    return (CLUSTER, made.uid), PodInfo(made, CLUSTER)
