"""What is put into the fleet comes out again bit for bit, and what is kept up to date equals a count from scratch."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import pods_of_terms
from shared.model.objects import Namespace
from shared.model.pod import PodAffinityTerm
from tests.builders import pod, selector
from tests.laws.examples import examples
from tests.laws.fleet_events import apply_event, counts, events, fleet_after, pods, rebuilt, snapshot, ties


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=20), st.lists(pods(), min_size=1, max_size=6), st.data())
def test_assume_then_forget_restores_every_column_bit_for_bit(
    script: list[tuple[Any, ...]], extra: list[PodInfo], data: st.DataObject
) -> None:
    fleet = fleet_after(script)
    before = snapshot(fleet)
    for index, placed in enumerate(extra):
        where = data.draw(st.sampled_from((("a", "n1"), ("b", "n1"), ("b", "n2"))))
        fleet.place(("b", f"extra{index}"), placed, *where, assumed=True)
    for index in data.draw(st.permutations(range(len(extra)))):
        assert fleet.remove(("b", f"extra{index}"))
    assert snapshot(fleet) == before


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=25), st.integers(0, 25))
def test_counts_kept_up_to_date_equal_counts_from_scratch(script: list[tuple[Any, ...]], asked_after: int) -> None:
    fleet = fleet_after(script[:asked_after])
    counts(fleet)  # from here on every count is kept pod by pod
    for event in script[asked_after:]:
        apply_event(fleet, event)
    assert counts(fleet) == counts(fleet_after(script))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(events, max_size=25), st.integers(0, 25), st.integers(1, 3))
def test_ties_kept_up_to_date_equal_ties_from_scratch(
    script: list[tuple[Any, ...]], asked_after: int, asked_again: int
) -> None:
    fleet = fleet_after(script[:asked_after])
    ties(fleet)
    for number, event in enumerate(script[asked_after:]):
        apply_event(fleet, event)
        if number % asked_again == 0:
            ties(fleet)
    assert {key: found for key, found in ties(fleet).items() if found} == {
        key: found for key, found in ties(rebuilt(fleet)).items() if found
    }


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(events, max_size=20), pods(), st.integers(1, 5))
def test_supposing_pods_and_taking_the_supposition_back_leaves_no_trace(
    script: list[tuple[Any, ...]], pod_info: PodInfo, times: int
) -> None:
    fleet = fleet_after(script)
    rows = fleet.live.nonzero()[0]
    assume(len(rows) and fleet.can_suppose(rows, pod_info, times))
    before = snapshot(fleet)
    fleet.suppose(rows, pod_info, times)
    assert snapshot(fleet) != before
    fleet.suppose(rows, pod_info, -times)
    assert snapshot(fleet) == before


def test_a_namespace_that_gets_a_label_takes_its_pods_into_the_sets_that_ask_for_it() -> None:
    asked = pods_of_terms([PodAffinityTerm("", selector(), (), selector(team="t"))])
    fleet = fleet_after([])
    fleet.place(("a", "u"), pod("p").namespace("m").placed(), "b", "n1", assumed=False)
    found = []
    for labels in ({}, {"team": "t"}, {"team": "s"}):
        fleet.kept.put("a", Namespace("m", labels))
        found.append(int(fleet.counted(fleet.count_in(asked, "zone")).sum()))
    assert found == [0, 1, 0]
