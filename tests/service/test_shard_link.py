"""The link to a shard under a Ray of paper: it never raises, waits once, and brings back what died or hangs."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError

from dispatcher.scheduling.shards.frames import NOTHING, Frame
from dispatcher.service.shards import link as module
from dispatcher.service.shards.link import AGAIN_S, STUCK_S, RayShard

ORDER = Frame(b"order", NOTHING)
TOLD = (b"told", np.zeros(3, dtype=np.int32), 0.25)


@dataclass
class Call:
    """One call under way: `value` None until it has ended."""

    method: str
    given: tuple[Any, ...]
    value: Any = None


class PaperRay:
    """Calls to one actor, ended by the test; and a clock."""

    def __init__(self) -> None:
        self.now, self.killed, self.made = 100.0, 0, 0
        self.calls: list[Call] = []

    def create(self) -> Any:
        self.made += 1
        return SimpleNamespace(**{name: SimpleNamespace(remote=self._remote(name)) for name in ("configure", "take")})

    def _remote(self, method: str) -> Any:
        def remote(*given: Any) -> Call:
            call = Call(method, given)
            self.calls.append(call)
            return call

        return remote

    def end(self, value: Any) -> None:
        """The last call ends with this."""
        self.calls[-1].value = value

    def get(self, call: Call, timeout: float | None = None) -> Any:
        if call.value is None:
            raise GetTimeoutError("late")
        if isinstance(call.value, Exception):
            raise call.value
        return call.value

    def wait(self, calls: list[Call], timeout: float) -> tuple[list[Call], list[Call]]:
        return [one for one in calls if one.value is not None], [one for one in calls if one.value is None]

    def kill(self, actor: Any, *, no_restart: bool) -> None:
        assert not no_restart
        self.killed += 1


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PaperRay:
    paper = PaperRay()
    monkeypatch.setattr(module, "ray", paper)
    monkeypatch.setattr(module, "monotonic", lambda: paper.now)
    return paper


def up(ray: PaperRay) -> RayShard:
    """A shard that is configured."""
    link = RayShard(0, ray.create, b"policy")
    ray.end(b"")
    assert link.ready
    return link


def test_a_shard_is_configured_before_it_is_asked(ray: PaperRay) -> None:
    link = RayShard(0, ray.create, b"policy")
    assert link.state == "starting"
    ray.end(b"")
    assert link.state == "up"
    assert [(call.method, call.given) for call in ray.calls] == [("configure", (b"policy",))]
    link.configure(b"other")
    assert not link.ready
    ray.end(b"")
    assert (link.ready, link.life, ray.made) == (True, 1, 1)


def test_an_answer_is_what_the_shard_told(ray: PaperRay) -> None:
    link = up(ray)
    link.send(ORDER)
    assert not link.idle
    ray.end(TOLD)
    assert link.answer() == Frame(TOLD[0], TOLD[1])
    assert (link.seconds, link.idle, link.answer()) == (0.25, True, None)


def test_a_late_shard_is_left_alone_until_its_answer_has_come(ray: PaperRay) -> None:
    link = up(ray)
    link.send(ORDER)
    assert link.answer() is None
    assert (link.ready, link.state, link.life) == (False, "late", 1)
    ray.end(TOLD)
    assert (link.ready, link.state, link.life) == (True, "up", 1)


def test_a_shard_that_hangs_is_ended_and_configured_anew(ray: PaperRay) -> None:
    link = up(ray)
    link.send(ORDER)
    assert link.answer() is None
    ray.now += STUCK_S + 1
    assert not link.ready
    assert (ray.killed, ray.calls[-1].method, link.life) == (1, "configure", 2)
    ray.end(b"")
    assert link.ready


@pytest.mark.parametrize("asked", [True, False], ids=["while it answers", "with nobody waiting"])
def test_a_shard_that_dies_begins_a_new_life_after_a_while(ray: PaperRay, asked: bool) -> None:
    link = up(ray)
    link.send(ORDER)
    ray.end(ActorDiedError())
    assert link.answer() is None if asked else not link.idle
    assert (link.ready, link.state) == (False, "starting")
    ray.now += AGAIN_S
    assert not link.ready
    assert (ray.calls[-1].method, link.life, ray.made) == ("configure", 2, 1)
    ray.end(b"")
    assert link.idle


def test_a_life_that_was_never_configured_is_no_life(ray: PaperRay) -> None:
    link = up(ray)
    link.send(ORDER)
    ray.end(LookupError("this shard has begun anew"))
    assert link.answer() is None
    ray.now += AGAIN_S
    assert not link.ready
    assert link.life == 2


def test_without_ray_there_is_no_error_and_no_shard(ray: PaperRay) -> None:
    def fail() -> Any:
        raise ConnectionError("Ray is away")

    link = RayShard(0, fail, b"policy")
    link.send(ORDER)
    assert (link.ready, link.answer(), link.state) == (False, None, "starting")


def test_small_bodies_go_as_bytes_and_great_ones_as_they_are(ray: PaperRay) -> None:
    link = up(ray)
    link.send(Frame(b"order", np.arange(5, dtype=np.uint8)))
    great = np.zeros(1 << 17, dtype=np.uint8)
    link.send(Frame(b"order", great))
    assert ray.calls[-2].given == (b"order", bytes(range(5)))
    assert ray.calls[-1].given[1] is great
