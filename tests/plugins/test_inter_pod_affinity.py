"""Required terms: kube-scheduler's published cases for InterPodAffinity's filter, restated, and those of a fleet."""

from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Skip
from dispatcher.scheduling.framework.hints import ClusterEvent
from shared.model.labels import LabelSelector
from shared.model.names import AFFINITY_FROM_OTHERS, DOMAIN_SCOPE
from shared.model.objects import Namespace
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, put, selector
from tests.plugins.asking import make, reasons, refused
from tests.plugins.placements import Seats, clause, clauses, having, into, one, placed_on

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

SCAN, SECURE = {"service": "securityscan"}, {"security": "S1"}
SCANS = into("service", "securityscan", "value2")
VIRUS = into("service", "antivirusscan", "value2")
TEAM1 = into("team", "team1")
A_SCAN: Seats = [(one(**SCAN), "n1")]

# id -> (pod, placed on n1 (region r1, zone z11), reason)
ONE_NODE: dict[str, tuple[PodBuilder, Seats, str]] = {
    "no rules anywhere": (one(), [], ""),
    "In matches the placed pod": (one(**SECURE).near("region", SCANS), A_SCAN, ""),
    "NotIn matches the placed pod": (
        one(**SECURE).near("region", clause("service", "NotIn", "securityscan3", "value3")),
        A_SCAN,
        "",
    ),
    "another namespace": (
        one(**SECURE).near("region", SCANS, namespaces=("other",)),
        [(one(**SCAN).namespace("ns"), "n1")],
        AFFINITY,
    ),
    "no label matches": (one(**SCAN).near("region", VIRUS), A_SCAN, AFFINITY),
    "a term without a selector matches no pod": (one(**SCAN).near("region", None), A_SCAN, AFFINITY),
    "all terms by the same pod": (
        one(**SECURE).near(
            "region",
            clauses(having("service"), clause("wrongkey", "DoesNotExist")),
            clauses(into("service", "securityscan"), clause("service", "NotIn", "WrongValue")),
        ),
        A_SCAN,
        "",
    ),
    "one clause of one term fails": (
        one(**SECURE).near(
            "region",
            clauses(having("service"), clause("wrongkey", "DoesNotExist")),
            clauses(into("service", "securityscan2"), clause("service", "NotIn", "WrongValue")),
        ),
        A_SCAN,
        AFFINITY,
    ),
    "affinity and anti-affinity both hold": (
        one(**SECURE).near("region", SCANS).away("host", VIRUS),
        A_SCAN,
        "",
    ),
    "and the placed pod's anti-affinity too": (
        one(**SECURE).near("region", SCANS).away("host", VIRUS),
        [(one(**SCAN).away("host", VIRUS), "n1")],
        "",
    ),
    "affinity holds, anti-affinity does not": (
        one(**SECURE).near("region", SCANS).away("zone", SCANS),
        A_SCAN,
        ANTI,
    ),
    "both hold, the placed pod's anti-affinity does not": (
        one(**SCAN).near("region", SCANS).away("host", VIRUS),
        [(one(**SCAN).away("zone", SCANS), "n1")],
        EXISTING,
    ),
    "neither the pod itself nor the placed one is meant": (
        one(**SCAN).near("region", clause("service", "NotIn", "securityscan", "value2")),
        [(one(**SCAN), "n2")],
        AFFINITY,
    ),
    "a pod without rules meets a placed pod's anti-affinity": (
        one(**SCAN),
        [(one(**SCAN).away("zone", SCANS), "n1")],
        EXISTING,
    ),
    "a pod without rules is not meant by it": (
        one(**SCAN),
        [(one(**SCAN).away("zone", clause("service", "NotIn", "securityscan", "value2")), "n1")],
        "",
    ),
    "its own anti-affinity is told before the placed pod's": (
        one(**SCAN).away("region", having("service"), having("security")),
        [(one(**SECURE).away("zone", having("security")), "n1")],
        ANTI,
    ),
    "one of two terms matches the placed pod": (
        one(**SCAN).away("zone", having("service"), having("security")),
        [(one(**SECURE).away("zone", having("security")), "n1")],
        ANTI,
    ),
    "one of two terms of the placed pod matches": (
        one(**SECURE).away("zone", having("security")),
        [(one(**SCAN).away("zone", having("service"), having("security")), "n1")],
        EXISTING,
    ),
    "each has a term that means the other": (
        one(abc="", xyz="").away("zone", having("abc"), having("def")),
        [(one(**{"def": "", "xyz": ""}).away("zone", having("abc"), having("def")), "n1")],
        ANTI,
    ),
    "namespace selector": (
        one(**SECURE).near("region", SCANS, namespace_selector=TEAM1),
        [(one(**SCAN).namespace("sub1.team1"), "n1")],
        "",
    ),
    "namespace selector of another team": (
        one(**SECURE).near("region", SCANS, namespace_selector=TEAM1),
        [(one(**SCAN).namespace("sub1.team2"), "n1")],
        AFFINITY,
    ),
    "namespaces beside a namespace selector": (
        one(**SECURE).near("region", SCANS, namespaces=("sub1.team2",), namespace_selector=TEAM1),
        [(one(**SCAN).namespace("sub1.team2"), "n1")],
        "",
    ),
    "anti-affinity by namespace selector": (
        one(**SECURE).namespace("sub1.team1").away("zone", SCANS, namespace_selector=TEAM1),
        [(one(**SCAN).namespace("sub2.team1"), "n1")],
        ANTI,
    ),
    "anti-affinity to all namespaces": (
        one(**SECURE).namespace("sub1.team1").away("zone", SCANS, namespace_selector=LabelSelector()),
        [(one(**SCAN).namespace("sub2.team1"), "n1")],
        ANTI,
    ),
    "anti-affinity to another team": (
        one(**SECURE).namespace("sub1.team1").away("zone", SCANS, namespace_selector=TEAM1),
        [(one(**SCAN).namespace("sub1.team2"), "n1")],
        "",
    ),
    "a placed pod's anti-affinity by namespace selector": (
        one(**SCAN).namespace("sub2.team1"),
        [(one(**SECURE).namespace("sub1.team2").away("zone", SCANS, namespace_selector=TEAM1), "n1")],
        EXISTING,
    ),
    "a placed pod's anti-affinity to another team": (
        one(**SCAN).namespace("sub2.team2"),
        [(one(**SECURE).namespace("sub1.team2").away("zone", SCANS, namespace_selector=TEAM1), "n1")],
        "",
    ),
    "a terminating pod still attracts": (
        one(**SECURE).near("region", SCANS),
        [(one(**SCAN).set(terminating=True), "n1")],
        "",
    ),
    "a terminating pod still repels": (
        one(**SCAN),
        [(one(**SCAN).away("zone", SCANS).set(terminating=True), "n1")],
        EXISTING,
    ),
}


@pytest.mark.parametrize("case", ONE_NODE)
def test_required_terms_on_one_node(case: str) -> None:
    asking, seats, why = ONE_NODE[case]
    state = placed_on({"n1": {"region": "r1", "zone": "z11"}}, seats)
    assert reasons(make("InterPodAffinity"), asking, state) == ({"n1": why} if why else {})


CHINA, INDIA = {"region": "China"}, {"region": "India"}
FOO, FOO_BAR = into("foo", "abc"), into("foo", "bar")
ZONES = {name: {"region": "r1", "zone": zone} for name, zone in {"A": "z1", "B": "z2", "C": "z3"}.items()}

# id -> (pod, placed, nodes, node -> reason)
MANY_NODES: dict[str, tuple[PodBuilder, Seats, dict[str, dict[str, str]], dict[str, str]]] = {
    "all nodes of the domain attract": (
        one(foo="abc").near("region", into("foo", "bar")),
        [(one(foo="bar"), "A")],
        {"A": CHINA, "B": {**CHINA, "az": "az1"}, "C": INDIA},
        {"C": AFFINITY},
    ),
    "the first of its kind may go anywhere": (
        one(foo="bar", service="securityscan").near("zone", FOO_BAR).near("zone", SCANS),
        [(one(foo="bar"), "A")],
        {"A": {"zone": "az1", "host": "h1"}, "B": {"zone": "az2", "host": "h2"}},
        {},
    ),
    "the first of its kind needs nodes with its keys": (
        one(foo="bar", service="securityscan").near("zone", FOO_BAR).near("zone", SCANS),
        [(one(foo="bar"), "A")],
        {"A": {"region": "az1"}, "B": {"region": "az2"}},
        {"A": AFFINITY, "B": AFFINITY},
    ),
    "a pod that is not of its own kind is never the first": (
        one(foo="bar").near("zone", FOO),
        [],
        {"A": {"zone": "az1"}},
        {"A": AFFINITY},
    ),
    "no longer the first once one of its kind is on a node with the key": (
        one(foo="abc").near("zone", FOO),
        [(one(foo="abc"), "A")],
        {"A": {"zone": "az1"}, "B": {"zone": "az2"}},
        {"B": AFFINITY},
    ),
    "still the first while those of its kind are on nodes without the key": (
        one(foo="abc").near("zone", FOO),
        [(one(foo="abc"), "A")],
        {"A": {}, "B": {"zone": "az2"}},
        {"A": AFFINITY},
    ),
    "anti-affinity to the domain": (
        one(foo="123").away("region", FOO),
        [(one(foo="abc"), "A")],
        {"A": CHINA, "B": {**CHINA, "zone": "z"}},
        {"A": ANTI, "B": ANTI},
    ),
    "any term of anti-affinity is enough": (
        one(foo="123").away("region", FOO).away("zone", into("service", "securityscan")),
        [(one(foo="abc"), "A"), (one(foo="bar", **SCAN), "B")],
        {"A": CHINA, "B": {"zone": "z"}, "C": {"zone": "y"}},
        {"A": ANTI, "B": ANTI},
    ),
    "anti-affinity to one of two domains": (
        one(foo="bar").away("region", FOO),
        [(one(foo="abc"), "A"), (one(foo="abc").namespace("other"), "C")],
        {"A": CHINA, "B": {**CHINA, "zone": "z"}, "C": INDIA},
        {"A": ANTI, "B": ANTI},
    ),
    "a placed pod's term with a key that its node lacks": (
        one(foo="", bar=""),
        [(one().away("invalid", having("foo")).away("zone", having("bar")), "A")],
        {"A": {"zone": "z1"}, "B": {"zone": "z2"}},
        {"A": EXISTING},
    ),
    "an own term with a key that the node lacks": (
        one().away("invalid", having("foo")).away("zone", having("bar")),
        [(one(foo="", bar=""), "A")],
        {"A": {"zone": "z1"}, "B": {"zone": "z2"}},
        {"A": ANTI},
    ),
    "selector and key count together, one key missing": (
        one(foo="", bar=""),
        [(one().away("invalid", having("foo")).away("zone", having("nope")), "A")],
        {"A": {"zone": "z1"}, "B": {"zone": "z2"}},
        {},
    ),
    "placed pods repel from every node": (
        one(foo="", bar=""),
        [(one().away("zone", having("foo")), "A"), (one().away("zone", having("bar")), "B")],
        {"A": {"region": "r1", "zone": "z1"}, "B": {"region": "r1", "zone": "z2"}},
        {"A": EXISTING, "B": EXISTING},
    ),
    "each node holds a pod that it shuns": (
        one().away("zone", having("foo")).away("zone", having("bar")),
        [(one(foo=""), "A"), (one(bar=""), "B")],
        {"A": {"region": "r1", "zone": "z1"}, "B": {"region": "r1", "zone": "z2"}},
        {"A": ANTI, "B": ANTI},
    ),
    "placed pods repel from two of three zones": (
        one(foo="", baz=""),
        [
            (one().away("zone", having("foo")).away("region", having("bar")), "A"),
            (one().away("zone", having("baz")), "B"),
        ],
        ZONES,
        {"A": EXISTING, "B": EXISTING},
    ),
    "a pod matches all terms, its node has all keys": (
        one().near("region", having("foo")).near("zone", having("bar")),
        [(one(foo="", bar=""), "A")],
        {"A": {"region": "r1", "zone": "z1"}, "B": {"region": "r1", "zone": "z2"}},
        {"B": AFFINITY},
    ),
    "two pods that match one term each attract nowhere": (
        one().near("region", having("foo")).near("zone", having("bar")),
        [(one(foo=""), "A"), (one(bar=""), "B")],
        {"A": {"region": "r1", "zone": "z1"}, "B": {"region": "r1", "zone": "z2"}},
        {"A": AFFINITY, "B": AFFINITY},
    ),
}


@pytest.mark.parametrize("case", MANY_NODES)
def test_required_terms_over_domains(case: str) -> None:
    asking, seats, nodes, want = MANY_NODES[case]
    assert reasons(make("InterPodAffinity"), asking, placed_on(nodes, seats)) == want


def two_clusters() -> FleetState:
    state = fleet(
        a=[node("n1").labels(zone="x"), node("n2").labels(zone="y")],
        b=[node("n1").labels(zone="x"), node("n2").labels(zone="y")],
    )
    put(state, one(**SCAN).uid("seat"), "a", "n1")
    return state


@pytest.mark.parametrize(
    ("key", "refuses"),
    [
        ("zone", {"a/n1", "b/n1"}),
        ("topology.kubernetes.io/zone", {"a/n1", "b/n1"}),
        ("cluster", {"a/n1", "a/n2"}),
        ("kubernetes.io/hostname", {"a/n1"}),
    ],
)
def test_domains_span_clusters(key: str, refuses: set[str]) -> None:
    assert set(reasons(make("InterPodAffinity"), one().away(key, SCANS), two_clusters())) == refuses


def test_domains_stay_within_a_cluster_for_a_pod_that_says_so() -> None:
    state, asking = two_clusters(), one().away("zone", SCANS).annotation(DOMAIN_SCOPE, "cluster")
    assert reasons(make("InterPodAffinity"), asking, state) == {"a/n1": ANTI}


def test_a_placed_pods_terms_keep_the_scope_that_it_asked_for() -> None:
    state = two_clusters()
    put(state, one().away("zone", SCANS).annotation(DOMAIN_SCOPE, "cluster").uid("u"), "b", "n2")
    assert reasons(make("InterPodAffinity"), one(**SCAN), state) == {"b/n2": EXISTING}


def test_labels_of_a_namespace_are_those_in_the_cluster_of_submission() -> None:
    state = two_clusters()
    state.kept.put("b", Namespace("default", {"team": "team1"}))
    put(state, one("q", **SCAN).uid("from-b"), "b", "n2", home="b")
    asking = one().away("cluster", SCANS, namespace_selector=TEAM1)
    assert reasons(make("InterPodAffinity"), asking, state) == {"b/n1": ANTI, "b/n2": ANTI}


def test_a_namespace_that_gets_other_labels_is_judged_anew() -> None:
    state, plugin = two_clusters(), make("InterPodAffinity")
    asking = one().away("cluster", SCANS, namespace_selector=TEAM1)
    assert reasons(plugin, asking, state) == {}
    state.kept.put("a", Namespace("default", {"team": "team1"}))
    assert set(reasons(plugin, asking, state)) == {"a/n1", "a/n2"}
    state.kept.remove("a", "Namespace", "default")
    assert reasons(plugin, asking, state) == {}


def test_a_pod_that_leaves_takes_its_terms_along() -> None:
    state, plugin = two_clusters(), make("InterPodAffinity")
    put(state, one().away("zone", SCANS).uid("u"), "b", "n2")
    assert set(reasons(plugin, one(**SCAN), state)) == {"a/n2", "b/n2"}
    state.remove(("a", "u"))
    assert reasons(plugin, one(**SCAN), state) == {}


EVERYBODY = selector()
OPEN = Namespace("other", {AFFINITY_FROM_OTHERS: "true"})
NOT_OPEN = Namespace("other", {AFFINITY_FROM_OTHERS: "yes"})


@pytest.mark.parametrize("seated", ["the pod with the term", "the other pod"])
@pytest.mark.parametrize("spaces", [{"namespaces": ("default", "other")}, {"namespace_selector": EVERYBODY}])
@pytest.mark.parametrize(
    ("other", "namespaces", "meant"),
    [
        (("a", "other"), (), True),
        (("b", "other"), (), False),
        (("b", "default"), (), True),
        (("b", "other"), (OPEN,), True),
        (("b", "other"), (NOT_OPEN,), False),
    ],
    ids=["of its cluster", "of another", "of its namespace", "of a namespace open to it", "of one that is not"],
)
def test_terms_mean_pods_of_other_clusters_only_in_their_namespace_or_where_one_is_open(
    seated: str, spaces: dict[str, Any], other: tuple[str, str], namespaces: tuple[Namespace, ...], meant: bool
) -> None:
    state, plugin = fleet(a=[node("n1").labels(zone="z")], b=[node("n2").labels(zone="z")]), make("InterPodAffinity")
    for namespace in namespaces:
        state.kept.put("b", namespace)
    home, where = other
    pods = one("holder").away("zone", EVERYBODY, **spaces).placed("a"), one("other").namespace(where).placed(home)
    there, asking = pods if seated == "the pod with the term" else reversed(pods)
    put(state, there.pod, there.home, "n1" if there.home == "a" else "n2", home=there.home)
    found = plugin.pre_filter(asking, view_of(state))
    refusing = [] if isinstance(found, Skip) else plugin.filter_parts(found, view_of(state))
    assert any(np.any(part.answers) for part in refusing) is meant


def test_a_node_that_changes_its_zone_takes_its_pods_along() -> None:
    state, plugin = two_clusters(), make("InterPodAffinity")
    put(state, one().away("zone", SCANS).uid("u"), "b", "n2")
    state.put_node("b", node("n2").labels(zone="x").build())
    assert set(reasons(plugin, one(**SCAN), state)) == {"a/n1", "b/n1", "b/n2"}


def test_pods_without_terms_are_one_class_until_a_placed_pod_tells_them_apart() -> None:
    state, plugin = two_clusters(), make("InterPodAffinity")
    web, scan = one(app="web").placed(), one(**SCAN).placed()
    assert plugin.class_key(web) == plugin.class_key(scan) is None
    assert plugin.fleet_key(web, view_of(state)) == plugin.fleet_key(scan, view_of(state)) is None
    put(state, one().away("zone", SCANS).uid("u"), "b", "n2")
    assert plugin.fleet_key(web, view_of(state)) is None
    assert plugin.fleet_key(scan, view_of(state)) is not None


EVERYWHERE: Any = {"namespace_selector": selector()}


def test_a_namespace_has_so_many_distinct_terms_about_others_and_its_next_pod_is_told() -> None:
    state, plugin = two_clusters(), make("InterPodAffinity", most_terms_about_others=2)
    wide = [one().away("host", selector(app=app), **EVERYWHERE).uid(app) for app in "xyz"]
    for at, holder in enumerate(wide[:2]):
        assert refused(plugin, holder, state) == ""
        put(state, holder, "a", f"n{at + 1}")
    text = "pods of its namespace would have more than 2 distinct (anti-)affinity terms about pods of other namespaces"
    assert refused(plugin, wide[2], state).startswith(text)
    assert plugin.fleet_key(wide[2].placed(), view_of(state)) is True, "a class of its own until it may go"
    free = [wide[0].uid("again"), wide[2].namespace("another"), one().away("host", selector(app="z")), one()]
    assert [refused(plugin, each, state) for each in free] == [""] * 4
    state.remove(("a", "x"))
    assert refused(plugin, wide[2], state) == ""


PREFERS = one().near("zone", SCANS, weight=5, **EVERYWHERE)
GRUDGE = one("g").away("zone", SCANS)
# id -> (refused pod, pod that came, pod that went, worth a try)
HINTS: dict[str, tuple[PodBuilder, PodBuilder | None, PodBuilder | None, bool]] = {
    "nothing named": (one().near("zone", SCANS), None, None, True),
    "one of its kind came": (one().near("zone", SCANS), one(**SCAN), None, True),
    "another came": (one().near("zone", SCANS), one(**SECURE), None, False),
    "one of two terms means it": (one().near("zone", SCANS, having("x")), one(**SCAN), None, False),
    "a namespace may get labels": (one().near("zone", SCANS, namespace_selector=TEAM1), one(**SCAN), None, True),
    "one that it shuns came": (one().away("zone", SCANS), one(**SCAN), None, False),
    "one that it shuns went": (one().away("zone", SCANS), None, one(**SCAN), True),
    "another went": (one().away("zone", SCANS), None, one(**SECURE), False),
    "one with a grudge went": (one(), None, GRUDGE, True),
    "the last of its kind went": (one(**SCAN).near("zone", SCANS), None, one(**SCAN), True),
    "one of its namespace went, with terms": (PREFERS, None, one().near("x", SCANS), True),
    "one of its namespace went, without terms": (PREFERS, None, one(), False),
    "one with its terms about others came": (PREFERS, PREFERS.uid("u"), None, True),
    "one with other terms about others came": (PREFERS, one("g").near("x", SCANS, weight=5, **EVERYWHERE), None, False),
    "one of another namespace came with its terms": (
        PREFERS,
        one("g").namespace("other").near("zone", SCANS, weight=5, **EVERYWHERE),
        None,
        False,
    ),
    "one with its terms about its namespace came": (one().near("zone", SCANS, weight=5), PREFERS, None, False),
    "one of its kind by new labels": (one().near("zone", SCANS), one(**SCAN), one(**SECURE), True),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints_tell_which_pods_are_worth_a_new_try(case: str) -> None:
    asking, came, gone, want = HINTS[case]
    kind = WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED
    event = ClusterEvent(kind, "a", gone.build() if gone else None, came.build() if came else None)
    assert make("InterPodAffinity").hint(event, asking.placed()) is want


@pytest.mark.parametrize(("waiting", "want"), [(PREFERS, True), (one().near("zone", SCANS, weight=5), False)])
def test_a_pod_that_goes_may_make_room_for_terms_about_others_of_its_own_namespace(
    waiting: PodBuilder, want: bool
) -> None:
    plugin = make("InterPodAffinity")
    event = ClusterEvent(WakeEvent.POD_REMOVED, "a", one().near("x", SCANS).build(), None)
    assert plugin.hint_any(event, plugin.hint_key(waiting.placed())) is want


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hard_pod_affinity_weight", 101),
        ("hard_pod_affinity_weight", 0.5),
        ("ignore_preferred_terms_of_existing_pods", 1),
        ("most_terms_about_others", 0),
    ],
)
def test_arguments_out_of_range_are_named(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"InterPodAffinity.{key}"):
        make("InterPodAffinity", **{key: value})


def test_it_refuses_no_pod_as_a_whole_for_terms_about_its_own_namespace() -> None:
    assert refused(make("InterPodAffinity"), one().near("zone", None, selector()), two_clusters()) == ""
