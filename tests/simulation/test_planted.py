"""Planted faults: the small stories written for them hold without them, and what no judge sees counts as missed."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.simulation.planted import PLANTED, Patches, hunt, search, table

pytestmark = pytest.mark.patient

# One for each way in which a story goes wrong; `make sim` tells all.
TOLD = (
    "claims-unchecked",
    "dispatcher-believes-claims",
    "lease-by-the-wall-clock",
    "bind-without-uid",
    "no-bookings",
    "no-barrier",
)


def in_turn(call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    return (call(item) for item in items)


@pytest.mark.parametrize("name", TOLD)
def test_a_written_story_breaks_with_its_fault_alone(name: str) -> None:
    found = search(name, most=2)
    assert found.seeds == 1
    assert found.found is not None


@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_a_fault_is_planted_in_something_that_the_product_still_has(planted: table.Planted) -> None:
    patches = Patches()
    try:
        planted.patch(patches)
    finally:
        patches.undo()


def test_a_fault_that_no_judge_sees_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = table.Planted("harmless", "nothing", ("wire",), lambda patches: None)
    monkeypatch.setitem(PLANTED, "harmless", harmless)
    assert hunt("harmless,bind-without-uid", in_turn, most=1) == (1, 2, 1)
    said = capsys.readouterr().out
    assert "planted harmless: NOT FOUND in 1 seeds" in said
    assert "harmless                              >1 -" in said


def test_a_fault_that_ends_the_world_is_not_found_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(patches: Patches) -> None:
        raise AttributeError("no such thing in the product")

    monkeypatch.setitem(PLANTED, "broken", table.Planted("broken", "nonsense", ("wire",), broken))
    found = search("broken", most=1)
    assert found.seeds == 0
    assert "no such thing in the product" in found.problem


def test_a_fault_that_the_product_logs_and_goes_on_after_is_not_found_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(patches: Patches) -> None:
        from dispatcher.scheduling.core.reconciler import Reconciler

        def raises(*_: Any) -> None:
            raise AttributeError("no such thing in the core")

        patches.set(Reconciler, "_next_step", raises)

    monkeypatch.setitem(PLANTED, "broken", table.Planted("broken", "nonsense", ("wire",), broken))
    found = search("broken", most=1)
    assert found.seeds == 0
    assert "no such thing in the core" in found.problem


def test_none_is_known_to_hide() -> None:
    assert not table.NOT_CAUGHT
    assert len(PLANTED) >= 25
