from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import SKIP
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.names import ACCEPT, CLUSTERS, DOMAIN_SCOPE
from shared.model.objects import AnyObject, Namespace, ReplicaSet, ReplicationController, Service, StatefulSet
from shared.model.pod import SpreadConstraint
from shared.model.refusal import ALL_OTHERS, ClusterRefusal
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.plugins.asking import make, raw_scores, reasons, scores, state_of

FULL = "node(s) didn't match pod topology spread constraints"
LACKS = "node(s) didn't match pod topology spread constraints (missing required label)"


def web(name: str = "web") -> PodBuilder:
    return pod(name).labels(app="web")


def zones(**pods: int) -> FleetState:
    """One node a zone, each in a cluster of its own, with that many pods of app web."""
    state = fleet()
    for zone, count in pods.items():
        state.set_cluster(f"in-{zone}", ready=True, synced=True)
        state.put_node(f"in-{zone}", node(zone).labels(zone=zone).build())
        for at in range(count):
            put(state, web(f"{zone}-{at}"), f"in-{zone}", zone)
    return state


def heeding(*names: str) -> Any:
    """The plugin in a profile with filters of these names."""
    plugin = make("FaultDomainSpread")
    plugin.heed([make(name) for name in names])
    return plugin


def open_zones(asking: PodBuilder, state: FleetState) -> str:
    """The zones that `zones` made and that the filter leaves to a pod."""
    found = reasons(heeding("ClusterAllowed", "ClusterRefused", "DataLocality", "NamespaceOpen"), asking, state)
    live = [info.name for info in state.clusters if state.node_names(info.name)]
    return "".join(name[-1] for name in live if f"{name}/{name[-1]}" not in found)


@pytest.mark.parametrize(
    ("counts", "max_skew", "want"),
    [
        ({"a": 0, "b": 0, "c": 0}, 1, "abc"),
        ({"a": 1, "b": 0, "c": 0}, 1, "bc"),
        ({"a": 1, "b": 1, "c": 0}, 1, "c"),
        ({"a": 3, "b": 2, "c": 2}, 1, "bc"),
        ({"a": 2, "b": 1, "c": 0}, 2, "bc"),
        ({"a": 5, "b": 0, "c": 0}, 5, "bc"),
        ({"a": 5, "b": 0, "c": 0}, 6, "abc"),
    ],
    ids=["empty", "one ahead", "two ahead", "level again", "skew 2", "skew 5", "skew 6"],
)
def test_hard_spread_keeps_the_skew_over_all_clusters(counts: Mapping[str, int], max_skew: int, want: str) -> None:
    assert open_zones(web().spread("zone", max_skew), zones(**counts)) == want


def test_hard_spread_takes_level_and_label_for_one() -> None:
    state = zones(a=1, b=0)
    asking = web().spread("topology.kubernetes.io/zone")
    assert reasons(make("FaultDomainSpread"), asking, state) == {"in-a/a": FULL}


def test_hard_spread_refuses_nodes_without_the_label_and_does_not_count_them() -> None:
    state = fleet(a=[node("in").labels(zone="z"), node("out")])
    put(state, web("t"), "a", "in")
    assert reasons(make("FaultDomainSpread"), web().spread("zone"), state) == {"out": LACKS}


def test_hard_spread_refuses_everywhere_when_no_node_has_the_label() -> None:
    found = reasons(make("FaultDomainSpread"), web().spread("example.com/row"), fleet(a=["n1"]))
    assert found == {"n1": LACKS}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("zones", "; did you mean the level zone, not a node label of that name?"),
        ("shelf", ""),
        ("example.com/zone", ""),
    ],
)
def test_hard_spread_over_a_label_that_no_node_has_tells_the_level_that_may_be_meant(key: str, hint: str) -> None:
    assert set(reasons(make("FaultDomainSpread"), web().spread(key), zones(a=0)).values()) == {LACKS + hint}


def test_hard_spread_holds_through_a_lost_zone() -> None:
    state = zones(a=2, b=2, c=1)
    state.set_cluster("in-c", ready=False, synced=True)
    state.put_node("in-c", node("c").labels(zone="c").ready(False).build())
    assert open_zones(web().spread("zone"), state) == "c"


@pytest.mark.parametrize("others", [{}, {"b": [node("n2")]}], ids=["one cluster", "two"])
def test_hard_spread_over_clusters_goes_on_when_one_without_nodes_comes(
    others: dict[str, Any],
) -> None:
    state = fleet(a=[node("n1")], **others)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    found = []
    for at in range(12):
        one = pod(f"p{at}").labels(app="web").spread("cluster", 2).placed("a")
        found.append(scheduler.schedule(one, ("a", one.pod.uid)))
        if at == 5:
            state.set_cluster("c", ready=True, synced=True)
    assert all(isinstance(one, Decision) for one in found)
    assert not scheduler.take_troubles()


def test_hard_spread_forgets_a_zone_whose_nodes_are_gone() -> None:
    state = zones(a=2, b=2, c=1)
    state.remove_node("in-c", "c")
    assert open_zones(web().spread("zone"), state) == "ab"


@pytest.mark.parametrize(
    ("asking", "may", "want"),
    [
        (web().spread("zone").node_selector({"zone": "a"}), "a", "a"),
        (web().spread("zone").requires("zone", "In", "a", "b"), "ab", "b"),
        (web().spread("zone").annotation(CLUSTERS, "in-a,in-b"), "ab", "b"),
        (web().spread("zone").annotation(CLUSTERS, "nowhere"), "abc", "c"),
    ],
    ids=["selector", "affinity", "allowed clusters", "unreadable wish about clusters"],
)
def test_hard_spread_levels_only_over_domains_the_pod_may_go_to(asking: PodBuilder, may: str, want: str) -> None:
    assert "".join(sorted(set(open_zones(asking, zones(a=2, b=1, c=0))) & set(may))) == want


@pytest.mark.parametrize("at_home", ["accept: false", "no such namespace"])
def test_hard_spread_waits_for_no_zone_of_a_cluster_without_the_pods_open_namespace(at_home: str) -> None:
    state = zones(a=2, b=2, c=0)
    shown = Namespace("default", {ACCEPT: "false"}) if at_home == "accept: false" else Namespace("other")
    state.kept.put("in-c", shown)
    asking = web().spread("zone").placed(home="in-a")
    assert "in-a/a" not in reasons(heeding("NamespaceOpen"), asking, state)


@pytest.mark.parametrize(("over", "want"), [(False, ()), (True, ("in-a/a", "in-b/b"))], ids=["now", "not any more"])
def test_hard_spread_waits_for_no_zone_of_a_cluster_that_refuses_the_pod(over: bool, want: tuple[str, ...]) -> None:
    told = ClusterRefusal("in-c", "a Secret does not cross", 0.0, 600.0, over=over)
    asking = replace(web().spread("zone").placed(home="in-a"), refused=(told,))
    assert tuple(reasons(heeding("ClusterRefused"), asking, zones(a=2, b=2, c=0))) == want


def test_hard_spread_waits_for_a_zone_of_a_cluster_whose_refusal_passes() -> None:
    told = ClusterRefusal("in-c", "too many requests", 0.0, 2.0, passing=True)
    asking = replace(web().spread("zone").placed(home="in-a"), refused=(told,))
    assert {"in-a/a", "in-b/b"} <= set(reasons(heeding("ClusterRefused"), asking, zones(a=2, b=2, c=0)))


def test_hard_spread_of_a_pod_that_cannot_travel_levels_over_the_zones_of_its_home() -> None:
    state, told = zones(a=2, b=0, c=0), ClusterRefusal(ALL_OTHERS, "a Secret does not cross", 0.0, 600.0)
    state.put_node("in-a", node("a2").labels(zone="a2").build())
    for at in range(2):
        put(state, web(f"a2-{at}"), "in-a", "a2")
    asking = replace(web().spread("zone").placed(home="in-a"), refused=(told,))
    assert not reasons(heeding("ClusterRefused"), asking, state)


HINTS = {
    "the emptiest zone": (
        web().cpu(3).spread("topology.kubernetes.io/zone"),
        "spread over topology.kubernetes.io/zone: domain 'c' (cluster in-c) has 0 of the pods that count, and no node "
        "there can take this one",
    ),
    "a host": (
        web().cpu(3).spread("host"),
        "spread over host: domain 'in-c/c' has 0 of the pods that count, and no node there can take this one",
    ),
    "too few domains": (
        web().cpu(3).spread("zone", min_domains=5),
        "spread over zone: 4 domains count, and minDomains asks for 5",
    ),
    "room is lacking everywhere, and nothing else": (web().cpu(99).spread("zone", 9), ""),
    "soft": (web().cpu(99).spread("zone", hard=False), ""),
}


@pytest.mark.parametrize("case", HINTS)
def test_a_pod_that_waits_for_spread_is_told_the_domain_that_has_no_room(case: str) -> None:
    asking, hint = HINTS[case]
    state = zones(a=2, b=2, c=0, d=1)
    for zone in "cd":
        state.put_node(f"in-{zone}", node(zone).labels(zone=zone).cpu(1).build())
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    found = scheduler.schedule(asking.placed(home="in-a"), ("in-a", "u"))
    assert isinstance(found, Unschedulable)
    assert found.hints == ((hint,) if hint else ())
    assert found.message.endswith(".")
    assert found.full_message == (f"{found.message[:-1]}; {hint}" if hint else found.message)
    assert found.again(("in-a", "v"), found.pod_info, 0.0).full_message == found.full_message


def test_empty_domains_that_are_alike_are_told_once() -> None:
    state = zones(a=2, b=0, c=0, d=0)
    rule = state_of(make("FaultDomainSpread"), web().spread("zone"), state)
    (hint,) = make("FaultDomainSpread").explain_refusal(rule, web().placed(), view_of(state))
    assert "domain 'b' (cluster in-b) and 2 more like it has 0" in hint


def test_a_batch_with_hard_spread_is_placed_wholly_in_the_clusters_that_it_may_enter() -> None:
    state = zones(a=0, b=0, c=0)
    state.kept.put("in-c", Namespace("other"))
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    items = [(("in-a", f"p{at}"), web(f"p{at}").spread("zone").placed(home="in-a")) for at in range(6)]
    found = Counter(getattr(one, "node", "") for one in scheduler.schedule_class(items))
    assert found == {"a": 3, "b": 3}


@pytest.mark.parametrize(("honored", "want"), [(False, ["in-a/a", "in-b/b"]), (True, [])])
def test_hard_spread_takes_a_cordon_of_a_cluster_as_a_taint(honored: bool, want: list[str]) -> None:
    state = zones(a=2, b=2, c=0)
    state.set_closed("in-a", "in-c", closed=True)
    asking = web().set(spread=(SpreadConstraint("zone", honor_taints=honored),)).placed(home="in-a")
    assert list(reasons(heeding("ClusterAllowed"), asking, state)) == want


def test_hard_spread_that_honors_taints_goes_by_those_that_nodes_have_now() -> None:
    state = fleet(a=[node("n1").labels(zone="x"), node("n2").labels(zone="y").taint("dedicated")])
    put(state, web("t"), "a", "n1")
    plugin = make("FaultDomainSpread")
    asking = web().set(spread=(SpreadConstraint("zone", honor_taints=True),))
    assert reasons(plugin, asking, state) == {}
    assert reasons(plugin, asking.tolerates("dedicated", operator="Exists"), state) == {"n1": FULL}
    state.put_node("a", node("n2").labels(zone="y").build())
    assert reasons(plugin, asking, state) == {"n1": FULL}


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (web().spread("zone", min_domains=3), ""),
        (web().spread("zone", min_domains=2), "ab"),
        (web().spread("zone", 2, min_domains=3), "ab"),
    ],
    ids=["too few zones", "enough zones", "too few, wider skew"],
)
def test_hard_spread_takes_the_least_count_for_zero_while_domains_are_too_few(asking: PodBuilder, want: str) -> None:
    assert open_zones(asking, zones(a=1, b=1)) == want


def test_hard_spread_counts_what_the_selector_says_and_the_pod_only_if_it_matches_itself() -> None:
    state = zones(a=1, b=0)
    stranger = pod("db").labels(app="db").spread("zone", selector=selector(app="web"))
    assert open_zones(stranger, state) == "ab"
    assert open_zones(web().spread("zone", selector=selector(app="web")), state) == "b"
    assert open_zones(pod("db").labels(app="db").spread("zone"), state) == "ab"
    assert open_zones(web().namespace("other").spread("zone"), state) == "ab"


def test_hard_spread_over_several_levels_needs_all_of_them() -> None:
    state = fleet(
        a=[node("a1").labels(zone="x"), node("a2").labels(zone="x")], b=[node("b1").labels(zone="y"), node("b2")]
    )
    put(state, web("t"), "a", "a1")
    found = reasons(make("FaultDomainSpread"), web().spread("zone").spread("host"), state)
    assert found == {"a/a1": FULL, "a/a2": FULL, "b/b2": LACKS}
    by_host = reasons(make("FaultDomainSpread"), web().spread("cluster", 9).spread("host"), state)
    assert by_host == {"a/a1": FULL}


def test_hard_spread_may_keep_every_domain_within_one_cluster() -> None:
    state = fleet(a=[node("n").labels(zone="x")], b=[node("n").labels(zone="x"), node("m").labels(zone="y")])
    put(state, web("t"), "a", "n")
    whole, scoped = web().spread("zone"), web().spread("zone").annotation(DOMAIN_SCOPE, "cluster")
    plugin = make("FaultDomainSpread")
    assert set(reasons(plugin, whole, state)) == {"a/n", "b/n"}
    assert set(reasons(plugin, scoped, state)) == {"a/n"}
    assert plugin.class_key(whole.placed()) != plugin.class_key(scoped.placed())


def test_soft_spread_prefers_emptier_domains_and_nodes_that_have_the_label() -> None:
    state = zones(a=4, b=2, c=0)
    state.put_node("in-c", node("out").build())
    found = scores(make("FaultDomainSpread"), web().spread("zone", hard=False), state)
    assert found == {"in-a/a": 0, "in-b/b": 50, "in-c/c": 100, "in-c/out": 0}


def test_soft_spread_refuses_nothing() -> None:
    assert reasons(make("FaultDomainSpread"), web().spread("zone", hard=False), zones(a=9, b=0)) == {}


def test_soft_spread_of_an_empty_app_prefers_nothing() -> None:
    assert set(scores(make("FaultDomainSpread"), web().spread("zone", hard=False), zones(a=0, b=0)).values()) == {100}


def test_spread_defaults_are_for_pods_with_labels_and_without_constraints() -> None:
    plugin, state = make("FaultDomainSpread", defaults=[{"key": "zone", "hard": True}]), zones(a=1, b=0)
    assert set(reasons(plugin, web(), state)) == {"in-a/a"}
    assert reasons(plugin, web().spread("zone", 2), state) == {}
    assert reasons(plugin, pod(), state) == {}


def test_spread_has_nothing_to_say_without_constraints() -> None:
    plugin = make("FaultDomainSpread")
    assert raw_scores(plugin, web(), zones(a=1, b=0)) == {}
    assert plugin.class_key(web().placed()) is None


def test_spread_explains_counts_and_skew() -> None:
    plugin, state = make("FaultDomainSpread"), zones(a=2, b=1)
    asking = web().spread("zone", 2).spread("cluster", hard=False)
    told = plugin.explain(state_of(plugin, asking, state), asking.placed(), view_of(state), 0)
    zone = {"domain": "a", "max_skew": 2, "hard": True, "min": 1, "skew": 1, "counts": {"a": 2, "b": 1}, "domains": 2}
    assert told["zone"] == zone
    assert told["cluster"]["counts"] == {"in-a": 2, "in-b": 1}


def test_spread_explains_hosts_without_listing_them_all() -> None:
    plugin, state = make("FaultDomainSpread"), fleet(a=[f"n{at}" for at in range(100)])
    asking = web().spread("host")
    told = plugin.explain(state_of(plugin, asking, state), asking.placed(), view_of(state), 7)
    assert told["host"]["domain"] == "a/n7"
    assert told["host"]["domains"] == 100
    assert len(told["host"]["counts"]) == 16


def test_spread_class_holds_everything_it_looks_at() -> None:
    plugin, base = make("FaultDomainSpread"), web().spread("zone")
    same = web("other").spread("zone").cpu(3).labels(**{"pod-template-hash": "x"})
    assert plugin.class_key(base.placed()) == plugin.class_key(same.placed())
    others = [
        web().spread("zone", 2),
        web().spread("zone", hard=False),
        web().spread("zone", min_domains=2),
        web().spread("rack"),
        web().spread("zone", selector=selector(app="web")),
        web().spread("zone").namespace("other"),
        web().spread("zone").labels(tier="x"),
        web().spread("zone").node_selector({"x": "y"}),
        web().spread("zone").annotation(CLUSTERS, "a"),
    ]
    keys = {plugin.class_key(one.placed()) for one in [base, *others]}
    assert len(keys) == len(others) + 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 12))
def test_hard_spread_never_lets_the_skew_grow_beyond_its_limit(before: list[int], skew: int, more: int) -> None:
    names = "abcd"[: len(before)]
    state = zones(**dict(zip(names, before, strict=True)))
    counts = dict(zip(names, before, strict=True))
    for at in range(more):
        free = open_zones(web().spread("zone", skew), state)
        assert free  # the least full zone always has room
        put(state, web(f"new-{at}"), f"in-{free[0]}", free[0])
        counts[free[0]] += 1
        assert counts[free[0]] - min(counts.values()) <= skew


def hosts(**pods: int) -> FleetState:
    """Nodes a, b, c and d with that many pods of app web."""
    state = fleet(a=list("abcd"))
    for name, count in pods.items():
        for at in range(count):
            put(state, web(f"{name}-{at}"), "a", name)
    return state


# Pods per host and scores of kube-scheduler's own tests.
@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (web().spread("host", hard=False, selector=selector(app="web")), {"a": 20, "b": 60, "c": 100, "d": 0}),
        (web().spread("host", 2, hard=False, selector=selector(app="web")), {"a": 33, "b": 66, "c": 100, "d": 16}),
        (web().spread("host", hard=False, selector=selector()), {"a": 20, "b": 60, "c": 100, "d": 0}),
        (web().spread("host", 9, selector=selector(app="web")), {"a": 0, "b": 0, "c": 0, "d": 0}),
    ],
    ids=[
        "four hosts",
        "a wider skew",
        "an empty selector counts all",
        "hard constraints alone score nothing",
    ],
)
def test_soft_spread_scores_as_kube_scheduler_does(asking: PodBuilder, want: dict[str, int]) -> None:
    assert scores(make("FaultDomainSpread"), asking, hosts(a=2, b=1, d=3)) == want


# --- System defaults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "owner", "counted"),
    [
        pytest.param([], "", "", id="nobody means the pod"),
        pytest.param([Service("default", "s", {"app": "web"})], "", "ab", id="a service"),
        pytest.param([Service("default", "s", {"app": "web", "tier": "x"})], "", "a", id="a narrow service"),
        pytest.param([Service("default", "s", {"app": "db"})], "", "", id="a service of others"),
        pytest.param([Service("default", "s", {})], "", "", id="a service of nobody"),
        pytest.param([Service("other", "s", {"app": "web"})], "", "", id="a service elsewhere"),
        pytest.param([ReplicaSet("default", "r", selector(app="web"))], "ReplicaSet/r/u", "ab", id="its replica set"),
        pytest.param([ReplicaSet("default", "r", selector(app="web"))], "ReplicaSet/q/u", "", id="one that is gone"),
        pytest.param([ReplicaSet("default", "r", selector(app="web"))], "StatefulSet/r/u", "", id="another kind"),
        pytest.param([StatefulSet("default", "r", selector(tier="x"))], "StatefulSet/r/u", "a", id="its stateful set"),
        pytest.param(
            [ReplicationController("default", "r", selector(app="web"))],
            "ReplicationController/r/u",
            "ab",
            id="its replication controller",
        ),
        pytest.param(
            [Service("default", "s", {"app": "web"}), ReplicaSet("default", "r", selector(tier="x"))],
            "ReplicaSet/r/u",
            "a",
            id="a service and its replica set",
        ),
        pytest.param([ReplicaSet("default", "r", selector(app="db"))], "ReplicaSet/r/u", "none", id="not a pod of it"),
    ],
)
def test_system_defaults_count_what_services_and_the_owner_mean(
    objects: list[AnyObject], owner: str, counted: str
) -> None:
    """Zones a (tiers x) and b (tier y) have two pods of the app each, c has none."""
    plugin = make("FaultDomainSpread", defaulting="System")
    state = fleet(a=[node(name).labels(**{"topology.kubernetes.io/zone": name}) for name in "abc"])
    for name, tier in (("a", "x"), ("b", "y")):
        for at in range(2):
            put(state, pod(f"{name}{at}").labels(app="web", tier=tier), "a", name)
    asking = pod("new").labels(app="web", tier="x").set(owner=owner)
    keys = {plugin.fleet_key(asking.placed(), view_of(state))}
    for one in objects:
        state.kept.put("a", one)
    keys.add(plugin.fleet_key(asking.placed(), view_of(state)))
    found = scores(plugin, asking, state)
    if not counted:
        assert (found, keys) == ({}, {None})
        return
    assert len(keys) == 2
    assert "".join(name for name, score in found.items() if score < 100) == counted.replace("none", "")


def test_a_pod_with_constraints_has_no_system_defaults() -> None:
    state = zones(a=1, b=0)
    state.kept.put("in-a", Service("default", "s", {"app": "web"}))
    plugin = make("FaultDomainSpread", defaulting="System")
    assert plugin.fleet_key(web().spread("zone").placed(), state) is None


def app_fleet() -> FleetState:
    """Cluster a has zones x and y, b has zone z, c tells no zone."""
    return fleet(
        a=[node("n1").labels(zone="x"), node("n2").labels(zone="y")], b=[node("n1").labels(zone="z")], c=["n1", "n2"]
    )


def test_app_defaults_have_nothing_to_say_of_the_first_pod_of_an_app() -> None:
    state, plugin = app_fleet(), make("FaultDomainSpread", defaulting="App")
    put(state, pod("other").labels(app="db"), "a", "n1")
    put(state, pod("elsewhere").namespace("shop").labels(app="web"), "a", "n1")
    assert scores(plugin, web(), state) == {}
    assert scores(plugin, pod("bare"), state) == {}


def test_app_defaults_spread_an_app_softly_and_little_for_few_pods() -> None:
    state, plugin = app_fleet(), make("FaultDomainSpread", defaulting="App")
    put(state, pod("w0").labels(app="web"), "a", "n1")
    few = scores(plugin, web(), state)
    for at in range(1, 12):
        put(state, pod(f"w{at}").labels(app="web"), "a", "n1")
    many = scores(plugin, web(), state)
    for found in (few, many):
        assert found["a/n1"] < found["a/n2"] < found["b/n1"]
        assert found["b/n1"] == found["c/n1"] == found["c/n2"] == 100  # to lack a zone is no edge
    assert few["a/n1"] > 90
    assert many["a/n1"] < 75
    assert reasons(plugin, web(), state) == {}


def test_app_defaults_are_for_pods_without_constraints() -> None:
    state, asking = app_fleet(), web().spread("zone", hard=False)
    put(state, pod("w0").labels(app="web"), "a", "n1")
    assert scores(make("FaultDomainSpread", defaulting="App"), asking, state) == scores(
        make("FaultDomainSpread"), asking, state
    )


def test_app_defaults_come_and_go_with_the_other_pods_of_the_app() -> None:
    state, plugin = app_fleet(), make("FaultDomainSpread", defaulting="App")
    placed, view = web().placed(), view_of(state)
    alone = plugin.pre_filter(placed, view)
    put(state, pod("w0").labels(app="web"), "a", "n1")
    spread = plugin.refresh(alone, placed, view)
    state.remove(("a", "uid-w0"))
    assert (alone, plugin.refresh(spread, placed, view)) == (SKIP, SKIP)
    assert spread is not SKIP


def test_app_defaults_and_a_list_of_defaults_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="need defaulting"):
        make("FaultDomainSpread", defaulting="App", defaults=[{"key": "zone"}])
