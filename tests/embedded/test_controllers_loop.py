"""The work queue of the controllers: one object's trouble is nobody else's, and nothing is forgotten."""

import itertools
import random
from collections.abc import Iterable

import pytest

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.controllers.loop import ControlLoop
from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.storage import Storage
from tests.embedded.simulated import Clock, Object


class Recording:
    """A controller of ConfigMaps that notes when it was called, and does as told for some of them."""

    name = "recording"

    def __init__(self, clock: Clock) -> None:
        self.calls: list[tuple[str, float]] = []
        self.raises: dict[str, Exception] = {}
        self.again: dict[str, float] = {}
        self._clock = clock

    def keys(self, ref: Ref, _obj: Object, _old: Object | None) -> Iterable[Ref]:
        """The object itself."""
        yield ref

    def reconcile(self, key: Ref, now: float) -> float | None:
        """Note, and raise or ask to be called again."""
        self.calls.append((key.name, now))
        if key.name in self.raises:
            raise self.raises[key.name]
        return self.again.get(key.name)

    def times(self, name: str) -> int:
        """How often it was called for one object."""
        return sum(called == name for called, _ in self.calls)


class Bench:
    """A loop over one recording controller."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.api = Api(clock=self.clock, storage=Storage(None), random=random.Random(1), name="a")
        self.controller = Recording(self.clock)
        self.loop = ControlLoop(World(self.api, ["configmaps"]), [self.controller], self.clock)
        self.loop.start()
        self.loop.settle()
        self.controller.calls.clear()

    def make(self, name: str) -> None:
        """Create a ConfigMap."""
        self.api.create("configmaps", {"metadata": {"name": name}}, "default")

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 10)):
            self.clock.now += 0.1
            self.loop.settle()


def test_many_changes_of_one_object_are_answered_once() -> None:
    bench = Bench()
    bench.make("busy")
    for number in range(20):
        bench.api.patch("configmaps", "busy", "default", {"data": {"n": str(number)}}, kind="merge")
    bench.loop.settle()
    assert bench.controller.times("busy") == 1


@pytest.mark.parametrize("error", [KeyError("broken"), ApiError(409, "Conflict", "moved on")], ids=["bug", "refusal"])
def test_an_object_that_fails_is_tried_ever_later_and_holds_up_nobody(error: Exception) -> None:
    bench = Bench()
    bench.controller.raises["bad"] = error
    bench.make("bad")
    bench.make("good")
    bench.wait(10)
    assert bench.controller.times("good") == 1
    moments = [moment for name, moment in bench.controller.calls if name == "bad"]
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    assert 5 <= len(moments) <= 9
    assert gaps == sorted(gaps)


def test_after_a_success_the_back_off_begins_anew() -> None:
    bench = Bench()
    bench.controller.raises["bad"] = KeyError("broken")
    bench.make("bad")
    bench.wait(5)
    del bench.controller.raises["bad"]
    bench.wait(10)
    bench.controller.raises["bad"] = KeyError("broken again")
    bench.controller.calls.clear()
    bench.api.patch("configmaps", "bad", "default", {"data": {"n": "1"}}, kind="merge")
    bench.wait(0.5)
    assert bench.controller.times("bad") >= 2


def test_a_controller_is_called_again_when_it_asked_to_be() -> None:
    bench = Bench()
    bench.controller.again["timed"] = 2.0
    bench.make("timed")
    bench.loop.settle()
    bench.wait(1.5)
    assert bench.controller.times("timed") == 1
    bench.wait(1)
    assert bench.controller.times("timed") == 2


def test_everything_there_is_is_looked_at_once_at_the_start() -> None:
    bench = Bench()
    bench.make("old")
    again = Recording(bench.clock)
    loop = ControlLoop(World(bench.api, ["configmaps"]), [again], bench.clock)
    loop.start()
    loop.settle()
    assert again.times("old") == 1
