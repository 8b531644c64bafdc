"""Rebalancing: when a node is a hot spot, which pods go, which stay and why."""

from typing import Any

import pytest

from dispatcher.scheduling.rebalancing.rebalancer import Look
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from shared.model.names import REBALANCE
from shared.model.pod import Group
from tests.builders import PodBuilder
from tests.scheduling.rebalancing.world import World, moved, reasons, web


def hot(*pods: PodBuilder, **more: Any) -> World:
    """Node n1 carries 90 % of its CPU, n2 10 %."""
    here = pods or (web("big", 2000), web("small", 700), web("fit", 900))
    return World({"n1": [*here], "n2": [web("x", 400)]}, **more)


def test_a_node_that_has_been_hot_for_long_gives_up_the_smallest_pod_that_is_enough() -> None:
    looks = hot().minutes(4)
    assert [len(look.spots) for look in looks] == [0, 0, 0, 1]
    (move,) = looks[3].moves
    assert (move.victim.pod_info.pod.name, move.target) == ("fit", ("a", "n2"))
    assert move.use == pytest.approx([0.225])
    assert move.expected == pytest.approx(0.325)
    assert move.why == (
        "node n1 of cluster a has been above the threshold for 3 min (cpu 90%); node n2 of cluster a is expected to "
        "have 32% with this pod"
    )


def test_where_no_pod_alone_is_enough_the_largest_goes_first() -> None:
    pods = [web(f"p{at}", 400) for at in range(8)]
    world = hot(*pods, web("more", 600))
    looks = world.minutes(4)
    assert moved(looks) == [("a", "uid-more")]


def test_one_look_above_the_threshold_is_not_enough() -> None:
    world = hot()
    world.minutes(2)
    world.use = 0.3
    assert not moved(world.minutes(10))


def test_a_hot_spot_is_one_until_it_is_cool() -> None:
    world = hot(stay="it stays")
    world.minutes(4)
    world.use = 0.84  # 0.756: neither above 0.8 nor below 0.7
    assert len(world.minutes(30)[-1].spots) == 1
    world.use = 0.7
    assert not world.minutes(30)[-1].spots


def test_a_node_without_fresh_readings_is_neither_hot_nor_a_place_to_go() -> None:
    world = hot()
    world.minutes(2)
    world.silent = {"n1"}
    assert not any(look.spots for look in world.minutes(6)[3:])
    world = hot()
    world.silent = {"n2"}
    looks = world.minutes(6)
    assert not moved(looks)
    assert "no fresh readings" in reasons(looks)["big"]


def test_a_signal_that_no_node_tells_keeps_nobody() -> None:
    rules = RebalancingRules(signals=("cpu", "gpu"), hot=0.8, cool=0.7)
    assert moved(hot(rules=rules).minutes(4))


def test_a_hot_spot_of_which_nothing_can_go_comes_after_others() -> None:
    rules = RebalancingRules(signals=("cpu",), hot=0.8, cool=0.7, moves_per_minute=1)
    stuck, other = [web("s", 3800, owner="")], [web(name, 1200) for name in "abc"]
    looks = World({"stuck": stuck, "other": other, "cold": []}, rules=rules).minutes(4)
    assert moved(looks)
    assert looks[-1].spots[0].place == ("a", "stuck"), "the hottest is told first all the same"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"owner": ""}, "no controller would replace it"),
        ({"owner": "DaemonSet/d/u"}, "it is of a DaemonSet"),
        ({"owner": "Job/j/u"}, "it is of a Job"),
        ({"owner": "Node/n1/u"}, "it is of a Node"),
        ({"owner": "DaemonSet/d/u", "annotations": {REBALANCE: "true"}}, "it is of a DaemonSet"),
        ({"annotations": {REBALANCE: "false"}}, f"its annotation {REBALANCE} is 'false'"),
        ({"annotations": {REBALANCE: "no"}}, f"its annotation {REBALANCE} is 'no'"),
        ({"priority": 2_000_001_000}, "it is critical to the system"),
        ({"group": Group("annotation", "g")}, "it is of group g, whose other pods would wait for it"),
        ({"phase": "Pending"}, "it does not run"),
        ({"terminating": True}, "it does not run"),
    ],
)
def test_who_may_not_be_moved_stays_and_says_why(change: dict[str, Any], why: str) -> None:
    world = World({"n1": [], "n2": []})
    pods = [web("big", 2400), web("small", 1200)]
    world = hot(*(one.on("n1").set(**change) for one in pods))
    for one in pods:  # `on` of the world gives them a phase
        world.fleet.place(("a", f"uid-{one.build().name}"), one.set(**change).placed(), "a", "n1", assumed=False)
    looks = world.minutes(5)
    assert not moved(looks)
    assert set(reasons(looks).values()) == {why}


@pytest.mark.parametrize("owner", ["Job/j/u", "CloneSet/c/u"])
def test_an_owner_may_let_pods_of_any_other_controller_go(owner: str) -> None:
    pods = [web(name, 1200, owner=owner).annotation(REBALANCE, "true") for name in "abc"]
    assert moved(hot(*pods).minutes(4))


def test_reasons_of_the_core_keep_a_pod() -> None:
    looks = hot(stay="it is of another scheduler").minutes(5)
    assert set(reasons(looks).values()) == {"it is of another scheduler"}


@pytest.mark.parametrize("labels", [{"tier": "db"}, {}], ids=["its labels", "an empty selector"])
def test_a_budget_without_disruptions_left_keeps_its_pods(labels: dict[str, str]) -> None:
    world = hot(web("a", 1200).labels(tier="db"), web("b", 1200).labels(tier="db"), web("c", 1200).labels(tier="db"))
    world.budget(0, **labels)
    looks = world.minutes(5)
    assert not moved(looks)
    assert reasons(looks)["a"] == "PodDisruptionBudget default/budget allows no disruption"


def test_a_budget_counts_those_that_are_on_their_way() -> None:
    pods = [web(name, 1200).labels(tier="db") for name in "abc"]
    world = World({"n1": pods, "n2": [], "n3": [web(name, 1200).labels(tier="db") for name in "def"]})
    world.budget(1, tier="db")
    assert len(moved(world.minutes(6))) == 1


def test_a_pod_that_has_just_come_rests() -> None:
    world = hot(rules=RebalancingRules(signals=("cpu",), rest_s=3600.0, hot=0.8, cool=0.7))
    for occupant in list(world.fleet.occupants_on("a", "n1")):
        occupant.placed_at = world.fleet.now
    looks = world.minutes(5)
    assert not moved(looks)
    assert all(why.startswith("it came 300 s ago, and rests for 3600 s") for why in reasons(looks).values())


def test_a_pod_that_refused_rests_and_another_one_goes() -> None:
    world = hot(web("a", 1200), web("b", 1200), web("c", 1200))
    (first,) = moved(world.minutes(4))
    world.rebalancer.moves.refused(first, world.fleet.now)
    (second,) = moved(world.minutes(1))
    assert second != first


def test_of_one_app_one_pod_goes_at_a_time() -> None:
    pods = [web(f"p{at}", 450).labels(app="web") for at in range(8)]
    looks = World({"n1": pods, "n2": [], "n3": []}).minutes(6)
    assert len(moved(looks)) == 1
    assert "a pod of its app" in reasons(looks)["p3"]


@pytest.mark.parametrize(("rules", "most"), [({"moves_per_minute": 1}, 1), ({"under_way": 1}, 1), ({}, 2)])
def test_the_fleet_has_a_rate_and_a_number_at_once(rules: dict[str, int], most: int) -> None:
    limits = RebalancingRules(signals=("cpu",), hot=0.8, cool=0.7, **rules)
    nodes = {f"n{at}": [web(f"{at}-{one}", 1200) for one in range(3)] for at in range(3)}
    looks = World({**nodes, **{f"cold{at}": [] for at in range(9)}}, rules=limits).minutes(5)
    assert max(len(look.moves) for look in looks) == most


def test_no_pod_goes_to_a_node_that_would_be_warm_then() -> None:
    world = World({"n1": [web("a", 1800), web("b", 1800)], "n2": [web("c", 1400)]})
    looks = world.minutes(5)
    assert not moved(looks)
    assert reasons(looks)["a"] == "it would go to node n2 of cluster a, which would have 80% of cpu then"


def test_a_move_that_wins_too_little_is_not_made() -> None:
    rules = RebalancingRules(signals=("cpu",), hot=0.8, cool=0.7, gain=60.0)
    looks = hot(rules=rules).minutes(5)
    assert not moved(looks)
    assert "points, less than 60" in reasons(looks)["big"]


def test_asking_where_a_pod_would_go_changes_nothing() -> None:
    world = hot()
    world.minutes(3)
    occupant = world.fleet.occupant(("a", "uid-big"))
    assert occupant is not None
    before = world.fleet.requested.copy(), world.fleet.nonzero.copy(), world.fleet.settling.copy(), occupant.row
    assert world.scheduler.would_go(occupant.pod_id, occupant.pod_info) is not None
    after = world.fleet.requested, world.fleet.nonzero, world.fleet.settling, occupant.row
    assert all((one == other).all() for one, other in zip(before[:3], after[:3], strict=True))
    assert before[3] == after[3]
    assert not world.scheduler.holds(occupant.pod_id)


@pytest.mark.parametrize("cool", [0.0, 0.8, 0.9])
def test_rules_whose_thresholds_do_not_fit_are_refused(cool: float) -> None:
    with pytest.raises(ValueError, match="cool"):
        RebalancingRules(hot=0.8, cool=cool)


class Burnt(World):
    """Node n1 has a pod that requests little and uses most of the node; its neighbours use next to nothing."""

    def load(self, name: str) -> float:
        return 0.9 if name == "n1" else 0.02


def carried_out(world: World, minutes: int) -> list[Look]:
    looks = []
    for _ in range(minutes):
        looks.append(world.minute())
        for move in looks[-1].moves:
            world.carry_out(move)
    return looks


def test_neighbours_of_a_pod_that_burns_their_node_are_not_moved_one_by_one() -> None:
    pods = [web("burner", 100, owner=""), *(web(f"p{at}", 100) for at in range(19))]
    looks = carried_out(Burnt({"n1": pods, "n2": [], "n3": [], "n4": []}), 50)
    assert 2 <= len(moved(looks)) <= 6, "without a judgement it were 16"
    assert "pods left it: one that stays uses far more than it requests" in reasons(looks)["burner"]
    assert looks[-1].spots, "it is told as hot all the same"


def test_a_node_that_does_become_cooler_gives_up_pods_until_it_is_cool() -> None:
    world = World({"n1": [web(f"p{at}", 390) for at in range(10)], **{f"cold{at}": [] for at in range(6)}})
    looks = carried_out(world, 20)
    assert world.load("n1") < world.rules.cool
    assert not any("burns" in why or "uses far more" in why for look in looks for why in (s.why for s in look.stays))


def test_a_node_that_wants_more_than_it_has_is_not_judged_by_readings_that_end_at_1() -> None:
    world = World({"n1": [web(f"p{at}", 190) for at in range(20)], **{f"cold{at}": [] for at in range(6)}}, use=1.5)
    assert world.load("n1") > 1.4
    looks = carried_out(world, 40)
    assert world.load("n1") < world.rules.hot
    assert not any("uses far more" in stay.why for look in looks for stay in look.stays)


class Rising(World):
    """The load of node n1 rises by a hundredth of the node a minute, whoever leaves; the others have none."""

    def load(self, name: str) -> float:
        pods = len(self.fleet.occupants_on("a", "n1"))
        risen = max(self.fleet.now - 2 * self.rules.rest_s, 0.0) / 60 / 100 if name == "n1" else 0.0
        return 0.72 * pods / 20 + risen if name == "n1" else 0.05


def test_a_node_whose_load_goes_on_rising_is_judged_anew() -> None:
    looks = carried_out(Rising({"n1": [web(f"p{at}", 100) for at in range(20)], "n2": [], "n3": [], "n4": []}), 50)
    stayed = [any("uses far more" in stay.why for stay in look.stays) for look in looks]
    moves = [bool(look.moves) for look in looks]
    assert any(stayed), "moves show no effect at first"
    assert any(moves[stayed.index(True) + 1 :]), "and pods go again once it has risen by a tenth of the node"
