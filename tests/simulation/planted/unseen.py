"""What was bound and no watch has shown yet keeps its room and its quota."""

from collections.abc import Iterator
from typing import Any

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.stories import SCARCE, SETTLED_S
from tests.simulation.planted.table import Patches, plant


def source_restored_away(at: Scene) -> Iterator[Wait]:
    """Nobody is shown the copy that fills the quota, and its source goes in a restore."""
    restore = at.back_up("north")
    at.strike("west", "bind", lambda: at.freeze("west", seconds=30.0), moment="before")
    at.submit("a", "west", 600, namespace="team")
    yield lambda: any(copy["spec"].get("nodeName") for copy in at.copies("west"))
    yield 2.0
    restore()
    yield 5.0
    at.submit("b", "east", 600, home="east", namespace="team")
    yield SETTLED_S


def lost_at_once(at: Scene) -> Iterator[Wait]:
    """The cluster of the pod that fills the quota is out of reach from the moment that the pod is bound."""
    at.strike("north", "bind", lambda: at.freeze("north", seconds=60.0), moment="before")
    at.strike("north", "bind", lambda: at.later(1.0, lambda: at.links("north", 60.0, cut_there=True, cut_back=True)))
    at.submit("a", "north", 600, namespace="team")
    yield 25.0
    at.submit("b", "east", 600, home="east", namespace="team")
    yield SETTLED_S


@plant("a source that went in a restore has no delegate but one that was seen", hint=Hint(source_restored_away, SCARCE))
def vanished_forgotten(patches: Patches) -> None:
    from dispatcher.scheduling.delegation.tracking import Tracked

    patches.set(Tracked, "_unseen_abroad", lambda self: None)


@plant("what a lost cluster has not shown in time is not there", hint=Hint(lost_at_once, SCARCE))
def unshown_given_up(patches: Patches) -> None:
    from dispatcher.scheduling.core.state import CoreState

    def is_late(self: Any, tracked: Any, in_flight: Any, now: float) -> bool:
        return bool(now - in_flight.sent_at > self.timing.settle_s)

    patches.set(CoreState, "_is_late", is_late)
