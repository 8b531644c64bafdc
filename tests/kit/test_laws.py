from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from dispatcher.kit import broken_laws
from dispatcher.plugins.registry import REGISTRY, PluginContext
from dispatcher.scheduling.framework import Codes, Filter, Fleet, Floats, Placed, Plugin, Refuse, Reserve, Rows, Score


class Harmless(Filter, Score, Reserve):
    """Keeps every law; each test breaks one of them."""

    name: ClassVar[str] = "Harmless"

    def __init__(self) -> None:
        self.booked = 0

    def class_key(self, placed: Placed) -> Any:
        return None

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        return np.zeros(len(fleet.live[rows]), dtype=np.uint16)

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        return np.zeros(len(fleet.live[rows])) + self.booked

    def reserve(self, placed: Placed, row: int, fleet: Fleet) -> Refuse | None:
        self.booked += 1
        return None

    def unreserve(self, placed: Placed, row: int, fleet: Fleet) -> None:
        self.booked -= 1

    def explain(self, state: object, placed: Placed, fleet: Fleet, row: int) -> Any:
        return {}


def length(fleet: Fleet, rows: Rows) -> int:
    return len(fleet.live[rows])


def always_one(state: object, fleet: Fleet, rows: Rows) -> Any:
    return np.full(length(fleet, rows), 999, dtype=np.uint16)


class Restless(Harmless):
    """Its key grows with every question."""

    asked = 0

    def class_key(self, placed: Placed) -> Any:
        self.asked += 1
        return self.asked


class Unequal(Harmless):
    """One key for all pods, but an answer by name."""

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        return float(len(placed.pod.name))

    def score(self, state: Any, fleet: Fleet, rows: Rows) -> Floats:
        return np.full(length(fleet, rows), state)


# what is broken: (method, what it does instead, words of the finding)
BREAKS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "an unhashable key": ("class_key", lambda placed: [placed.pod.name], "cannot be hashed"),
    "an exception": ("filter", lambda state, fleet, rows: 1 // 0, "raises ZeroDivisionError"),
    "a mask": ("filter", lambda state, fleet, rows: fleet.live[rows], "must answer [6] uint16, not [6] bool"),
    "a list": ("filter", lambda state, fleet, rows: [0], "must answer [6] uint16, not list"),
    "an unknown code": ("filter", always_one, "code 999, which is none"),
    "no number": ("score", lambda state, fleet, rows: np.full(length(fleet, rows), np.nan), "not finite"),
    "another scale": ("score", lambda state, fleet, rows: np.full(length(fleet, rows), 101.0), "must lie in 0..100"),
    "a score by position": ("score", lambda state, fleet, rows: np.arange(float(length(fleet, rows))), "row by row"),
    "a booking that stays": ("unreserve", lambda placed, row, fleet: None, "does not undo"),
    "an explanation of objects": ("explain", lambda state, placed, fleet, row: {"row": np.int64(1)}, "no plain JSON"),
}


def test_a_plugin_that_keeps_the_laws_breaks_none() -> None:
    assert broken_laws(Harmless()) == []


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_plugin_of_ours_keeps_the_laws(name: str) -> None:
    assert broken_laws(REGISTRY[name].make({}, PluginContext())) == []


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_law_is_told(what: str) -> None:
    method, instead, want = BREAKS[what]
    plugin = Harmless()
    setattr(plugin, method, instead)
    assert any(want in text for text in broken_laws(plugin)), broken_laws(plugin)


@pytest.mark.parametrize(
    ("plugin", "want"),
    [(Restless(), "differently when asked again"), (Unequal(), "has the class key of another pod but")],
    ids=["key", "answer"],
)
def test_a_broken_class_is_told(plugin: Plugin, want: str) -> None:
    assert any(want in text for text in broken_laws(plugin)), broken_laws(plugin)
