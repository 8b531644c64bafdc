"""What doctor says of clusters that are declared to be one pod network."""

from typing import Any

import pytest

from dispatcher.cli.diagnosis import PROBLEM
from dispatcher.cli.joining.pod_networks import overlaps, pod_ranges

FLAT = {"east": "flat", "west": "flat"}


def node(*ranges: str) -> dict[str, Any]:
    return {"spec": {"podCIDRs": list(ranges)}}


def test_two_clusters_of_one_network_that_have_an_address_both_are_each_told_of_the_other() -> None:
    east, west = pod_ranges([node("10.1.0.0/24"), node("10.1.1.0/24")]), pod_ranges([node("10.1.1.128/25")])
    found = overlaps(FLAT, {"east": east, "west": west})
    assert [(one.cluster, one.level) for one in found] == [("east", PROBLEM), ("west", PROBLEM)]
    assert "10.1.1.0/24 and 10.1.1.128/25, which overlap" in found[0].text


@pytest.mark.parametrize(
    ("east", "west", "overlap"),
    [
        (["10.0.0.0/8", "10.9.0.0/24"], ["10.200.0.0/24"], True),  # inside the wider one, after the narrower
        (["10.1.0.0/24"], ["10.1.0.0/24"], True),
        (["fd00::/64"], ["fd00::1:0/112"], True),
        (["10.1.0.0/24"], ["10.1.1.0/24"], False),
        (["10.1.0.0/24"], ["fd00::/64"], False),
        (["10.1.0.0/24"], ["nonsense"], False),
        (["10.1.0.0/24", "10.1.0.0/25"], [], False),
    ],
)
def test_ranges_are_compared_by_their_addresses(east: list[str], west: list[str], overlap: bool) -> None:
    ranges = {"east": pod_ranges([node(*east)]), "west": pod_ranges([node(*west)])}
    for at in (("east", "west"), ("west", "east")):
        assert bool(overlaps(FLAT, {name: ranges[source] for name, source in zip(FLAT, at, strict=True)})) == overlap


def test_nodes_without_ranges_and_other_networks_are_not_compared() -> None:
    ranges = pod_ranges([node("10.1.0.0/24"), {"spec": {}}])
    assert overlaps({"east": "flat", "west": "hall"}, {"east": ranges, "west": ranges}) == []
