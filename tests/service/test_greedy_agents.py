"""An agent that asks for more than its share gets a named error; the others go on."""

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent
from dispatcher.service.links.link import LocalLink
from shared.messages import Changes, encode
from shared.messages.memory import memory_of
from shared.model.bounds import MAX_USES
from shared.model.node import Node
from shared.model.owner_use import OwnerUse
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


async def test_a_report_beyond_its_share_of_memory_is_not_read_and_the_others_go_on() -> None:
    class Heavy(FakeAgent):
        async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
            self.asked.append((incarnation, since))
            nodes = tuple(Node(f"n{at}", f"u{at}", {f"{key}": "x" for key in range(1000)}) for at in range(40))
            return Changes("east", "uid", "one", 0, 1, full=True, nodes=nodes)

    core, heavy = FakeCore(), Heavy("east")
    core.clusters["east"] = ClusterView("east", most_memory=2**20)
    async with running(service(core, LocalLink("east", heavy), LocalLink("west", FakeAgent("west")))):
        await core.until(lambda: len(core.of(ClusterSilent)) > 1 and len(core.of(ClusterChanged)) > 2)
    text = core.of(ClusterSilent)[0].problem
    assert text.startswith("cluster east: what its agent reports would take 4 MiB of memory, and 1 are its share")
    assert "raise `report_mib` in its entry of `clusters`" in text
    assert {event.changes.cluster for event in core.of(ClusterChanged)} == {"west"}
    assert set(heavy.asked) == {("", 0)}, "it is asked for all of it again, which may be less"


async def test_what_a_report_takes_is_told_to_the_core() -> None:
    core = FakeCore()
    async with running(service(core, LocalLink("west", FakeAgent("west")))):
        await core.until(lambda: bool(core.of(ClusterChanged)))
    told = core.of(ClusterChanged)[0]
    assert told.memory == memory_of(encode(told.changes))
