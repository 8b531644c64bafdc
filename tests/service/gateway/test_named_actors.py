"""How the dispatcher finds gateway actors by name, and which of them it ends; Ray's calls are played."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import ray

from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway import actor
from dispatcher.service.gateway.actor import open_actors, surplus_ends
from tests.service.gateway.test_gateway import eventually


@dataclass
class PlayedRay:
    """Names, and which actor has each."""

    held: dict[str, object]
    killed: list[object] = field(default_factory=list)

    def get_actor(self, name: str, namespace: str) -> object:
        if name not in self.held:
            raise ValueError(f"no actor {name}")
        return self.held[name]

    def kill(self, one: object) -> None:
        self.killed.append(one)
        self.held = {name: other for name, other in self.held.items() if other != one}


@contextmanager
def played(*names: str) -> Iterator[PlayedRay]:
    """A Ray with actors of these names, each known by its name."""
    with pytest.MonkeyPatch.context() as patch:
        one = PlayedRay({name: name for name in names})
        for call in (one.get_actor, one.kill):
            patch.setattr(ray, call.__name__, call)
        patch.setattr(actor, "list_named_actors", lambda: list(one.held))
        patch.setattr(actor, "SURPLUS_S", 0.01)
        yield one


FLEET = ("gateway-0", "gateway-1", "gateway-2", "gateway-4", "gateway-10", "agent:gateway-7", "gateway-x")
KEPT = {"gateway-0", "gateway-1", "agent:gateway-7", "gateway-x"}


def test_who_starts_beside_a_leader_with_more_actors_ends_none_of_them() -> None:
    with played(*FLEET) as one:
        assert list(open_actors(GatewaySection(actors=2), ("east",), "info")) == ["gateway-0", "gateway-1"]
        assert one.killed == []


async def test_actors_beyond_the_configured_number_end_once_this_dispatcher_leads() -> None:
    leads = False
    with played(*FLEET) as one:
        async with surplus_ends(2, lambda: leads):
            await asyncio.sleep(0.05)
            assert one.killed == []
            leads = True
            await eventually(lambda: set(one.held) == KEPT)


async def test_an_actor_that_a_standby_makes_again_ends_again() -> None:
    with played(*FLEET) as one:
        async with surplus_ends(2, lambda: True):
            await eventually(lambda: set(one.held) == KEPT)
            one.held["gateway-2"] = "gateway-2"
            await eventually(lambda: set(one.held) == KEPT)
    assert one.killed.count("gateway-2") == 2


@pytest.mark.parametrize("odd", [RuntimeError, OSError, ray.exceptions.RaySystemError])
async def test_a_ray_that_cannot_be_asked_is_asked_again(odd: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []

    def away() -> list[str]:
        asked.append(None)
        raise odd("Ray is away")

    with played(*FLEET):
        monkeypatch.setattr(actor, "list_named_actors", away)
        async with surplus_ends(2, lambda: True):
            await eventually(lambda: len(asked) > 1)


@pytest.mark.parametrize("after", [{}, {"gateway-0": "another"}])
def test_an_actor_is_gone_when_nobody_or_another_has_its_name(after: dict[str, object]) -> None:
    with played("gateway-0") as one:
        one.held = after
        begun = time.monotonic()
        actor._wait_until_gone("gateway-0", "gateway-0")
        assert time.monotonic() - begun < actor._STARTING_S / 2


def test_an_actor_that_still_has_its_name_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "_STARTING_S", 0.1)
    with played("gateway-0"):
        begun = time.monotonic()
        actor._wait_until_gone("gateway-0", "gateway-0")
        assert time.monotonic() - begun >= 0.1
