"""What doctor says of clusters that are declared to be one pod network."""

from typing import Any, cast

import pytest

from dispatcher.cli.diagnosis import NOTE, PROBLEM
from dispatcher.cli.joining.pod_networks import (
    MOST_PODS,
    Ranges,
    all_overlaps,
    overlaps,
    pod_addresses,
    pod_ranges,
    service_ranges,
)
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

FLAT = {"east": "flat", "west": "flat"}


def node(*ranges: str) -> dict[str, Any]:
    return {"metadata": {"name": "n1"}, "spec": {"podCIDRs": list(ranges)}}


def pod(*ips: str, **spec: Any) -> dict[str, Any]:
    return {"spec": spec, "status": {"podIPs": [{"ip": one} for one in ips]}}


def test_two_clusters_of_one_network_that_have_an_address_both_are_each_told_of_the_other() -> None:
    east, west = pod_ranges([node("10.1.0.0/24"), node("10.1.1.0/24")]), pod_ranges([node("10.1.1.128/25")])
    found = overlaps(FLAT, {"east": Ranges(east), "west": Ranges(west)})
    assert [(one.cluster, one.level) for one in found] == [("east", PROBLEM), ("west", PROBLEM)]
    assert "but pods of east have addresses in 10.1.0.0/23, and those pods in 10.1.1.128/25" in found[0].text
    assert "take `network` out" in found[0].fix


@pytest.mark.parametrize(
    ("east", "west", "overlap"),
    [
        (["10.0.0.0/8", "10.9.0.0/24"], ["10.200.0.0/24"], True),  # inside the wider one, after the narrower
        (["10.1.0.0/24"], ["10.1.0.0/24"], True),
        (["fd00::/64"], ["fd00::1:0/112"], True),
        (["10.1.0.0/24", "fd00::/64"], ["10.2.0.0/24", "fd00::/64"], True),
        (["10.1.0.0/24"], ["10.1.1.0/24"], False),
        (["10.1.0.0/24"], ["fd00::/64"], False),
        (["10.1.0.0/24"], ["nonsense"], False),
        (["10.1.0.0/24", "10.1.0.0/25"], [], False),
    ],
)
def test_ranges_are_compared_by_their_addresses(east: list[str], west: list[str], overlap: bool) -> None:
    ranges = {"east": Ranges(pod_ranges([node(*east)])), "west": Ranges(pod_ranges([node(*west)]))}
    for at in (("east", "west"), ("west", "east")):
        assert bool(overlaps(FLAT, {name: ranges[source] for name, source in zip(FLAT, at, strict=True)})) == overlap


def test_nodes_without_ranges_and_other_networks_are_not_compared() -> None:
    ranges = Ranges(pod_ranges([node("10.1.0.0/24"), {"spec": {}}]))
    assert overlaps({"east": "flat", "west": "hall"}, {"east": ranges, "west": ranges}) == []


def test_pods_that_have_addresses_of_services_of_another_cluster_are_told_to_that_one() -> None:
    east = Ranges(pod_ranges([node("10.1.0.0/24")]), service_ranges([{"spec": {"cidrs": ["10.96.0.0/16"]}}]))
    west = Ranges(pod_ranges([node("10.96.7.0/24")]), service_ranges([{"spec": {"cidrs": ["10.96.0.0/16"]}}]))
    (found,) = overlaps(FLAT, {"east": east, "west": west})
    assert found.cluster == "east"
    assert "but Services of east have addresses in 10.96.0.0/16, and those pods in 10.96.7.0/24" in found.text


def test_addresses_of_pods_count_without_those_of_nodes_and_of_remote_pods() -> None:
    pods = [
        pod("10.1.0.4", "fd00::4"),
        pod("10.1.0.5"),
        pod("192.0.2.1", hostNetwork=True),
        pod("10.2.0.9", nodeName="global-dispatcher-west"),
        {"spec": {}},
    ]
    found = pod_addresses(pods, ["global-dispatcher-west"])
    assert [str(one) for one in found] == ["10.1.0.4/31", "fd00::4/128"]


class Cluster:
    """Lists of an API server by path; an int is the status of its refusal."""

    def __init__(self, name: str, **lists: Any) -> None:
        self.name = name
        self.lists = {"servicecidrs": 404, **lists}
        self.most: list[int] = []

    async def items(self, path: str, **_query: str) -> list[dict[str, Any]]:
        found = self.lists[path.rpartition("/")[2]]
        if isinstance(found, int):
            raise MemberError(found, f"{path} is refused")
        return cast(list[dict[str, Any]], found)

    async def first(self, path: str, most: int, **query: str) -> list[dict[str, Any]]:
        self.most.append(most)
        assert query == {"fieldSelector": "status.phase=Running"}
        return await self.items(path)


async def told(*clusters: Cluster) -> list[tuple[str, str, str]]:
    sections = [ClusterSection(name=one.name, context=one.name, network="flat") for one in clusters]
    config = DispatcherConfig(clusters=tuple(sections))
    found = await all_overlaps(config, {one.name: cast(Member, one) for one in clusters})
    return [(one.cluster, one.level, one.text) for one in found]


async def test_where_nodes_have_no_ranges_the_addresses_of_pods_are_looked_at_as_far_as_that_is_little() -> None:
    proxy = {"metadata": {"name": "global-dispatcher-west", "labels": {names.PROXY_LABEL: "west"}}, "spec": {}}
    remote = pod("10.2.0.9", nodeName="global-dispatcher-west")  # shown at home, as in a flat network
    east = Cluster("east", nodes=[node(), proxy], pods=[pod("10.1.0.4", nodeName="n1"), remote])
    west = Cluster("west", nodes=[node("10.2.0.0/24")], pods=[])
    assert await told(east, west) == []
    assert (east.most, west.most) == ([MOST_PODS], [])
    east.lists["pods"].append(pod("10.2.0.10", nodeName="n1"))
    assert [(name, level) for name, level, _ in await told(east, west)] == [("east", PROBLEM), ("west", PROBLEM)]


@pytest.mark.parametrize("refused", ["nodes", "pods"])
async def test_a_cluster_that_may_not_be_asked_is_told_as_not_known(refused: str) -> None:
    east = Cluster("east", **{"nodes": [node()], "pods": [], refused: 403})
    ((name, level, text),) = await told(east, Cluster("west", nodes=[node("10.1.0.0/24")]))
    assert (name, level, text.startswith("not known: ")) == ("east", NOTE, True)


@pytest.mark.parametrize("answer", [[None], ["x"], [{"spec": 1}], [{"spec": {"podCIDRs": 7}}], [{"spec": {}}, {}]])
async def test_an_api_server_that_answers_in_another_form_hides_nothing_of_other_clusters(answer: list[Any]) -> None:
    odd = Cluster("odd", nodes=answer, pods=answer)
    rows = await told(odd, Cluster("east", nodes=[node("10.1.0.0/24")]), Cluster("west", nodes=[node("10.1.0.0/24")]))
    assert [(name, level) for name, level, _ in rows] == [("odd", NOTE), ("east", PROBLEM), ("west", PROBLEM)]
    assert "answers in another form" in rows[0][2]
