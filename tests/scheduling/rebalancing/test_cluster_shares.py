"""The fleet's rate of moves is shared by the clusters that have pods to move."""

from collections import Counter

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rebalancing.rebalancer import Look, Rebalancer
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from tests.builders import fleet, node, put, reading
from tests.scheduling.rebalancing.world import web

COLD = 20


def looks(hot: dict[str, int], minutes: int, **limits: int) -> list[Look]:
    """Nodes of 4 CPU, hot in these clusters (those of the first the hottest), looked at each minute; none is moved."""
    rules = RebalancingRules(signals=("cpu",), hot=0.6, cool=0.5, hot_s=60.0, gain=0.1, **limits)
    names = {cluster: [f"n{at}" for at in range(count)] for cluster, count in hot.items()}
    nodes_of = {cluster: [node(name).cpu(4) for name in nodes] for cluster, nodes in names.items()}
    state = fleet(**nodes_of, cold=[node(f"c{at}").cpu(64) for at in range(COLD)])  # type: ignore[arg-type]
    for cluster, nodes in names.items():
        for name in nodes:
            for one in range(4):
                put(state, web(f"{cluster}-{name}-{one}", 800).set(node=name), cluster, name)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(()))), state)
    rebalancer = Rebalancer(state, rules, lambda one: scheduler.would_go(one.pod_id, one.pod_info), lambda one: "")
    state.now += 2 * rules.rest_s
    found = []
    for _ in range(minutes):
        state.now += 60
        for rank, (cluster, nodes) in enumerate(names.items()):
            for name in nodes:
                state.put_reading(cluster, reading(name, cpu=0.9 - 0.1 * rank, memory=0.1, net=0.1))
        for at in range(COLD):
            state.put_reading("cold", reading(f"c{at}", cpu=0.05, memory=0.1, net=0.1))
        found.append(rebalancer.look())
    return found


def of_clusters(look: Look) -> Counter[str]:
    return Counter(move.spot.place[0] for move in look.moves)


def test_no_cluster_takes_more_than_half_while_others_have_moves() -> None:
    first = next(look for look in looks({"busy": 8, "other": 3}, 4, moves_per_minute=4, under_way=100) if look.moves)
    assert of_clusters(first) == {"busy": 2, "other": 2}


def test_a_cluster_takes_what_others_leave() -> None:
    first = next(look for look in looks({"busy": 8, "other": 1}, 4, moves_per_minute=6, under_way=100) if look.moves)
    assert of_clusters(first) == {"busy": 5, "other": 1}
    alone = next(look for look in looks({"busy": 8}, 4, moves_per_minute=6, under_way=100) if look.moves)
    assert of_clusters(alone) == {"busy": 6}


def test_where_there_is_one_move_a_minute_clusters_take_turns() -> None:
    found = [of_clusters(look) for look in looks({"busy": 8, "other": 3}, 6, moves_per_minute=1, under_way=100)]
    taken = [next(iter(one)) for one in found if one]
    assert taken[:4] == ["busy", "other", "busy", "other"]


@pytest.mark.parametrize("under_way", [4, 6])
def test_moves_that_do_not_end_leave_room_for_other_clusters(under_way: int) -> None:
    found = looks({"busy": 8, "other": 3}, 8, moves_per_minute=2, under_way=under_way)
    total = sum((of_clusters(look) for look in found), Counter[str]())
    assert total["other"] >= under_way // 2
