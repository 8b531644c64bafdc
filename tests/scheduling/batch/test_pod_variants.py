"""Which pods of a batch are asked for all of their kind."""

from dispatcher.scheduling.batch.pod_variants import variants_of
from dispatcher.scheduling.framework import PodInfo
from shared.model.pod import CLAIM, Volume
from tests.builders import pod


def ats(*placed: PodInfo) -> list[int]:
    return list(variants_of([((one.home, one.pod.uid), one) for one in placed]).ats)


def test_neighbours_that_differ_in_who_they_are_and_how_they_fare_are_one_kind() -> None:
    pods = [pod(name).labels(app="web").set(created=at, reason=name).placed("a") for at, name in enumerate("xyz")]
    assert ats(*pods) == [0]


def test_the_first_pod_of_each_run_stands_for_it() -> None:
    web, db = pod("w").labels(app="web").placed("a"), pod("d").labels(app="db").placed("a")
    assert ats(web, web, db, db, web) == [0, 2, 4]


def test_a_pod_of_another_cluster_or_one_that_is_going_is_another_kind() -> None:
    assert ats(pod("x").placed("a"), pod("x").placed("b")) == [0, 1]
    assert ats(pod("x").placed("a"), pod("x").set(terminating=True).placed("a")) == [0, 1]


def test_each_pod_with_volumes_is_a_kind_of_its_own() -> None:
    claiming = pod("x").set(volumes=(Volume(CLAIM, "data"),)).placed("a")
    assert ats(claiming, claiming, pod("x").placed("a")) == [0, 1, 2]


def test_the_kinds_among_the_first_pods_are_those_that_begin_there() -> None:
    web, db = pod("w").labels(app="web").placed("a"), pod("d").labels(app="db").placed("a")
    variants = variants_of([((one.home, one.pod.uid), one) for one in (web, web, db, web)])
    assert list(variants.first(3).ats) == [0, 2]
    assert list(variants.first(2).pods) == [web]
