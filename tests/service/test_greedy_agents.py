"""An agent that asks for more than its share gets a named error; the others go on."""

from dispatcher.model.bounds import MAX_USES
from dispatcher.model.messages import Changes
from dispatcher.model.owner_use import OwnerUse
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent
from dispatcher.service.link import LocalLink
from tests.service.fakes import FakeAgent, FakeCore, running, service

USE = OwnerUse("default", "Deployment/web", 1.0, 1.0, 1.0)


async def test_an_agent_beyond_the_bounds_is_told_of_by_name_and_the_others_go_on() -> None:
    class Talkative(FakeAgent):
        async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
            return Changes("east", "uid", "one", 0, 1, full=True, uses=(USE,) * (MAX_USES + 1))

    core = FakeCore()
    async with running(service(core, LocalLink("east", Talkative("east")), LocalLink("west", FakeAgent("west")))):
        await core.until(lambda: bool(core.of(ClusterSilent)) and len(core.of(ClusterChanged)) > 2)
    (silent, *_) = core.of(ClusterSilent)
    assert silent.cluster == "east"
    assert "agent of cluster east: not a Changes" in silent.problem
    assert f"<= {MAX_USES} - at `$.uses`" in silent.problem
    assert {event.changes.cluster for event in core.of(ClusterChanged)} == {"west"}
