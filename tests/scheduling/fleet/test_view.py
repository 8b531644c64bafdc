"""What a plugin reads is noted by the view that it was handed, and by no other."""

from collections.abc import Callable, Hashable

import pytest

from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.images import IMAGES
from dispatcher.scheduling.fleet.view import Observed, ObservedView, view_of
from dispatcher.scheduling.fleet.volumes import USERS
from dispatcher.scheduling.framework import FleetView
from dispatcher.scheduling.framework.pod_sets import pods_of_terms
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole
from shared.model.objects import Namespace, PersistentVolumeClaim
from shared.model.pod import PodAffinityTerm
from tests.builders import fleet, node, pod, put, selector
from tests.scheduling.tiny_plugins import Live

Noted = tuple[bool, list[str], set[str]]  # the clock, topology keys of counts, kinds of objects
WEB = pod("q").labels(app="web")
BY_TEAM = pods_of_terms([PodAffinityTerm("", selector(), (), selector(team="t"))])
ZONE = "topology.kubernetes.io/zone"


def a_fleet() -> FleetState:
    state = fleet(a=[node("n1").labels(zone="x"), node("n2").labels(zone="y")])
    put(state, pod("p1").labels(app="web"), "a", "n1")
    return state


def noted(observed: Observed) -> Noted:
    return observed.now, [count.key for count in observed.counts.values()], observed.kinds


@pytest.mark.parametrize(
    ("read", "want"),
    [
        (lambda fleet: fleet.now, (True, [], set())),
        (lambda fleet: fleet.topology.count_matching(WEB.build(), None, "zone"), (False, ["zone"], set())),
        (lambda fleet: fleet.affinity.count_in(BY_TEAM, "zone"), (False, ["zone"], {"Namespace"})),
        (lambda fleet: fleet.objects.of("a", PersistentVolumeClaim), (False, [], {"PersistentVolumeClaim"})),
        (lambda fleet: fleet.objects.derived("a", len, PersistentVolumeClaim), (False, [], {"PersistentVolumeClaim"})),
        (lambda fleet: fleet.images.sizes("nginx"), (False, [], {IMAGES})),
        (lambda fleet: fleet.images.nodes_with("nginx"), (False, [], {IMAGES})),
        (lambda fleet: fleet.volumes.claim_users("a", "default", "data"), (False, [], {USERS})),
        (lambda fleet: fleet.nodes.label(ZONE), (False, [], set())),
        (lambda fleet: fleet.topology.domain("zone"), (False, [], set())),
        (lambda fleet: fleet.signals.used("cpu"), (False, [], set())),
    ],
    ids=["clock", "matching", "set", "objects", "derived", "sizes", "images", "claims", "labels", "domains", "signals"],
)
def test_what_is_read_through_a_view_is_noted_there_alone(read: Callable[[FleetView], object], want: Noted) -> None:
    state = a_fleet()
    mine, theirs = ObservedView(state, Observed()), ObservedView(state, Observed())
    read(mine)
    assert noted(mine.observed) == want
    assert noted(theirs.observed) == (False, [], set())


def test_a_view_that_lasts_gathers_no_counts() -> None:
    view = view_of(a_fleet())
    assert view.topology.count_matching(WEB.build(), None, "zone").tolist() == [1, 0]
    assert not view.observed.counts


@pytest.mark.parametrize("name", ["now", "kept", "place", "objects", "loads"])
def test_no_facet_leads_past_the_view_to_the_fleet(name: str) -> None:
    assert not hasattr(view_of(a_fleet()).nodes, name)


def test_an_answer_about_clusters_that_asks_for_another_one_is_not_kept_if_that_reads_nodes() -> None:
    state = a_fleet()
    kept: list[dict[Hashable, int]] = [{}, {}]

    def nodes(view: FleetView) -> int:
        return int(view.nodes.live.sum())

    def asked(view: FleetView) -> int:
        return view.of_clusters(kept[1], "inner", nodes)

    assert view_of(state).of_clusters(kept[0], "outer", asked) == 2
    state.put_node("a", node("n3").build())
    assert view_of(state).of_clusters(kept[0], "outer", asked) == 3


def test_what_moves_makes_stale_who_read_it_and_nobody_else() -> None:
    state = a_fleet()
    plugin = Live()
    roles = [PluginRole(plugin, AnswerScope.ROW, 0, None, 0, 1.0, None) for _ in range(2)]
    clocked, other = (PluginEvaluator(role, state) for role in roles)
    for one in (clocked, other):
        one.pre_filter(WEB.placed())
    clocked.scores(slice(0, state.n))
    for one in (clocked, other):
        one.record_dependencies()
    state.now += 1.0
    assert clocked.is_stale(changed=False, touched=False)
    assert not other.is_stale(changed=False, touched=False)


@pytest.mark.parametrize(("scope", "counts"), [(AnswerScope.DOMAIN, []), (AnswerScope.ROW, ["zone"])])
def test_counts_of_an_earlier_question_are_forgotten_but_where_rows_rest_on_them(
    scope: AnswerScope, counts: list[str]
) -> None:
    state = a_fleet()
    evaluator = PluginEvaluator(PluginRole(Live(), scope, 0, None, 0, 1.0, None), state)
    evaluator.view.topology.count_matching(WEB.build(), None, "zone")
    evaluator.view.objects.of("a", Namespace)
    evaluator.pre_filter(WEB.placed())
    assert noted(evaluator.observed) == (False, counts, {"Namespace"}), "kinds of objects are never forgotten"


def test_the_clock_of_plugins_goes_by_full_seconds_and_no_sample_is_younger() -> None:
    state = a_fleet()
    told = []
    for now in (1000.0, 1000.05, 1000.9, 1001.0, 1001.1):
        state.now = now
        told.append(view_of(state).now)
    assert told == [1000.0, 1001.0, 1001.0, 1001.0, 1002.0]


def test_what_rests_on_the_clock_is_stale_when_it_has_moved_by_a_second() -> None:
    state = a_fleet()
    role = PluginRole(Live(), AnswerScope.ROW, 0, None, 0, 1.0, None)
    evaluator = PluginEvaluator(role, state)
    evaluator.observed.now = True
    evaluator.record_dependencies()
    stale = []
    for now in (1000.0, 1000.5, 1001.0, 1001.5):
        state.now = now
        stale.append(evaluator.is_stale(changed=False, touched=False))
    assert stale == [False, True, True, True]
    evaluator.record_dependencies()
    state.now = 1001.9
    assert not evaluator.is_stale(changed=False, touched=False)
