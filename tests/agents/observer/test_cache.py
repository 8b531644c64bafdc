"""The cache: what it keeps, what it counts, and that it never goes back in time."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.observer.cache import MAX_WARNINGS, ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.seen import NODES, PODS, InvalidAnnotation, NodeSeen, PodSeen, WrongSchedulerName
from shared.model import names
from shared.model.node import Node
from shared.model.pod import PENDING, RUNNING, SUCCEEDED, Claim, HostPort, Needs, Pod, SourceRef


def a_node(name: str = "n1", cpu: int = 4000) -> NodeSeen:
    return NodeSeen(Node(name, ready=True, allocatable={"cpu": cpu, "pods": 10}), version=1)


def a_pod(uid: str, version: int = 1, *, node: str = "n1", cpu: int = 100, phase: str = RUNNING) -> PodSeen:
    pod = Pod(uid, "default", f"pod-{uid}", requests={"cpu": cpu}, node=node, phase=phase, ports=(HostPort(80),))
    return PodSeen(uid, version, pod)


def later(seen: PodSeen, **fields: Any) -> PodSeen:
    """The same pod at its next version, with these fields of it changed."""
    assert seen.pod is not None
    return PodSeen(seen.uid, seen.version + 1, msgspec.structs.replace(seen.pod, **fields))


def cache_of(*seen: NodeSeen | PodSeen) -> ClusterCache:
    """A cache that has listed and holds these."""
    cache = ClusterCache(ChangeLog())
    for kind in (NODES, PODS):
        cache.begin(kind)
        cache.page(kind, [one for one in seen if isinstance(one, NodeSeen) == (kind == NODES)])
        cache.end(kind)
    return cache


def test_free_is_allocatable_minus_what_has_not_ended() -> None:
    cache = cache_of(a_node(), a_pod("a", cpu=1500), a_pod("b", cpu=500), a_pod("c", cpu=700, phase=SUCCEEDED))
    assert cache.free("n1") == {"cpu": 2000, "pods": 8}
    assert cache.free("unknown") == {}


@pytest.mark.parametrize("before", [Needs(), Needs("spec.hostNetwork"), None])
def test_what_a_pod_would_need_elsewhere_is_told_on_of_one_that_was_seen_to_wait(before: Needs | None) -> None:
    waiting = later(a_pod("a", node="", phase=PENDING), needs=before)
    cache = cache_of(a_node(), waiting)
    for fields in ({"node": "n1"}, {"node": "n1", "phase": RUNNING}):
        waiting = later(waiting, needs=None, **fields)
        cache.apply(waiting)
    shown = cache.pod("a")
    assert shown is not None
    assert (shown.needs, shown.phase) == (before, RUNNING)


def test_a_pod_that_ends_gives_its_room_and_ports_back_but_stays_known() -> None:
    cache = cache_of(a_node(), a_pod("a", cpu=1500))
    assert cache.ports_on("n1") == [HostPort(80)]
    cache.apply(a_pod("a", 2, cpu=1500, phase=SUCCEEDED))
    assert (cache.free("n1"), cache.ports_on("n1")) == ({"cpu": 4000, "pods": 10}, [])
    assert [pod.uid for pod in cache.pods_on("n1")] == ["a"]


def test_a_pod_that_waits_for_its_place_is_urgent_and_one_that_has_it_is_not() -> None:
    cache = cache_of(a_node())
    cache.apply(a_pod("a", 2, node=""))
    asked = cache.log.revision
    assert cache.log.urgent == asked
    cache.apply(a_pod("a", 3))
    cache.forget(PODS, "a")
    assert cache.log.urgent == asked < cache.log.revision


_ORDERED = {names.EPOCH: "1"}
SHOWN_ON_A_NODE: dict[str, tuple[dict[str, Any], bool]] = {
    "as ordered": ({}, False),
    "by somebody else": ({"annotations": {}}, True),
    "claimed for another cluster": ({"claim": Claim("west", "n1", 1)}, True),
    "a delegate": ({"source": SourceRef("east", "uid", "default", "pod", "u", 1)}, True),
    "already running": ({"phase": RUNNING}, True),
    "about to be deleted": ({"terminating": True}, True),
    "still on none": ({"node": "", "labels": {"a": "b"}}, True),
}


@pytest.mark.parametrize(("fields", "unexpected"), SHOWN_ON_A_NODE.values(), ids=SHOWN_ON_A_NODE.keys())
def test_a_pod_that_shows_where_it_was_ordered_to_is_expected(fields: dict[str, Any], unexpected: bool) -> None:
    waiting = a_pod("a", 1, node="", phase=PENDING)
    cache = cache_of(a_node(), waiting)
    before = cache.log.revision
    cache.apply(later(waiting, **{"node": "n1", "annotations": _ORDERED, **fields}))
    assert (cache.log.revision, cache.log.unexpected) == (before + 1, before + unexpected)


def test_what_comes_after_a_confirmation_is_unexpected() -> None:
    waiting = a_pod("a", 1, node="", phase=PENDING)
    cache = cache_of(a_node(), waiting)
    cache.apply(later(waiting, node="n1", annotations=_ORDERED))
    cache.forget(PODS, "a")
    assert cache.log.unexpected == cache.log.revision


def test_an_older_version_of_an_object_is_ignored() -> None:
    cache = cache_of(a_node(), a_pod("a", 5, phase=SUCCEEDED))
    cache.apply(a_pod("a", 4, phase=RUNNING))
    pod = cache.pod("a")
    assert pod is not None
    assert pod.phase == SUCCEEDED


def test_an_older_version_counts_once_the_server_was_restored() -> None:
    cache = cache_of(a_node(), a_pod("a", 5, cpu=100))
    cache.begin(PODS, forget_versions=True)
    cache.page(PODS, [a_pod("a", 2, cpu=300)])
    cache.end(PODS)
    assert cache.free("n1")["cpu"] == 3700


def test_a_list_that_shows_an_object_older_than_it_was_known_is_taken_and_says_so() -> None:
    cache = cache_of(a_node(), a_pod("a", 5, cpu=100), a_pod("b", 6))
    cache.begin(PODS)
    assert cache.page(PODS, [a_pod("b", 6)]) is None
    assert cache.page(PODS, [a_pod("a", 2, cpu=300)]) == (5, 2)
    cache.end(PODS)
    assert cache.free("n1")["cpu"] == 3600


def test_objects_are_counted_also_where_they_are_not_kept() -> None:
    cache = cache_of(a_node(), a_pod("a"), PodSeen("foreign", 2))
    assert (cache.count(NODES), cache.count(PODS)) == (1, 2)
    cache.forget(PODS, "foreign")
    assert cache.count(PODS) == 1
    cache.begin(PODS, forget_versions=True)
    cache.page(PODS, [a_pod("b"), a_pod("c")])
    cache.end(PODS)
    assert cache.count(PODS) == 2


def test_an_equal_object_is_no_change() -> None:
    cache = cache_of(a_node(), a_pod("a", 5))
    before = cache.log.revision
    cache.apply(a_pod("a", 6))
    cache.apply(a_node())
    assert cache.log.revision == before


def test_a_list_buries_what_it_does_not_hold() -> None:
    cache = cache_of(a_node(), a_pod("a"), a_pod("b"))
    cache.begin(PODS)
    cache.page(PODS, [a_pod("b")])
    cache.end(PODS)
    assert (cache.pod("a"), cache.pod_by_name("default", "pod-a")) == (None, None)
    assert cache.free("n1")["pods"] == 9


def test_a_pod_made_again_under_the_same_name_is_another_pod() -> None:
    cache = cache_of(a_node(), a_pod("a"))
    again = PodSeen("a2", 7, Pod("a2", "default", "pod-a", node="n1"))
    cache.apply(again)
    cache.forget(PODS, "a")
    found = cache.pod_by_name("default", "pod-a")
    assert found is not None
    assert found.uid == "a2"


def test_a_pod_that_nobody_needs_any_more_is_dropped() -> None:
    cache = cache_of(a_node(), a_pod("a"))
    cache.apply(PodSeen("a", 2, None))
    assert cache.pod("a") is None
    assert cache.free("n1")["pods"] == 10


def invalid_annotation(text: str, uid: str = "u") -> InvalidAnnotation:
    return InvalidAnnotation(uid, "default", "p", "AnnotationNotUnderstood", text)


def test_each_text_about_a_pod_is_told_once_while_the_pod_is_there() -> None:
    cache = cache_of()
    for version, texts in ((1, ("one", "two")), (2, ("one",)), (3, ("three", "one"))):
        cache.apply(PodSeen("u", version, None, None, tuple(map(invalid_annotation, texts))))
    assert [one.text for one in cache.take_warnings()] == ["one", "two", "three"]  # type: ignore[union-attr]
    cache.forget(PODS, "u")
    cache.apply(PodSeen("u", 4, None, None, (invalid_annotation("one"),)))
    assert cache.take_warnings() == [invalid_annotation("one")]


def test_warnings_are_bounded_by_pod_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.observer.cache.MAX_WARNED", 4)
    cache = cache_of()
    for pod in range(5):
        texts = (replace(invalid_annotation(f"text {number}", f"u{pod}"), namespace=f"n{pod}") for number in range(40))
        cache.apply(PodSeen(f"u{pod}", 1, None, None, tuple(texts)))
    assert len(cache.take_warnings()) == 4 * MAX_WARNINGS


def test_pods_of_one_namespace_leave_warnings_to_others_and_give_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.observer.cache.MAX_WARNED", 8)
    cache = cache_of()

    def misplaced(uid: str, namespace: str) -> None:
        cache.apply(PodSeen(uid, 1, None, WrongSchedulerName(uid, namespace, "p", "other")))

    for at in range(9):
        misplaced(f"evil{at}", "evil")
    misplaced("good", "good")
    assert [one.uid for one in cache.take_warnings()] == ["evil0", "evil1", "good"]
    cache.forget(PODS, "evil0")
    misplaced("evil9", "evil")
    misplaced("evil10", "evil")
    assert [one.uid for one in cache.take_warnings()] == ["evil9"]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("west,eats", ["'eats': no such cluster is known here, so the pod goes to the others", "did you mean 'east'?"]),
        ("west,x", ["'x': no such cluster is known here", "known: east, home, west"]),
        ("home,west", []),
        ("eats", []),
    ],
    ids=["a typo", "a stranger", "all are known", "none is known: the pod waits and is told why"],
)
def test_a_list_of_clusters_is_compared_with_those_that_are_known(wanted: str, says: list[str]) -> None:
    cache = cache_of()
    cache.apply(PodSeen("u", 1, Pod("u", "default", "p", annotations={names.CLUSTERS: wanted})))
    assert cache.take_warnings("home") == []  # no other cluster is known yet
    for name in ("west", "east"):
        cache.apply(NodeSeen(Node(names.proxy_node_name(name), proxy_for=name), 1))
    told = [one.text for one in cache.take_warnings("home") if isinstance(one, InvalidAnnotation)]
    assert len(told) == (1 if says else 0)
    assert all(part in told[0] for part in says)
    assert cache.take_warnings("home") == []


def test_an_unknown_cluster_is_told_of_a_pod_that_got_its_place_before_anybody_looked() -> None:
    cache = cache_of()
    cache.apply(NodeSeen(Node(names.proxy_node_name("west"), proxy_for="west"), 1))
    waiting = PodSeen("u", 1, Pod("u", "default", "p", annotations={names.CLUSTERS: "west,eats"}))
    cache.apply(waiting)
    cache.apply(later(waiting, node=names.proxy_node_name("west")))
    assert len(cache.take_warnings("home")) == 1


@pytest.mark.parametrize(
    ("near", "says"),
    [("cluster/wset", ["'wset': no such cluster is known here", "did you mean 'west'?"]), ("cluster/west", [])]
    + [(other, []) for other in ("cluster/home", "zone/wset", "service/shop/db", "clustr/wset")],
)
def test_a_cluster_to_be_near_to_that_is_unknown_is_told(near: str, says: list[str]) -> None:
    cache = cache_of()
    cache.apply(NodeSeen(Node(names.proxy_node_name("west"), proxy_for="west"), 1))
    cache.apply(PodSeen("u", 1, Pod("u", "default", "p", annotations={names.NEAR: near})))
    told = [one.text for one in cache.take_warnings("home") if isinstance(one, InvalidAnnotation)]
    assert len(told) == (1 if says else 0)
    assert all(part in told[0] for part in says)


def test_a_pod_that_was_first_seen_in_its_place_is_not_warned_about() -> None:
    cache = cache_of()
    cache.apply(NodeSeen(Node(names.proxy_node_name("west"), proxy_for="west"), 1))
    cache.apply(PodSeen("u", 1, Pod("u", "default", "p", node="n1", annotations={names.CLUSTERS: "west,eats"})))
    assert cache.take_warnings("home") == []


def test_a_misplaced_pod_is_warned_about_once() -> None:
    cache = cache_of()
    misplaced = WrongSchedulerName("u", "default", "p", "other")
    for version in (1, 2):
        cache.apply(PodSeen("u", version, None, misplaced))
    assert cache.take_warnings() == [misplaced]
    assert cache.take_warnings() == []


@pytest.mark.parametrize("listed", [(), (NODES,), (PODS,)])
def test_synced_needs_both_lists(listed: tuple[str, ...]) -> None:
    cache = ClusterCache(ChangeLog())
    for kind in listed:
        cache.begin(kind)
        cache.end(kind)
    assert not cache.synced


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["n1", "n2", ""]),
        st.integers(0, 500),
        st.sampled_from([RUNNING, SUCCEEDED, "gone"]),
    ),
    max_size=30,
)


@given(STEPS)
def test_running_totals_equal_a_fresh_count(steps: list[tuple[str, str, int, str]]) -> None:
    cache = cache_of(a_node("n1"), a_node("n2"))
    for version, (uid, node, cpu, phase) in enumerate(steps, start=1):
        if phase == "gone":
            cache.forget(PODS, uid)
        else:
            cache.apply(a_pod(uid, version, node=node, cpu=cpu, phase=phase))
    for node in ("n1", "n2"):
        running = [pod for pod in cache.pods() if pod.node == node and not pod.terminal]
        used = sum(pod.requests["cpu"] for pod in running)
        assert cache.free(node) == {"cpu": 4000 - used, "pods": 10 - len(running)}


def test_a_pod_that_shows_on_a_node_is_told_at_once_also_if_it_goes_with_the_next_event() -> None:
    """What was booked for it is given back then: who looks later finds neither the pod nor a reason to wait for it."""
    cache, told = ClusterCache(ChangeLog()), list[tuple[str, str]]()
    cache.on_bound = lambda namespace, name: told.append((namespace, name))
    cache.apply(PodSeen("u", 1, Pod("u", "default", "copy")))
    assert told == []
    cache.apply(PodSeen("u", 2, Pod("u", "default", "copy", node="n1")))
    cache.forget(PODS, "u")
    assert told == [("default", "copy")]


WEST = names.proxy_node_name("west")
MACHINE, PROXY = NodeSeen(Node(WEST, ready=True), 1), NodeSeen(Node(WEST, ready=True, proxy_for="west"), 1)


@pytest.mark.parametrize(
    ("seen", "at_home"),
    [
        pytest.param([MACHINE, a_pod("u", node=WEST)], True, id="a machine that is named as proxy nodes are"),
        pytest.param([a_pod("u", node=WEST), MACHINE], True, id="and shows after its pod"),
        pytest.param([PROXY, a_pod("u", node=WEST)], False, id="a proxy node"),
        pytest.param([a_pod("u", node=WEST)], False, id="a node that is not seen"),
        pytest.param([MACHINE, a_pod("u", node=WEST), PROXY], False, id="a machine made way for a proxy node"),
        pytest.param([a_node(), a_pod("u")], False, id="any other node, whose name says so"),
    ],
)
def test_a_pod_is_told_to_run_at_home_on_a_machine_that_is_named_as_proxy_nodes_are(
    seen: list[NodeSeen | PodSeen], at_home: bool
) -> None:
    cache = cache_of()
    for one in seen:
        cache.apply(one)
    pod = cache.pod("u")
    assert pod is not None
    assert pod.at_home is at_home
    assert cache.pods_on(pod.node) == [pod]


def test_a_pod_whose_machine_went_first_ran_at_home_all_the_same() -> None:
    cache = cache_of(MACHINE, a_pod("u", node=WEST))
    cache.forget(NODES, WEST)
    cache.apply(later(a_pod("u", node=WEST), terminating=True))
    pod = cache.pod("u")
    assert pod is not None
    assert (pod.terminating, pod.at_home) == (True, True)


def test_a_delegate_that_is_shown_again_without_its_size_weighs_as_much_as_before() -> None:
    source = SourceRef("west", "west-uid", "default", "web", "source-uid", 7)
    made = later(a_pod("a"), source=source)
    cache = cache_of(msgspec.structs.replace(made, size=1000))
    cache.apply(made)
    assert cache.foreign_bytes("west") == 1000
