"""What FaultDomainSpread keeps of nodes and counts for pods that select nodes, and when it is found out anew."""

import numpy as np
import pytest

from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.rules.spread import KnownDomains
from dispatcher.scheduling.rules.spread_domains import Domains
from shared.model.pod import SpreadConstraint
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put, selector
from tests.plugins.asking import make, raw_scores, reasons, state_of


def on_ssd(app: str) -> PodBuilder:
    """It selects nodes with an SSD, and counts the pods of its app there."""
    constraint = pod(f"asking-{app}").labels(app=app).node_selector({"disk": "ssd"})
    return constraint.spread("host", hard=False, selector=selector(app=app)).spread("zone", hard=False)


def test_counts_on_hosts_that_pods_select_follow_the_pods_of_each_app() -> None:
    disks = {"a": "ssd", "b": "ssd", "c": "hdd", "d": "ssd"}
    state = fleet(n=[node(name).labels(disk=disk, zone="z") for name, disk in disks.items()])
    plugin, counts = make("FaultDomainSpread"), list[list[int]]()
    for at, (app, where) in enumerate([("web", "a"), ("web", "c"), ("db", "b"), ("db", "a"), ("web", "b")]):
        put(state, pod(f"{app}-{at}").labels(app=app), "n", where)
        for other in ("web", "db"):
            assert raw_scores(plugin, on_ssd(other), state) == raw_scores(
                make("FaultDomainSpread"), on_ssd(other), state
            )
        counts.append(state_of(plugin, on_ssd(app), state).soft[0].counts.tolist())
    assert counts == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]
    known = state_of(plugin, on_ssd("web"), state).soft[0].counts
    assert (known.tolist(), state_of(plugin, on_ssd("none"), state).soft[0].counts.tolist()) == ([1, 1, 0, 0], [0] * 4)
    assert known.tolist() == [1, 1, 0, 0]  # another app's counts are another array


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(node("c").labels(zone="y", disk="hdd"), id="not selected"),
        pytest.param(node("c").labels(zone="z", disk="ssd"), id="selected"),
    ],
)
def test_a_node_that_comes_has_a_part_in_the_spread_of_pods_that_select_it_and_no_other(late: NodeBuilder) -> None:
    state = fleet(n=[node(name).labels(disk="ssd", zone=zone) for name, zone in (("a", "x"), ("b", "y"))])
    asking = pod("web").labels(app="web").node_selector({"disk": "ssd"}).spread("zone")
    plugin = make("FaultDomainSpread")
    assert reasons(plugin, asking, state) == {}
    state.put_node("n", late.build())
    for at in range(2):
        put(state, pod(f"there-{at}").labels(app="web"), "n", "c")
    found = reasons(plugin, asking, state)
    assert found == reasons(make("FaultDomainSpread"), asking, state)
    assert "a" not in found
    assert ("c" in found) is (late.build().labels["disk"] == "ssd")


def test_levels_share_the_rows_whose_pods_count_only_where_these_are_the_same() -> None:
    nodes = node("a").labels(disk="ssd", zone="z"), node("b").labels(disk="ssd"), node("c").labels(zone="z")
    state, asking = fleet(n=nodes), pod("web-1").labels(app="web").node_selector({"disk": "ssd"})
    put(state, pod("web-0").labels(app="web"), "n", "b")
    soft = state_of(make("FaultDomainSpread", defaulting="App"), asking, state).soft
    counting = {one.area.domains.level: one.area.domains.counting for one in soft}
    assert {level: rows.tolist() for level, rows in counting.items()} == {
        "cluster": [1, 1, 0],
        "zone": [1, 0, 0],
        "host": [1, 1, 0],
    }
    assert counting["cluster"] is counting["host"]


def test_levels_whose_pods_count_on_as_many_rows_but_others_do_not_share_them() -> None:
    nodes = node("a").labels(zone="z"), node("b").labels(rack="r"), node("c").labels(zone="z", rack="r")
    view, known, selects = view_of(fleet(n=nodes)), KnownDomains(), ("the first two", lambda: np.arange(2))
    found = [known.area_of(SpreadConstraint(one), pod("p").build(), view, (), selects) for one in ("zone", "rack")]
    assert [one.domains.counting.tolist() for one in found if one.domains.counting is not None] == [
        [1, 0, 0],
        [0, 1, 0],
    ]


def test_domains_that_share_rows_hold_on_to_none_that_were_forgotten_long_ago() -> None:
    view, known = view_of(fleet(n=[node("a").labels(zone="z"), node("b").labels(zone="z")])), KnownDomains()
    levels, found = (SpreadConstraint("host"), SpreadConstraint("zone")), list[Domains]()
    for at in range(4 * 33):  # of 33 one more than is kept, so that one level is forgotten while the other is not
        selects = at % 33 // 2, lambda: np.array([0])
        found.append(known.area_of(levels[at % 33 % 2], pod("p").build(), view, (), selects).domains)
    assert sum(one.like is not None for one in found) > 32
    assert [one for one in found if one.like is not None and one.like.like is not None] == []
