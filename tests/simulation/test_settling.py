"""A story is judged when all is calm, and not while somebody still waits for what the trouble has taken."""

from collections.abc import Iterator

from agents.executor.http import Request
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.telling import Told
from tests.simulation.world.loop import live
from tests.simulation.world.processes import sim_client

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
