from typing import Any

import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from shared.messages import LinkReading
from shared.model.names import DATA, NEAR, REQUIRE_DATA
from shared.model.objects import Service
from tests.builders import fleet, node, pod, put
from tests.plugins.asking import as_placed, make, reasons, refused, scores, state_of

RTT = {("a", "b"): 20.0, ("a", "c"): 60.0, ("b", "c"): 180.0}


def linked(rtt: dict[tuple[str, str], float] = RTT) -> FleetState:
    """Cluster a in zone x, b in y, and c in both."""
    state = fleet(
        a=[node("n1").labels(zone="x")],
        b=[node("n1").labels(zone="y")],
        c=[node("n1").labels(zone="y"), node("n2").labels(zone="x")],
        d=[node("n1")],
    )
    for (one, other), ms in rtt.items():
        state.links.take(one, [LinkReading(other, ms, age_s=5.0)], state.now)
    return state


def explained(plugin: Any, one: Any, state: FleetState, cluster: str, name: str = "n1") -> dict[str, Any]:
    row = state.row_of(cluster, name)
    assert row is not None
    return dict(plugin.explain(state_of(plugin, one, state), as_placed(one), view_of(state), row))


@pytest.mark.parametrize(
    ("near", "points"),
    [
        # 20 ms is half; of d nothing is known: the mean of 50 and 25, of 25 and 10
        ("cluster/a", {"a/n1": 100, "b/n1": 50, "c/n1": 25, "c/n2": 25, "d/n1": 37.5}),
        ("cluster/c", {"a/n1": 25, "b/n1": 10, "c/n1": 100, "c/n2": 100, "d/n1": 17.5}),
        # 3/4 by cluster, 25 in the zone itself
        ("zone/x", {"a/n1": 100, "b/n1": 37.5, "c/n1": 75, "c/n2": 100, "d/n1": 37.5}),
        ("cluster/moon", dict.fromkeys(("a/n1", "b/n1", "c/n1", "c/n2", "d/n1"), 0)),
        ("zone/moon", dict.fromkeys(("a/n1", "b/n1", "c/n1", "c/n2", "d/n1"), 0)),
    ],
)
def test_nearness_is_by_the_round_trip_time_to_what_is_named(near: str, points: dict[str, float]) -> None:
    assert scores(make("Nearness"), pod().annotation(NEAR, near), linked()) == points


def test_nearness_to_a_service_is_the_mean_over_its_pods_wherever_they_run() -> None:
    state, asking = linked(), pod().annotation(NEAR, "service/shop/db")
    plugin = make("Nearness")
    assert set(scores(plugin, asking, state).values()) == {0}  # there is no such service
    state.kept.put("a", Service("shop", "db", selector={"app": "db"}))
    assert set(scores(plugin, asking, state).values()) == {0}  # and now none of its pods
    for at, cluster in enumerate(("a", "a", "a", "b")):
        put(state, pod(f"db-{at}").namespace("shop").labels(app="db"), cluster, "n1")
    put(state, pod("other").namespace("elsewhere").labels(app="db"), "c", "n1")
    found = scores(plugin, asking, state)
    assert found == {"a/n1": 87.5, "b/n1": 62.5, "c/n1": 21.25, "c/n2": 21.25, "d/n1": (3 * 37.5 + 30) / 4}
    assert set(scores(plugin, asking.placed("b"), state).values()) == {0}  # b has no Service of that name


def test_nearness_to_the_pods_own_app_is_an_argument() -> None:
    state = linked()
    put(state, pod("web-0").labels(app="web"), "a", "n1")
    asking = pod("web-1").labels(app="web")
    assert scores(make("Nearness"), asking, state) == {}
    assert scores(make("Nearness", app=True), asking, state)["b/n1"] == 50
    assert scores(make("Nearness", app=True), asking.annotation(NEAR, "cluster/b"), state)["b/n1"] == 100


def test_where_nothing_is_known_only_the_place_itself_is_better() -> None:
    found = scores(make("Nearness"), pod().annotation(NEAR, "cluster/a"), linked({}))
    assert found == {"a/n1": 100, "b/n1": 50, "c/n1": 50, "c/n2": 50, "d/n1": 50}


def test_half_ms_says_how_fast_nearness_fades() -> None:
    asking = pod().annotation(NEAR, "cluster/a")
    assert scores(make("Nearness", half_ms=180.0), asking, linked())["c/n1"] == 75


def test_nearness_explains_the_round_trip_time_with_age_and_source() -> None:
    plugin, state = make("Nearness"), linked()
    state.links.configure({("a", "d"): 7.0})
    state.now += 10.0
    asking = pod().annotation(NEAR, "cluster/a")
    told = {"near": "cluster/a", "cluster": "a"}
    assert explained(plugin, asking, state, "b") == {**told, "rtt_ms": 20.0, "age_s": 15.0, "source": "measured"}
    assert explained(plugin, asking, state, "d") == {**told, "rtt_ms": 7.0, "source": "configured"}
    assert explained(plugin, asking, state, "a") == {**told, "rtt_ms": 0.0, "source": "same cluster"}
    state.links.configure({})
    nowhere = explained(plugin, pod().annotation(NEAR, "cluster/aa"), state, "b")
    assert nowhere == {"near": "cluster/aa", "found": "nowhere; did you mean cluster/a?"}


# --- data ------------------------------------------------------------------------------------------------------------

DATASETS = {"genomes": ["b", "c"], "moon": ["nowhere"]}


def test_data_locality_prefers_the_nearest_cluster_that_has_the_data() -> None:
    found = scores(make("DataLocality", datasets=DATASETS), pod().annotation(DATA, "genomes"), linked())
    assert found == {"a/n1": 50, "b/n1": 100, "c/n1": 100, "c/n2": 100, "d/n1": 50}


def test_required_data_keeps_the_pod_where_it_is() -> None:
    plugin, asking = make("DataLocality", datasets=DATASETS), pod().annotation(REQUIRE_DATA, "genomes")
    assert reasons(plugin, asking, linked()) == dict.fromkeys(
        ("a/n1", "d/n1"), "node(s) were in a cluster without the data that the pod requires"
    )
    assert scores(plugin, asking, linked())["a/n1"] == 50  # what would be next, were it allowed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("genome", "the profile names no data 'genome'; did you mean genomes?"),
        ("moon", "data 'moon' is in no cluster of this fleet: nowhere"),
    ],
)
def test_required_data_that_is_nowhere_refuses_and_a_wish_for_it_only_says_so(name: str, text: str) -> None:
    plugin, state = make("DataLocality", datasets=DATASETS), linked()
    assert refused(plugin, pod().annotation(REQUIRE_DATA, name), state) == (
        f"pod cannot be scheduled: annotation {REQUIRE_DATA}: {text}"
    )
    wish = pod().annotation(DATA, name)
    assert set(scores(plugin, wish, state).values()) == {0}
    assert explained(plugin, wish, state, "a") == {"data": name, "found": text}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "must map names of data"),
        ({"genomes": []}, "is in no cluster"),
        ({"genomes": "a"}, "must be a list"),
        ({"": ["a"]}, "name of one dataset"),
        ({"Two Words": ["a"]}, "name of one dataset"),
    ],
)
def test_datasets_that_cannot_be_read_are_refused_with_the_profile(given: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make("DataLocality", datasets=given)
