"""What doctor says of clusters that are declared to be one pod network, by what their agents tell."""

from typing import Any

import pytest

from dispatcher.cli.diagnosis import NOTE, PROBLEM
from dispatcher.cli.one_network import about_networks
from shared.model.names import UNREACHED, UNTRIED


def reach(cluster: str, state: str, **more: Any) -> dict[str, Any]:
    told = {"cluster": cluster, "state": state, "for_s": 150.0, "address": "10.2.3.4:7491", "tries": 3, "failed": 0}
    return {**told, "problem": "", **more}


def cluster(name: str, *ways: dict[str, Any], network: str = "flat", services: bool | None = False) -> dict[str, Any]:
    told = {"name": name, "network": network, "services": services, "pod_reach_more": 0}
    return {**told, "pod_reach": list(ways)}


def test_nothing_is_found_where_all_are_reached_and_no_services_follow() -> None:
    assert about_networks([cluster("east"), cluster("west")]) == []
    assert about_networks([cluster("east", network="own"), {"name": "of an older dispatcher"}]) == []


def test_pods_that_are_not_reached_are_told_with_what_was_tried_and_what_follows() -> None:
    lost = reach("west", UNREACHED, problem="connection timed out", failed=3)
    (found,) = about_networks([cluster("east", lost), cluster("west")])
    assert (found.cluster, found.about, found.level) == ("east", "pod network", PROBLEM)
    assert found.text == (
        "pods of east do not reach pods of west (10.2.3.4:7491: connection timed out, 3 of 3 tries; for 2m): "
        "Services of pods that run across lead nowhere, and IPs of remote pods at home mislead"
    )
    assert "routes from east to the pods of west" in found.fix
    assert "links.pod_port" in found.fix
    assert "take `network` out" in found.fix


def test_an_address_that_both_have_is_told_without_tries() -> None:
    both = reach("west", UNREACHED, problem="that is an address of node n1 of this cluster, too", tries=0)
    (found,) = about_networks([cluster("east", both), cluster("west")])
    assert "(10.2.3.4:7491: that is an address of node n1 of this cluster, too; for 2m)" in found.text


def test_what_is_not_measured_is_one_note_for_each_reason() -> None:
    rows = [reach(name, UNTRIED, problem="it was not tried yet") for name in ("west", "north")]
    others = [cluster(name) for name in ("west", "north")]
    (found,) = about_networks([cluster("east", *rows), *others])
    assert (found.cluster, found.level) == ("east", NOTE)
    assert found.text == "whether its pods reach those of west, north is not measured: it was not tried yet"


def test_of_many_that_are_not_reached_the_rest_is_counted() -> None:
    lost = reach("west", UNREACHED, problem="connection timed out")
    first, more = about_networks([{**cluster("east", lost), "pod_reach_more": 7}, cluster("west")])
    assert (first.level, more.level) == (PROBLEM, NOTE)
    assert more.text == "7 more clusters of its network are not reached, or not known to be"


def test_a_network_of_one_cluster_is_a_slip_that_names_what_others_have() -> None:
    rows = [cluster("east"), cluster("west", network="own"), cluster("north", network="flatt")]
    east, north = about_networks(rows)
    assert (east.cluster, north.cluster, east.level) == ("east", "north", NOTE)
    assert "`network: flat` is that of no other cluster (theirs: flatt, own)" in east.text
    assert about_networks(rows, "west") == []


@pytest.mark.parametrize(
    ("west", "text"),
    [
        (cluster("west", services=False), "do not follow pods between it and west"),
        (cluster("west", network="own", services=True), "no other cluster is in its pod network"),
        (cluster("west", services=True), ""),
        (cluster("west", services=None), ""),  # its agent has not said so yet
    ],
)
def test_services_that_one_side_alone_lets_follow_are_told(west: dict[str, Any], text: str) -> None:
    told = about_networks([cluster("east", services=True), west], "east")
    about = [one for one in told if one.about == "Services"]
    assert [(one.cluster, one.level, text in one.text) for one in about] == ([("east", NOTE, True)] if text else [])
