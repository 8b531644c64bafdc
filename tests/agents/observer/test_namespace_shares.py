"""Large pods of one namespace share what may be told of them, and whoever makes many stops no other namespace."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.convert import pod_seen
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.namespace_shares import MOST, SMALL, NamespaceShares
from agents.observer.record_bounds import MAX_LABELS
from agents.observer.seen import PODS, PodSeen
from shared.messages.memory import memory_of_record
from shared.model.pod import Pod
from tests.agents.kube.objects import pod_object, raw
from tests.builders import pod

SHARE = 64 * 1024
LARGE = 3 * SMALL


def large(name: str, created: float = 0.0, node: str = "", namespace: str = "default") -> Pod:
    return pod(name).set(created=created, node=node, namespace=namespace, labels={"app": "x"}).build()


class Told:
    """What was told last of each pod."""

    def __init__(self) -> None:
        self.shares = NamespaceShares(SHARE)
        self.pods: dict[str, Pod] = {}

    def put(self, one: Pod, memory: int = LARGE) -> None:
        self.pods.update({told.uid: told for told in self.shares.put(one, memory)})

    def drop(self, uid: str) -> None:
        self.pods.update({told.uid: told for told in self.shares.drop(uid)})
        del self.pods[uid]

    def in_full(self) -> set[str]:
        return {one.name for one in self.pods.values() if not one.problems}


def test_the_oldest_large_pods_are_told_in_full_and_the_others_say_what_to_do() -> None:
    told = Told()
    for at in range(4):
        told.put(large(f"p{at}", created=at))
    assert told.in_full() == {"p0", "p1"}
    (problem,) = told.pods["uid-p2"].problems
    assert problem.startswith("metadata.labels and spec: the pods of namespace default that take more than 8 KiB")
    assert problem.endswith("make them smaller or fewer")


def test_a_pod_that_goes_or_becomes_small_lets_the_next_one_be_told() -> None:
    told = Told()
    for at in range(4):
        told.put(large(f"p{at}", created=at))
    told.drop("uid-p0")
    assert told.in_full() == {"p1", "p2"}
    told.put(large("p1", created=1), memory=SMALL)
    assert told.in_full() == {"p1", "p2", "p3"}


def test_a_pod_on_a_node_comes_before_older_ones_that_wait() -> None:
    told = Told()
    for at in range(3):
        told.put(large(f"p{at}", created=at))
    told.put(large("on", created=9, node="n1"))
    assert told.in_full() == {"on", "p0"}


def test_of_a_pod_on_a_node_only_the_labels_are_left_out() -> None:
    told = Told()
    for at in range(3):
        told.put(large(f"p{at}", node="n1"))
    (cut,) = [one for one in told.pods.values() if one.problems]
    assert (cut.labels, cut.labels_cut, cut.node) == ({}, True, "n1")


def test_small_pods_and_those_of_other_namespaces_are_told_whatever_one_namespace_has() -> None:
    told = Told()
    for at in range(9):
        told.put(large(f"p{at}"))
    told.put(large("small"), memory=SMALL)
    told.put(large("other", namespace="other"))
    assert {"small", "other"} <= told.in_full()


def test_who_is_gone_from_its_cluster_leaves_its_share_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.observer.cache.NamespaceShares", lambda: NamespaceShares(SHARE))
    cache = ClusterCache(ChangeLog())
    for at in range(4):
        one = large(f"p{at}", created=at)
        cache.apply(PodSeen(one.uid, 1, one, memory=LARGE))
    cache.forget(PODS, "uid-p0")
    assert {one.name for one in cache.pods() if not one.problems} == {"p1", "p2"}


STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 3), st.booleans(), st.sampled_from((SMALL, LARGE, 2 * LARGE, None))),
    max_size=40,
)


@given(STEPS)
def test_what_is_told_follows_from_the_pods_that_are_there_alone(steps: list[tuple[int, int, bool, Any]]) -> None:
    told = Told()
    there: dict[str, tuple[Pod, int]] = {}
    for at, created, placed, memory in steps:
        one = large(f"p{at}", float(created), "n1" if placed else "")
        if memory is not None:
            told.put(one, memory)
            there[one.uid] = (one, memory)
        elif there.pop(one.uid, None) is not None:
            told.drop(one.uid)
    again = Told()
    for one, memory in there.values():
        again.put(one, memory)
    assert told.pods == again.pods
    full = sum(memory for one, memory in there.values() if memory > SMALL and not told.pods[one.uid].problems)
    assert full <= SHARE


LABELS = {"metadata": {"labels": {f"k{at:03}": "" for at in range(MAX_LABELS // 116)}}}
CLAUSE = {"key": "a", "operator": "In", "values": ["a"] * 8000}
TERM = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [CLAUSE]}}
TERMS = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


@pytest.mark.parametrize(
    "place", [{}, {"nodeName": "n1", "schedulerName": "default-scheduler"}], ids=["ours", "others"]
)
@pytest.mark.parametrize("large", [LABELS, TERMS], ids=["labels", "anti-affinity"])
def test_5000_pods_of_one_namespace_as_large_as_they_may_be_leave_most_of_a_report_to_others(
    large: dict[str, Any], place: dict[str, Any]
) -> None:
    seen = pod_seen(raw(pod_object(**large, **place)))
    assert seen is not None
    assert seen.pod is not None
    cache = ClusterCache(ChangeLog())
    cache.begin(PODS)
    for at in range(5000):
        one = msgspec.structs.replace(seen.pod, uid=f"u{at}", name=f"p{at}")
        cache.page(PODS, [msgspec.structs.replace(seen, uid=one.uid, pod=one)])
    cache.end(PODS)
    assert memory_of_record(seen.pod) > SMALL
    assert sum(map(memory_of_record, cache.pods())) < MOST + 5000 * SMALL < 2**31 / 8
