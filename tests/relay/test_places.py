"""No namespace keeps others, or `kubectl top`, from the streams between two clusters."""

from contextlib import ExitStack

import pytest

from agents.executor.relayed.relay import Refusal
from agents.runtime.relay.places import BETWEEN, LEFT, OF_NAMESPACE, Places
from shared.streams.relayed import MAX_BETWEEN


def taken(places: Places, stack: ExitStack, cluster: str, namespace: str) -> int:
    """How many more this namespace gets."""
    for count in range(MAX_BETWEEN):
        try:
            stack.enter_context(places.held(cluster, namespace))
        except Refusal:
            return count
    return MAX_BETWEEN


def test_a_namespace_gets_its_share_and_is_told_what_to_end() -> None:
    places = Places()
    with ExitStack() as stack:
        assert taken(places, stack, "west", "team") == OF_NAMESPACE
        with pytest.raises(Refusal, match=r"namespace team .* end one of them"):
            stack.enter_context(places.held("west", "team"))


def test_a_share_is_of_all_clusters_together() -> None:
    places = Places()
    with ExitStack() as stack:
        assert taken(places, stack, "west", "team") == OF_NAMESPACE
        assert taken(places, stack, "north", "team") == 0


def test_who_holds_none_between_two_clusters_still_gets_one_where_others_hold_all_they_may() -> None:
    places = Places()
    with ExitStack() as stack:
        greedy = [taken(places, stack, "west", f"greedy-{number}") for number in range(3)]
        assert greedy == [OF_NAMESPACE, OF_NAMESPACE, BETWEEN - LEFT - 2 * OF_NAMESPACE]
        assert [taken(places, stack, "west", f"late-{number}") for number in range(LEFT)] == [1] * LEFT
        with pytest.raises(Refusal, match="try again"):
            stack.enter_context(places.held("west", "too-late"))


def test_what_has_ended_gives_its_place_back() -> None:
    places = Places()
    for _ in range(2):
        with ExitStack() as stack:
            assert taken(places, stack, "west", "team") == OF_NAMESPACE


def test_both_directions_and_metrics_fit_into_what_the_gateway_relays_between_two_clusters() -> None:
    assert 2 * BETWEEN < MAX_BETWEEN
