"""The cases of scheduler_perf as we restate them."""

from collections import Counter
from typing import Any

import pytest

from benchmarks.end_to_end.cases import NAMES
from benchmarks.plain_loop import Place
from benchmarks.scheduler_perf import _before, _nodes, decisions_of
from benchmarks.workloads.cases import CASES, Case, Pods, case
from benchmarks.workloads.templates import TEMPLATES

every_case = pytest.mark.parametrize("one", CASES, ids=[one.name for one in CASES])


@every_case
def test_the_pods_of_a_case_have_names_of_their_own(one: Case) -> None:
    groups = [*((f"before{at}", pods) for at, pods in enumerate(one.before)), ("measured", one.measured)]
    places = Counter(place for prefix, pods in groups for place in pods.places(prefix))
    assert set(places.values()) == {1}
    assert len(places) == sum(pods.total for _, pods in groups)


@every_case
def test_what_is_there_before_fits_where_it_is_put(one: Case) -> None:
    places = [Place(node) for node in _nodes(one)]
    for number, pod in enumerate(_before(one)):
        place = places[number % len(places)]
        assert place.fits(pod), f"{pod.key} on {place.node.name}"
        place.put(pod)


@every_case
def test_the_core_places_all_pods_of_a_small_case(one: Case) -> None:
    (row,) = decisions_of(one, 500)
    assert row.name == f"perf_{one.name}"
    assert row.value > 0
    assert row.baseline is not None


@pytest.mark.parametrize(
    ("pods", "share", "total"),
    [
        (Pods("pod-default", 1000), 10, 100),
        (Pods("pod-default", 5), 10, 1),
        (Pods("pod-default", 40, "init-ns", 100), 10, 400),
        (Pods("pod-default", 40, "init-ns", 100), 500, 8),
    ],
)
def test_a_share_of_pods_is_that_share_and_never_none(pods: Pods, share: int, total: int) -> None:
    assert pods.shared(share).total == total


def test_end_to_end_there_are_cases_of_that_name_alone() -> None:
    assert [case(name).name for name in NAMES] == list(NAMES)


def test_a_template_becomes_a_pod_for_the_scheduler_that_is_named() -> None:
    manifest: dict[str, Any] = TEMPLATES["pod-with-pod-affinity"].manifest("p", "sched-1", "default-scheduler")
    assert manifest["spec"]["schedulerName"] == "default-scheduler"
    assert manifest["metadata"] == {"name": "p", "namespace": "sched-1", "labels": {"color": "blue"}}
