"""Which resources have a column: what nodes offer, and never what pods only ask for."""

from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.pod import Pod
from shared.model.resources import BASE_RESOURCES
from tests.builders import fleet, node, put

GPU = "example.com/gpu"


def asks_for(*resources: str) -> Pod:
    return Pod("uid-p", "default", "p", requests={"cpu": 100, **dict.fromkeys(resources, 1)})


def requested(state: FleetState, resource: str) -> int:
    column, row = state.axis.column(resource), state.row_of("a", "n1")
    assert column is not None
    assert row is not None
    return int(state.requested[column, row])


def test_names_that_a_pod_makes_up_take_no_column_and_are_told_to_nobody() -> None:
    state = fleet(a=["n1"])
    put(state, asks_for(*(f"example.com/made-up-{at}" for at in range(16_000))), "a", "n1")
    assert state.axis.names == list(BASE_RESOURCES)
    assert list(state.free_total("a")) == list(BASE_RESOURCES)


def test_what_pods_asked_for_counts_from_when_a_node_offers_it() -> None:
    state = fleet(a=["n1"])
    put(state, asks_for(GPU), "a", "n1")
    state.put_node("a", node("n1").resource(GPU, 4).build())
    assert requested(state, GPU) == 1
    assert state.free_total("a")[GPU] == 3
    state.remove(("a", "uid-p"))
    assert requested(state, GPU) == 0


def test_what_pods_asked_for_counts_where_many_nodes_offer_it_together() -> None:
    names = [f"n{at}" for at in range(10)]
    state = fleet(a=names)
    put(state, asks_for(GPU), "a", "n1")
    state.put_nodes("a", [node(name).resource(GPU, 4).build() for name in names])
    assert requested(state, GPU) == 1
    state.put_nodes("b", [node("m1").resource("example.com/other", 1).build()])
    assert state.free_total("a")[GPU] == 39


def test_a_cluster_is_told_to_others_with_what_its_own_nodes_offer() -> None:
    state = fleet(a=["n1"], b=[node("n1").resource(GPU, 4)])
    assert GPU not in state.free_total("a")
    assert state.free_total("b")[GPU] == 4


def test_one_cluster_brings_no_more_resources_than_a_fleet_can_bear_and_others_bring_theirs() -> None:
    state = fleet(a=["n1"])
    for at in range(20):
        many = node(f"m{at}")
        for number in range(100):
            many.resource(f"example.com/{at}-{number}", 1)
        state.put_nodes("hostile", [many.build()])
    before = len(state.axis)
    assert before <= len(BASE_RESOURCES) + 256
    state.put_node("a", node("n1").resource(GPU, 4).build())
    assert len(state.axis) == before + 1
    assert state.free_total("a")[GPU] == 4
