"""The fleet's columns: what nodes, pods and readings write there, and that taking out is the inverse of putting in."""

import itertools
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from dispatcher.scheduling.fleet import nodes
from dispatcher.scheduling.fleet.columns import exact_sums
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.labels import LabelColumns
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import FleetView
from dispatcher.scheduling.framework.pod_sets import pods_in
from shared.model.labels import IN, NOT_EXISTS, LabelSelector, Requirement
from shared.model.names import RACK, REGION, ZONE
from shared.model.node import Node, Reading
from shared.model.pod import Pod
from shared.model.resources import MAX_QUANTITY
from shared.model.topology import within_cluster
from tests.builders import fleet, node, pod, put, reading, selector


def test_a_view_is_what_plugins_are_promised() -> None:
    shown: FleetView = view_of(fleet(a=["n1"]))
    assert shown.n == 1


def test_columns_cannot_be_written_by_those_who_read_them() -> None:
    state = fleet(a=["n1"])
    with pytest.raises(ValueError, match="read-only"):
        state.requested[0, 0] = 1


def test_a_pod_takes_its_requests_and_one_pod() -> None:
    state = fleet(a=["n1", "n2"])
    put(state, pod().cpu("500m").memory("1Gi"), "a", "n2")
    row = state.row_of("a", "n2")
    assert row is not None
    assert dict(zip(state.axis.names, state.requested[:, row].tolist(), strict=True)) == {
        "cpu": 500,
        "memory": 2**30,
        "ephemeral-storage": 0,
        "pods": 1,
    }
    assert state.requested[:, 1 - row].sum() == 0


def test_a_pod_without_requests_counts_with_kube_schedulers_defaults_where_load_is_guessed() -> None:
    state = fleet(a=["n1"])
    put(state, pod(), "a", "n1")
    assert state.nonzero[:, 0].tolist() == [100, 200 * 2**20]
    assert state.requested[0, 0] == 0


def test_terms_count_on_nodes_that_get_their_topology_key_after_another_has_it() -> None:
    names = [f"n{number}" for number in range(8)]
    state = fleet(a=["first", *names])
    for name in names:
        put(state, pod(name).away("example.com/rack", selector(app="web")), "a", name)
    state.put_node("a", node("first").label({"example.com/rack": "x"}).build())
    state.put_nodes("a", [node(name).label({"example.com/rack": "x"}).build() for name in names])
    affinity = view_of(state).affinity
    about = affinity.terms_about(pod("asks").labels(app="web").placed(home="a"))
    assert [affinity.count_of(term).tolist() for term in about] == [[len(names)]]


def test_a_pod_placed_before_its_node_is_known_attaches_when_the_node_comes() -> None:
    state = fleet(a=[])
    put(state, pod().cpu(1), "a", "n1")
    row = state.put_node("a", node("n1").build())
    assert state.requested[0, row] == 1000


def test_a_removed_node_keeps_its_pods_by_name_and_its_row_is_used_again() -> None:
    state = fleet(a=["n1"])
    put(state, pod().cpu(1), "a", "n1")
    state.remove_node("a", "n1")
    assert not state.live[0]
    assert state.put_node("b", node("other").build()) == 0
    assert state.requested[0, 0] == 0
    back = state.put_node("a", node("n1").build())
    assert state.requested[0, back] == 1000


def test_live_rows_are_counted_as_nodes_come_and_go() -> None:
    state, live = fleet(a=["n1", "n2"], b=["n1"]), list[tuple[int, int]]()
    for change in (
        lambda: state.remove_node("a", "n1"),
        lambda: state.put_node("b", node("n2").build()),
        lambda: state.remove_node("b", "n1"),
        lambda: state.put_nodes("c", [node("n1").build(), node("n2").build()]),
    ):
        change()
        live.append((state.live_count, int(np.count_nonzero(state.live))))
    assert live == [(2, 2), (3, 3), (2, 2), (4, 4)]


def test_a_resource_that_nobody_had_becomes_a_column() -> None:
    state = fleet(a=["n1"])
    assert state.axis.column("example.com/gpu") is None
    row = state.put_node("a", node("g").resource("example.com/gpu", 8).build())
    column = state.axis.column("example.com/gpu")
    assert column is not None
    assert state.allocatable[column].tolist() == [0, 8]
    assert row == 1


def test_placing_again_changes_nothing_and_placing_elsewhere_moves() -> None:
    state = fleet(a=["n1"], b=["n1"])
    one = pod().cpu(1)
    put(state, one, "a", "n1")
    put(state, one, "a", "n1")
    assert state.requested[0].tolist() == [1000, 0]
    put(state, one, "b", "n1")
    assert state.requested[0].tolist() == [0, 1000]


def test_absurd_requests_saturate_and_come_off_exactly() -> None:
    state = fleet(a=["n1"])
    for name in ("p1", "p2", "p3"):
        put(state, pod(name).set(uid=name).request("memory", MAX_QUANTITY), "a", "n1")
    assert state.requested[1, 0] == MAX_QUANTITY
    state.remove(("a", "p1"))
    state.remove(("a", "p2"))
    assert state.requested[1, 0] == MAX_QUANTITY
    state.remove(("a", "p3"))
    assert state.requested[1, 0] == 0


@pytest.mark.parametrize(
    ("share", "age"),
    [(None, 0.0), (float("nan"), 0.0), (float("inf"), 0.0), (-0.5, 0.0), (0.1, float("nan")), (0.1, float("inf"))],
    ids=["unknown", "not a number", "infinite", "negative", "an age that is no number", "an endless age"],
)
def test_a_reading_that_says_nothing_never_becomes_idle(share: float | None, age: float) -> None:
    state = fleet(a=["n1"])
    state.put_reading("a", Reading("n1", cpu=share, cpu_age_s=age))
    assert np.isnan(state.signals.used("cpu")[0])
    assert state.signals.sampled_at("cpu")[0] == -np.inf


def test_a_reading_from_the_future_counts_as_of_now_and_shares_end_at_one() -> None:
    state = fleet(a=["n1"], now=50.0)
    state.put_reading("a", Reading("n1", cpu=7.0, cpu_age_s=-100.0))
    assert (state.signals.used("cpu")[0], state.signals.sampled_at("cpu")[0]) == (1.0, 50.0)


def test_an_older_sample_does_not_replace_a_newer_one() -> None:
    state = fleet(a=["n1"])
    state.put_reading("a", reading("n1", cpu=0.5, age=1))
    state.put_reading("a", reading("n1", cpu=0.1, age=30))
    assert state.signals.used("cpu")[0] == np.float32(0.5)


def test_recent_counts_a_pod_until_a_reading_was_taken_after_it_came() -> None:
    state = fleet(a=["n1"], now=100.0)
    state.place(("a", "u"), pod().cpu(1).placed(), "a", "n1", assumed=True)
    state.now = 110.0
    state.put_reading("a", reading("n1", cpu=0.2, age=20))
    assert state.recent[0, 0] == 1000
    state.put_reading("a", reading("n1", cpu=0.2, age=5))
    assert state.recent[0, 0] == 0
    assert state.recent[1, 0] > 0, "memory was not read yet"
    state.remove(("a", "u"))
    assert state.recent[:, 0].tolist() == [0, 0]


def test_a_pod_first_seen_running_has_its_load_in_the_readings_already() -> None:
    state = fleet(a=["n1"])
    put(state, pod("runs").on("n1"), "a", "n1")
    assert state.recent[0, 0] == 0
    put(state, pod("starts").on("n1", "Pending"), "a", "n1")
    assert state.recent[0, 0] == 100


def test_labels_become_codes_and_follow_their_nodes() -> None:
    state = fleet(a=[node("n1").labels(tier="gold"), node("n2")])
    assert [state.label_values("tier")[code] if code >= 0 else None for code in state.label("tier")] == ["gold", None]
    state.put_node("a", node("n2").labels(tier="silver").build())
    assert state.label_values("tier")[state.label("tier")[1]] == "silver"
    assert state.label("nobody-has-it").tolist() == [-1, -1]


def test_regions_zones_and_racks_are_known_without_a_look_at_any_node() -> None:
    columns = LabelColumns(lambda row: "ab"[row // 2], lambda: np.array([0, 0, 1], dtype=np.int32))
    nodes = [Node("n1", labels={ZONE: "x", RACK: "r1", "tier": "gold"}), Node("n2", labels={REGION: "r", RACK: "r1"})]
    columns.add([0, 2], nodes)
    asked = ((ZONE, False), (REGION, False), (RACK, False), (RACK, True), (ZONE, True), ("tier", False))
    told = [columns.codes(key, [None, None, None], scoped=scoped).tolist() for key, scoped in asked]
    assert told == [[0, -1, -1], [-1, -1, 0], [0, -1, 0], [0, -1, 1], [0, -1, -1], [-1, -1, -1]]
    assert list(columns.values(RACK, [], scoped=True)) == ["a/r1", "b/r1"]


def test_metrics_are_numbers_where_nodes_tell_them_and_follow_their_nodes() -> None:
    state = fleet(a=[Node("n1", metrics={"watts": 120.5}), Node("n2")])
    assert np.array_equal(state.metric("watts"), [120.5, np.nan], equal_nan=True)
    state.put_node("a", Node("n2", metrics={"watts": 7}))
    state.put_node("b", Node("n3", metrics={"watts": 1}))
    assert state.metric("watts").tolist() == [120.5, 7, 1]
    state.remove_node("a", "n1")
    assert np.array_equal(state.metric("watts"), [np.nan, 7, 1], equal_nan=True)
    assert np.isnan(state.metric("nobody tells it")).all()


def test_domains_of_cluster_and_host_need_no_label() -> None:
    state = fleet(a=["n1"], b=["n1"])
    assert [state.domain_values("cluster")[code] for code in state.domain("cluster")] == ["a", "b"]
    assert [state.domain_values("host")[code] for code in state.domain("kubernetes.io/hostname")] == ["a/n1", "b/n1"]


def test_domains_may_lie_each_within_one_cluster() -> None:
    state = fleet(a=[node("n1").labels(zone="x")], b=[node("n1").labels(zone="x"), node("n2")])
    scoped = within_cluster("topology.kubernetes.io/zone")
    assert len(set(state.domain("zone")[:2].tolist())) == 1
    assert state.domain(scoped).tolist() == [0, 1, -1]
    put(state, pod("p1").labels(app="web"), "b", "n1")
    asked = pod("q").labels(app="web").build()
    assert view_of(state).topology.count_matching(asked, None, scoped).tolist() == [0, 1]
    state.put_node("b", node("n2").labels(zone="y").build())
    state.put_node("b", node("n1").labels(zone="y").build())
    assert [state.domain_values(scoped)[code] for code in state.domain(scoped)] == ["a/x", "b/y", "b/y"]
    assert view_of(state).topology.count_matching(asked, None, scoped).tolist() == [0, 0, 1]
    state.remove_node("b", "n1")
    assert state.domain(scoped).tolist() == [0, -1, 2]
    assert [within_cluster(key) for key in ("cluster", "host", scoped)] == ["cluster", "host", scoped]


def test_equal_taints_share_a_set() -> None:
    state = fleet(a=[node("n1").taint("k"), node("n2").taint("k"), node("n3")])
    assert state.taint_set[0] == state.taint_set[1] != state.taint_set[2]
    assert state.taint_sets[state.taint_set[2]] == ()


def test_matching_pods_are_counted_per_domain_over_all_clusters() -> None:
    state = fleet(a=[node("n1").labels(zone="x")], b=[node("n1").labels(zone="x"), node("n2").labels(zone="y")])
    asked = pod("q").labels(app="web").build()
    put(state, pod("p1").labels(app="web"), "a", "n1")
    assert view_of(state).topology.count_matching(asked, None, "zone").tolist() == [1, 0]
    put(state, pod("p2").labels(app="web", **{"pod-template-hash": "123"}), "b", "n1")
    put(state, pod("p3").labels(app="other"), "b", "n2")
    put(state, pod("p4").labels(app="web").namespace("elsewhere"), "b", "n2")
    put(state, pod("p5").labels(app="web").set(terminating=True), "b", "n2")
    assert view_of(state).topology.count_matching(asked, None, "zone").tolist() == [2, 0]
    assert view_of(state).topology.count_matching(asked, selector(app="other"), "zone").tolist() == [0, 1]
    assert view_of(state).topology.count_matching(asked, None, "cluster").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        pytest.param(selector(app="web"), ["p1"], id="a label that tells an app"),
        pytest.param(LabelSelector({}, (Requirement("app", IN, ("web", "db")),)), ["p1", "p2"], id="one of several"),
        pytest.param(selector(a="x", app="db"), ["p2"], id="a label of many apps and one of few"),
        pytest.param(selector(part="1", **{"job-name": "1"}), ["p1"], id="a label that does not, and one that does"),
        pytest.param(selector(**{"pod-template-hash": "1"}), ["p1", "p2"], id="a label that does not"),
    ],
)
def test_pods_of_other_apps_are_not_asked_whether_they_are_of_a_set(wanted: LabelSelector, asked: list[str]) -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    put(state, pod("p1").labels(a="x", app="web", part="1", **{"pod-template-hash": "1"}), "a", "n1")
    put(state, pod("p2").labels(a="x", app="db"), "a", "n1")
    put(state, pod("p3").labels(app="web").namespace("elsewhere"), "a", "n1")
    found, seen = pods_in("default", wanted), list[str]()

    def noted(one: Pod, *_: object) -> bool:
        seen.append(one.name)
        return False

    state.count_in(replace(found, matches=noted), "zone")
    assert seen == asked


def refuse_to_be_asked(one: Pod, *_: object) -> bool:
    raise AssertionError(f"pod {one.name} is of another app")


def test_a_pod_that_gets_other_labels_where_it_is_counts_by_these_and_takes_what_it_took() -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    state.place(("a", "u"), pod("p").labels(app="web").cpu(1).placed(), "a", "n1", assumed=True)

    numbers = itertools.count()

    def members(**labels: str) -> list[int]:
        known = state.counted(state.count_in(pods_in("default", selector(**labels)), "zone"))
        made_anew = LabelSelector(labels, (Requirement(f"absent-{next(numbers)}", NOT_EXISTS),))
        assert state.counted(state.count_in(pods_in("default", made_anew), "zone")).tolist() == known.tolist()
        return [int(one) for one in known]

    assert (members(app="web"), members(app="db")) == ([1], [0])
    taken = state.requested[:, 0].tolist(), state.recent[:, 0].tolist()
    before = state.loads.position
    state.place(("a", "u"), pod("p").labels(app="db").cpu(1).on("n1", "Pending").placed(), "a", "n1", assumed=False)
    assert (members(app="web"), members(app="db")) == ([0], [1])
    assert (state.requested[:, 0].tolist(), state.recent[:, 0].tolist()) == taken
    assert state.loads.position > before, "who has asked pods of that node for their labels asks again"
    nobody = replace(pods_in("default", selector(app="web")), name=("none of web",), matches=refuse_to_be_asked)
    assert state.counted(state.count_in(nobody, "zone")).tolist() == [0]
    state.remove(("a", "u"))
    assert members(app="db") == [0]
    assert state.recent[:, 0].tolist() == [0, 0]


def test_an_app_is_forgotten_with_its_last_pod_and_known_again_with_the_next() -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    for number in range(2):
        seated = put(state, pod(f"p{number}").labels(app="web"), "a", "n1")
        made_anew = LabelSelector({"app": "web"}, (Requirement(f"absent-{number}", NOT_EXISTS),))
        assert state.counted(state.count_in(pods_in("default", made_anew), "zone")).tolist() == [1]
        assert state.remove(("a", seated.uid))


def test_counts_follow_a_node_to_another_zone() -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    asked = put(state, pod("p1").labels(app="web"), "a", "n1")
    assert view_of(state).topology.count_matching(asked, None, "zone").tolist() == [1]
    state.put_node("a", node("n1").labels(zone="y").build())
    assert view_of(state).topology.count_matching(asked, None, "zone").tolist() == [0, 1]
    state.put_node("a", node("n1").build())
    assert view_of(state).topology.count_matching(asked, None, "zone").tolist() == [0, 0]


def test_host_ports_are_taken_and_given_back() -> None:
    state = fleet(a=["n1"])
    put(state, pod("p1").port(80), "a", "n1")
    put(state, pod("p2").port(80, ip="10.0.0.1"), "a", "n1")
    assert state.ports_taken(0) == {("TCP", 80): ["0.0.0.0", "10.0.0.1"]}
    state.remove(("a", "uid-p1"))
    assert state.ports_taken(0) == {("TCP", 80): ["10.0.0.1"]}
    state.remove(("a", "uid-p2"))
    assert state.rows_with_ports() == []


def test_what_a_cluster_has_free_leaves_out_cordoned_and_broken_nodes() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cordoned(), node("n3").ready(False)], b=["n1"])
    put(state, pod().cpu("1500m"), "a", "n1")
    assert state.free_total("a")["cpu"] == 2500
    assert state.free_total("nowhere")["cpu"] == 0


def test_the_total_to_share_counts_ready_clusters_only() -> None:
    state = fleet(a=[node("n1").cpu(4)], b=[node("n1").cpu(6)])
    assert state.allocatable_total()["cpu"] == 10_000
    state.set_cluster("b", ready=False, synced=True)
    assert state.allocatable_total()["cpu"] == 4000


def test_the_total_to_share_follows_nodes_that_come_change_and_go() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4)], b=[node("n1").cpu(6)])
    assert state.allocatable_total()["cpu"] == 14_000
    state.put_node("a", node("n1").cpu(2).resource("nvidia.com/gpu", 3).build())
    assert [state.allocatable_total()[name] for name in ("cpu", "nvidia.com/gpu")] == [12_000, 3]
    state.put_nodes("b", [node(f"n{number}").cpu(1).build() for number in range(20)])
    assert state.allocatable_total()["cpu"] == 26_000
    state.put_nodes("b", [node(f"n{number}").cpu(2).build() for number in range(20)])
    assert state.allocatable_total()["cpu"] == 46_000
    state.remove_node("a", "n2")
    assert state.allocatable_total()["cpu"] == 42_000


def test_the_total_of_a_part_follows_labels_clusters_and_nodes() -> None:
    parts = ("cpu@a", "cpu@gpu=H100", "cpu@b,gpu=H100", "example.com/gpu@a", "cpu@gpu=none")
    state = fleet(a=[node("n1").cpu(4).labels(gpu="H100"), node("n2").cpu(3)], b=[node("n1").cpu(6).labels(gpu="H100")])

    def seen() -> list[int]:
        totals = state.allocatable_total(parts)
        assert totals["cpu"] == state.allocatable_total()["cpu"]
        return [totals[key] // 1000 for key in parts]

    assert seen() == [7, 10, 6, 0, 0]
    state.put_node("a", node("n2").cpu(3).labels(gpu="H100").resource("example.com/gpu", 2000).build())
    assert seen() == [7, 13, 6, 2, 0]
    state.set_cluster("b", ready=False, synced=True)
    assert seen() == [7, 7, 0, 2, 0]
    state.remove_node("a", "n1")
    assert seen() == [3, 3, 0, 2, 0]


def test_a_changed_node_costs_the_total_to_share_no_look_at_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    state, looked = fleet(a=["n1", "n2"], b=["n1", "n2", "n3"]), list[int]()
    state.allocatable_total()

    def noted(values: Any) -> list[int]:
        looked.append(values.shape[1])
        return exact_sums(values)

    monkeypatch.setattr(nodes, "exact_sums", noted)
    state.put_node("a", node("n1").cpu(2).build())
    state.allocatable_total()
    state.set_cluster("b", ready=False, synced=True)
    state.allocatable_total()
    assert looked == [2]


def test_totals_of_absurd_nodes_do_not_wrap() -> None:
    state = fleet(a=[node(f"n{index}").memory(MAX_QUANTITY) for index in range(5)])
    assert state.allocatable_total()["memory"] == MAX_QUANTITY


def test_many_nodes_keep_their_values_while_columns_grow() -> None:
    state = FleetState()
    for index in range(100):
        state.put_node("a", node(f"n{index}").cpu(index + 1).build())
    assert state.allocatable[0].tolist() == [1000 * (index + 1) for index in range(100)]


def test_a_removed_unknown_pod_or_node_is_no_error() -> None:
    state = fleet(a=["n1"])
    assert not state.remove(("a", "nobody"))
    state.remove_node("a", "nothing")
    assert list(state.node_names("a")) == ["n1"]


def test_running_pods_of_a_template_hold_its_labels_and_requests_once() -> None:
    state = fleet(a=["n1"])
    ones = [put(state, pod(f"p{at}").cpu("500m").labels(app="web"), "a", "n1") for at in range(3)]
    other = put(state, pod("other").cpu("250m").labels(app="web"), "a", "n1")
    assert len({id(one.labels) for one in (*ones, other)}) == 1
    assert [one.requests is ones[0].requests for one in (*ones, other)] == [True, True, True, False]
    assert (other.requests, other.labels) == ({"cpu": 250}, {"app": "web"})


def test_running_pods_of_the_same_second_hold_its_number_once() -> None:
    state = fleet(a=["n1"])
    times = [(float("1700000000"), float(f"170000000{at}")) for at in (0, 1, 1)]
    ones = [
        put(state, msgspec.structs.replace(pod(f"p{at}").build(), created=created, started=started), "a", "n1")
        for at, (created, started) in enumerate(times)
    ]
    assert len({id(time) for one in ones for time in (one.created, one.started)}) == 2
    assert [(one.created, one.started) for one in ones] == times


def test_pods_on_a_node_are_known_by_its_name_before_it_comes_and_after_it_has_gone() -> None:
    state = fleet(a=["n1", "n2"])
    put(state, pod("first"), "a", "n3")

    def there() -> list[str]:
        return [one.pod_info.pod.name for one in state.occupants_on("a", "n3")]

    assert there() == ["first"]
    state.put_node("a", node("n3").build())
    put(state, pod("second"), "a", "n3")
    assert there() == ["first", "second"]
    state.remove_node("a", "n3")
    state.put_node("a", node("n4").build())  # on the row that came free
    assert there() == ["first", "second"]
    assert state.occupants_on("a", "n4") == ()


def test_rows_stand_in_the_order_of_their_nodes_names_also_after_a_row_has_another_node() -> None:
    state = fleet(b=["n3", "n1"], a=["n2"])
    names = [state.name_of(row) for row in np.argsort(state.by_name())]
    assert names == [("a", "n2"), ("b", "n1"), ("b", "n3")]
    state.remove_node("b", "n3")
    state.put_node("a", node("n0").build())
    names = [state.name_of(row) for row in np.argsort(state.by_name()) if state.live[row]]
    assert names == [("a", "n0"), ("a", "n2"), ("b", "n1")]
