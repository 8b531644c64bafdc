"""A story is judged when all is calm, and not while somebody still waits for what the trouble has taken."""

from collections.abc import Iterator

import pytest

from shared.kube.http import Request
from tests.simulation.acts import plain_pod
from tests.simulation.judges.facts import FINALIZER
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.telling import Told
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.loop import live
from tests.simulation.world.processes import sim_client

pytestmark = pytest.mark.patient

LONG_S = 90.0


def a_lost_reply(at: Scene) -> Iterator[Wait]:
    """Somebody asks, and waits long for a reply that is lost."""
    at.weather("east", 1.0, lose_replies=1.0)
    at.spawn(at.cluster("east").wire.call(Request("GET", "/api/v1/pods"), LONG_S))
    yield 2.0


def test_it_is_not_calm_while_somebody_waits_for_a_reply_that_was_lost() -> None:
    async def story() -> Told:
        return await Scene(Hint(a_lost_reply), 1).tell()

    with sim_client():
        told = live(story, 1)
    assert not told.violations
    assert next(at for at, _, what in told.lines if what == "calm") > LONG_S


def a_new_leader(at: Scene) -> Iterator[Wait]:
    """A pod comes with our finalizer, which means nothing, while no dispatcher leads."""
    at.dispatcher.kill()
    pod = plain_pod("cheat", "default", 100)
    pod["metadata"]["finalizers"] = [FINALIZER]
    at.fleet.meddled.add(f"{NAMESPACES}/default/pods/cheat")
    at.cluster("north").api.ask("hostile", "POST", f"{NAMESPACES}/default/pods", pod)
    yield 5.0


def test_it_is_not_calm_while_a_new_leader_still_counts_for_how_long_something_is_missing() -> None:
    async def story() -> Told:
        return await Scene(Hint(a_new_leader), 1).tell()

    with sim_client():
        told = live(story, 1)
    assert not told.violations
