import pytest

from dispatcher.plugins.cluster_allowed import CLUSTER_NOT_ALLOWED, PROXY_TAINT
from shared.model.names import CLUSTERS, DOMAIN_SCOPE, STAY
from shared.model.node import NO_EXECUTE, Taint
from shared.model.pod import Toleration, Volume
from shared.model.reasons import Reasons, Why
from tests.builders import PodBuilder, fleet, pod
from tests.plugins.asking import make, reasons, refused

REASON_CORDONED = "node(s) were in cluster b, which is cordoned (`global-dispatcher cluster uncordon b`)"


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (pod(), ["a/n", "b/n", "c/n"]),
        (pod().annotation(CLUSTERS, "b"), ["b/n"]),
        (pod().annotation(CLUSTERS, " c , b,"), ["b/n", "c/n"]),
        (pod().annotation(CLUSTERS, "b,unheard-of"), ["b/n"]),
        (pod().annotation(STAY, "true"), ["a/n"]),
        (pod().annotation(STAY, "false"), ["a/n", "b/n", "c/n"]),
        (pod().annotation(STAY, "true").annotation(CLUSTERS, "a,b"), ["a/n"]),
    ],
    ids=["no wish", "one", "two, loosely written", "one of them unknown", "stays", "need not stay", "stays in the set"],
)
def test_cluster_allowed_follows_the_annotations(asking: PodBuilder, want: list[str]) -> None:
    state = fleet(a=["n"], b=["n"], c=["n"])
    found = reasons(make("ClusterAllowed"), asking, state)
    assert sorted({"a/n", "b/n", "c/n"} - set(found)) == want
    assert set(found.values()) <= {CLUSTER_NOT_ALLOWED.text()}


@pytest.mark.parametrize(
    "volume", [Volume("claim", "data"), Volume("gcePersistentDisk", "d")], ids=["claim", "inline disk"]
)
def test_cluster_allowed_keeps_a_pod_with_volumes_where_they_are(volume: Volume) -> None:
    plugin, asking = make("ClusterAllowed"), pod().set(volumes=(volume,))
    found = reasons(plugin, asking, fleet(a=["n"], b=["n"], c=["n"]))
    assert found == dict.fromkeys(("b/n", "c/n"), "node(s) were in another cluster than the pod's volumes")
    assert plugin.class_key(asking.placed("a")) != plugin.class_key(asking.placed("b"))


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (pod().annotation(CLUSTERS, "x,y"), "names no cluster of this fleet: x, y; known: a, b"),
        (pod().annotation(CLUSTERS, " ,"), f"annotation {CLUSTERS} is empty: name clusters as 'a,b' or remove it"),
        (pod().annotation(STAY, "yes"), f"annotation {STAY} must be 'true' or 'false', not 'yes'"),
        (pod().annotation(STAY, "true").annotation(CLUSTERS, "b"), f"which {CLUSTERS} does not allow; remove one"),
        (pod().annotation(DOMAIN_SCOPE, "zone"), f"annotation {DOMAIN_SCOPE} must be 'cluster' or 'fleet', not 'zone'"),
        (
            pod().set(volumes=(Volume("claim", "d"),)).annotation(CLUSTERS, "b"),
            "its volumes keep it in cluster a",
        ),
    ],
    ids=["unknown clusters", "empty", "no boolean", "contradiction", "no such scope", "volumes elsewhere"],
)
def test_cluster_allowed_names_an_annotation_that_cannot_be_followed(asking: PodBuilder, want: str) -> None:
    text = refused(make("ClusterAllowed"), asking, fleet(a=["n"], b=["n"]))
    assert text.startswith("pod cannot be scheduled: ")
    assert want in text


def test_cluster_allowed_says_which_cluster_may_be_meant() -> None:
    text = refused(make("ClusterAllowed"), pod().annotation(CLUSTERS, "wset"), fleet(west=["n"], east=["n"]))
    assert f"{CLUSTERS} names no cluster of this fleet: wset; did you mean west?; known: east, west" in text


def test_cluster_allowed_keeps_a_hostile_annotation_out_of_the_message() -> None:
    text = refused(
        make("ClusterAllowed"), pod().annotation(CLUSTERS, ",".join(["x" * 500, *"abcdefghijklmnop"])), fleet(z=["n"])
    )
    assert len(text) < 400


def test_cluster_allowed_tells_classes_apart_by_home_only_where_pods_stay() -> None:
    plugin = make("ClusterAllowed")
    roams, stays = pod().annotation(CLUSTERS, "a"), pod().annotation(STAY, "true")
    assert plugin.class_key(roams.placed("a")) == plugin.class_key(roams.placed("b"))
    assert plugin.class_key(stays.placed("a")) != plugin.class_key(stays.placed("b"))


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (pod(), {"b/n": REASON_CORDONED}),
        (
            pod().annotation(CLUSTERS, "b"),
            {
                "a/n": CLUSTER_NOT_ALLOWED.text(),
                "b/n": REASON_CORDONED,
                "c/n": CLUSTER_NOT_ALLOWED.text(),
            },
        ),
        (pod().set(tolerations=(Toleration(operator="Exists"),)), {"b/n": REASON_CORDONED}),
    ],
    ids=["no wish", "that cluster alone", "a toleration does not help"],
)
def test_cluster_allowed_keeps_pods_away_from_a_cluster_that_is_cordoned_at_home(
    asking: PodBuilder, want: dict[str, str]
) -> None:
    state, plugin = fleet(a=["n"], b=["n"], c=["n"]), make("ClusterAllowed")
    state.set_closed("a", "b", closed=True)
    state.set_closed("c", "a", closed=True)
    assert reasons(plugin, asking.placed("a"), state) == want
    state.set_closed("a", "b", closed=False)
    assert REASON_CORDONED not in reasons(plugin, asking.placed("a"), state).values()


@pytest.mark.parametrize(
    ("asking", "barred"),
    [
        (pod(), True),
        (pod().set(tolerations=(Toleration(key="team", operator="Exists"),)), False),
        (pod().set(tolerations=(Toleration(key="other", operator="Exists"),)), True),
    ],
    ids=["no toleration", "that of the taint", "another"],
)
def test_a_taint_on_the_proxy_node_at_home_bars_its_cluster_for_pods_that_do_not_tolerate_it(
    asking: PodBuilder, barred: bool
) -> None:
    state, plugin = fleet(a=["n"], b=["n"], c=["n"]), make("ClusterAllowed")
    state.set_proxy_taints("a", "b", (Taint("team", "out", NO_EXECUTE),))
    want = {"b/n": Why(PROXY_TAINT, "b").detail} if barred else {}
    assert reasons(plugin, asking.placed("a"), state) == want
    assert reasons(plugin, asking.placed("c"), state) == {}
    state.set_proxy_taints("a", "b", ())
    assert reasons(plugin, asking.placed("a"), state) == {}


def test_pods_that_tolerate_a_taint_of_a_proxy_node_are_no_class_with_those_that_do_not() -> None:
    plugin = make("ClusterAllowed")
    tolerant = pod().set(tolerations=(Toleration(key="team", operator="Exists"),))
    assert plugin.class_key(pod().placed("a")) != plugin.class_key(tolerant.placed("a"))


def test_cluster_allowed_tells_classes_apart_by_what_is_cordoned_at_home() -> None:
    state, plugin = fleet(a=["n"], b=["n"], c=["n"]), make("ClusterAllowed")
    assert plugin.fleet_key(pod().placed("a"), state) is None
    state.set_closed("a", "b", closed=True)
    assert plugin.fleet_key(pod().placed("a"), state) != plugin.fleet_key(pod().placed("c"), state)


def test_a_cordoned_cluster_is_named_once_in_the_details_of_a_refusal() -> None:
    assert Why(Reasons.CLUSTER_CORDONED, "b").detail == REASON_CORDONED
