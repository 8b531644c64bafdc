"""A pod as plugins are handed it: with the cluster it was submitted in and what clusters said of
it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from shared.model.pod import FLEET, Pod
from shared.model.refusal import ClusterRefusal
from shared.model.resources import CPU, MEMORY, PODS


class GroupId(NamedTuple):
    """Which group: members have the same cluster of submission, namespace, and kind and name of
    what defines it.
    """

    home: str
    namespace: str
    kind: str
    name: str


class QuotaTurn(NamedTuple):
    """When a pod's turn is among those that are charged of one quota (`whose`), lower first, and
    whether it would borrow of that.
    """

    whose: Hashable
    key: tuple[Any, ...]
    borrows: bool


NO_TURN = QuotaTurn(None, (), borrows=False)


class Domains(msgspec.Struct, frozen=True, gc=False):
    """Fault domains of one topology key, each within one cluster: `values` are texts of
    `Topology.domain_values(key)`, where `key` is cluster, host, or one of
    `model.topology.within_cluster`.
    """

    key: str
    values: tuple[str, ...]


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """A pod with the cluster it was submitted in, and what clusters said of it, as the cycle hands
    it to plugins.
    """

    pod: Pod
    home: str  # cluster of submission
    refused: tuple[
        ClusterRefusal, ...
    ] = ()  # by which clusters, a while ago; and where the server makes it larger
    # (milli-CPU, bytes) by what its owner's pods use, if that is known
    counts_as: tuple[int, int] | None = None
    only_in: Domains | None = None  # while its group is tried there: it may go nowhere else

    @property
    def sizes(self) -> tuple[ClusterRefusal, ...]:
        """Of `refused` those that say how large a cluster makes it."""
        return tuple([one for one in self.refused if one.requests]) if self.refused else ()

    @property
    def over(self) -> tuple[ClusterRefusal, ...]:
        """Of `refused` those whose time has passed."""
        return tuple([one for one in self.refused if one.over]) if self.refused else ()

    @property
    def unforgiving(self) -> "PodInfo":
        """The same as if the time of none of `refused` had passed."""
        if not self.over:
            return self
        return msgspec.structs.replace(
            self, refused=tuple([replace(one, over=False) for one in self.refused])
        )

    def at(self, cluster: str) -> "PodInfo":
        """The same with the pod as the server of `cluster` makes it, as far as that is known: what
        it takes there.

        Wherever a place in one cluster is booked, promised or charged, it is by this.
        """
        if not self.refused:
            return self
        size = next((one for one in self.sizes if one.cluster == cluster), None)
        return (
            msgspec.structs.replace(self, pod=_enlarged(self.pod, dict(size.requests)))
            if size is not None
            else self
        )


def group_id(pod_info: PodInfo) -> GroupId | None:
    """The group of a pod; None for one that is placed by itself, also as its group asks for no more
    than that.
    """
    pod = pod_info.pod
    group = pod.group
    if group is None or (group.min_count <= 1 and group.within == FLEET):
        return None
    return GroupId(pod_info.home, pod.namespace, group.kind, group.name)


def as_one(members: Sequence[PodInfo]) -> PodInfo:
    """Members of a group as if they were one pod: what is asked of quota for them together. It is
    as important as the least of them.
    """
    requests: dict[str, int] = {PODS: len(members)}
    for one in members:
        for name, amount in one.pod.requests.items():
            if name != PODS:
                requests[name] = requests.get(name, 0) + amount
    priority = min(one.pod.priority for one in members)
    pod = msgspec.structs.replace(members[0].pod, requests=requests, priority=priority)
    return msgspec.structs.replace(members[0], pod=pod)


def whole_group_id(pod_info: PodInfo) -> GroupId | None:
    """The group with which a pod is evicted as a whole; None for one that goes by itself."""
    group = pod_info.pod.group
    return group_id(pod_info) if group is not None and group.whole else None


def _enlarged(pod: Pod, made: Mapping[str, int]) -> Pod:
    requests = {
        name: max(pod.requests.get(name, 0), made.get(name, 0))
        for name in pod.requests.keys() | made
    }
    if pod.expected is None:
        return msgspec.structs.replace(pod, requests=requests)
    cpu, memory = pod.expected
    expected = max(cpu, requests.get(CPU, 0)), max(memory, requests.get(MEMORY, 0))
    return msgspec.structs.replace(pod, requests=requests, expected=expected)
