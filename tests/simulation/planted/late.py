"""Creations that hang, are given up, and land long after."""

from collections.abc import Iterator
from math import inf
from typing import Any

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.stories import SMALL
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.net import Asked


def _first_hangs(at: Scene, seconds: float) -> None:
    """The first creation of a pod in cluster west reaches its server so much later; its sender waits ten seconds."""
    left = iter((seconds,))

    def hang(request: Asked) -> float:
        return next(left, 0.0) if request.method == "POST" and request.path.endswith("/pods") else 0.0

    at.cluster("west").wire.hang = hang


def deleted_meanwhile(at: Scene) -> Iterator[Wait]:
    """The pod is deleted and gone before the first creation of its copy lands."""
    _first_hangs(at, 40.0)
    at.submit("a", "west")
    yield 5.0
    at.delete("a")
    yield 115.0  # 35 s until it lands, then as long as what is left over may stay


def refused_meanwhile(at: Scene) -> Iterator[Wait]:
    """The second creation makes too large a copy; the refusal is lost, and the first lands before the next order."""
    at.load("east", 300)
    at.load("north", 300)
    at.act("sidecar", "west", 1.0, dice=0)
    _first_hangs(at, 20.0)
    at.submit("a", "west,east", 600, namespace="team")
    yield 5.0
    at.links("west", 30.0, cut_back=True)
    yield 60.0


def superseded_meanwhile(at: Scene) -> Iterator[Wait]:
    """All creations hang, and another dispatcher leads."""
    at.act("webhook-hangs", "west", 60.0)
    at.submit("a", "west", namespace="team")
    yield 1.0
    at.crash(1.0, soon=True)
    yield 70.0


@plant("what a late creation has made stays", hint=Hint(deleted_meanwhile))
def leftovers_stay(patches: Patches) -> None:
    from agents.executor.duties import orphan_delegates

    patches.set(orphan_delegates, "LEFT_S", inf)


@plant("what a late creation of a refused order has made is waited for", hint=Hint(refused_meanwhile, SMALL))
def leftovers_block(patches: Patches) -> None:
    from agents.executor.trust.epoch_guard import EpochGuard
    from dispatcher.scheduling.core.outcomes import Outcomes

    leftovers_stay(patches)
    patches.set(EpochGuard, "is_over", lambda self, uid, epoch: False)
    # Else the dispatcher asks after a minute, and has the leftover deleted.
    patches.set(Outcomes, "doubted", lambda self, tracked, in_flight, now: None)


@plant("orders of a superseded dispatcher are tried on", hint=Hint(superseded_meanwhile))
def superseded_tried_on(patches: Patches) -> None:
    from agents.runtime.driver import Driver

    async def pause(self: Any, seconds: float, execution: Any) -> None:
        await self._pause(seconds, execution)

    patches.set(Driver, "_hesitate", pause)
