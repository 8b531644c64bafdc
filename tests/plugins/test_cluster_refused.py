import pytest

from dispatcher.scheduling.framework import PodInfo
from shared.model.refusal import ALL_OTHERS, ClusterRefusal
from tests.builders import fleet, pod
from tests.plugins.asking import make, reasons

TEXT = "node(s) were in a cluster that refused the pod a while ago"


def refusal(cluster: str, words: str = "no", at: float = 0.0) -> ClusterRefusal:
    return ClusterRefusal(cluster, words, at, at + 30)


def refused_by(*clusters: str) -> PodInfo:
    return PodInfo(pod().build(), "a", tuple(refusal(one) for one in clusters))


@pytest.mark.parametrize(
    ("clusters", "passed_over"),
    [((), []), (("b",), ["b/n"]), (("a", "c"), ["a/n", "c/n"]), ((ALL_OTHERS,), ["b/n", "c/n"]), (("gone",), [])],
    ids=["nobody", "one", "two, its own among them", "a field that cannot travel", "one that is no more"],
)
def test_a_pod_passes_over_the_clusters_that_refused_it(clusters: tuple[str, ...], passed_over: list[str]) -> None:
    found = reasons(make("ClusterRefused"), refused_by(*clusters), fleet(a=["n"], b=["n"], c=["n"]))
    assert found == dict.fromkeys(passed_over, TEXT)


def test_pods_refused_by_the_same_clusters_are_one_class_whatever_was_said_and_when() -> None:
    plugin, one = make("ClusterRefused"), pod().build()
    first = PodInfo(one, "a", (refusal("b", "quota", at=1),))
    assert plugin.class_key(first) == plugin.class_key(PodInfo(one, "a", (refusal("b", "webhook", at=9),)))
    assert plugin.class_key(first) != plugin.class_key(PodInfo(one, "a", (refusal("c"),)))
    assert plugin.class_key(PodInfo(one, "a")) == plugin.class_key(PodInfo(one, "b"))
