"""How pods of a set are counted when somebody first asks."""

from dataclasses import replace

import pytest

from dispatcher.scheduling.fleet import counts
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.pod_sets import LabelsOf, PodSet, pods_in
from shared.model.labels import NOT_IN, LabelSelector, Requirement
from shared.model.pod import Pod
from tests.builders import fleet, node, pod, put, selector


def test_pods_of_one_template_are_asked_once_whether_they_are_of_a_set() -> None:
    state = fleet(a=[node("n1").labels(zone="x"), node("n2").labels(zone="y")])
    for at in range(6):
        put(state, pod(f"web-{at}").labels(tier="web"), "a", f"n{1 + at % 2}")
    put(state, pod("db").labels(tier="db"), "a", "n1")
    wanted, asked = pods_in("default", selector(tier="web")), list[str]()

    def matches(one: Pod, home: str, labels_of: LabelsOf) -> bool:
        asked.append(one.labels["tier"])
        return wanted.matches(one, home, labels_of)

    count = state.count_in(replace(wanted, matches=matches, clues=()), "zone")
    assert state.counted(count).tolist() == [3, 3]
    assert sorted(asked) == ["db", "web"]


def all_but(*tiers: str) -> PodSet:
    """Pods of which no label says that they are of the set."""
    return pods_in("default", LabelSelector({}, (Requirement("tier", NOT_IN, tiers),)))


def come_and_go(state: FleetState, times: int) -> None:
    for at in range(times):
        put(state, pod(f"other-{at}").labels(tier="other"), "a", "n1")
        state.remove(("a", f"uid-other-{at}"))


def test_a_count_that_all_pods_are_looked_at_for_is_dropped_once_nobody_asks_for_it() -> None:
    state, looked = fleet(a=[node("n1").labels(zone="x")]), list[str]()
    anybody = all_but("db")

    def matches(one: Pod, home: str, labels_of: LabelsOf) -> bool:
        looked.append(one.name)
        return anybody.matches(one, home, labels_of)

    assert anybody.clues == ()
    noted = replace(anybody, matches=matches)
    state.count_in(noted, "zone")
    come_and_go(state, 200)
    assert 10 < len(looked) < 50
    put(state, pod("web").labels(tier="web"), "a", "n1")
    assert state.counted(state.count_in(noted, "zone")).tolist() == [1]


def test_who_holds_a_count_that_is_dropped_learns_that_it_is_stale() -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    held = state.count_in(all_but("db", "other"), "zone")
    come_and_go(state, 200)
    assert held.dropped


def test_a_count_that_is_asked_for_is_kept_up_to_date() -> None:
    state = fleet(a=[node("n1").labels(zone="x")])
    all_but_db = all_but("db")
    first = state.count_in(all_but_db, "zone")
    for at in range(100):
        put(state, pod(f"web-{at}").labels(tier="web"), "a", "n1")
        assert state.counted(state.count_in(all_but_db, "zone")).tolist() == [at + 1]
    assert state.count_in(all_but_db, "zone") is first


def test_of_large_counts_those_used_last_are_kept_and_others_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_LARGE", 1)
    monkeypatch.setattr(counts, "_MOST_BYTES", 1)
    monkeypatch.setattr(counts, "_LEAST_LARGE", 2)
    state = fleet(a=[node("n1").labels(zone="x")])
    apps = [pods_in("default", selector(tier=tier)) for tier in ("web", "db", "cache")]
    for at, tier in enumerate(("web", "db", "cache", "web")):
        put(state, pod(f"{tier}-{at}").labels(tier=tier), "a", "n1")
    web, db = (state.count_in(one, "host") for one in apps[:2])
    assert state.count_in(apps[0], "host") is web
    state.count_in(apps[2], "host")
    assert (web.dropped, db.dropped) == (False, True)
    put(state, pod("db-9").labels(tier="db"), "a", "n1")
    assert state.counted(state.count_in(apps[1], "host")).tolist() == [2]
    assert web.dropped
