"""A cluster that nobody hears for minutes or an hour of virtual time: afterwards its agent tells what changed alone."""

import asyncio

import pytest

from dispatcher.scheduling import events
from shared.messages import Changes
from tests.laws.examples import ALL
from tests.simulation.test_other_hands import Calm, source


class Overheard(Calm):
    """Keeps what agents tell."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Changes] = []

    def _feed(self, event: events.Event) -> None:
        if isinstance(event, events.ClusterChanged):
            self.told.append(event.changes)
        super()._feed(event)


@pytest.mark.parametrize("seconds", (180, 3600) if ALL else (180,))
def test_after_a_cut_an_agent_of_the_same_life_tells_what_changed_and_what_ran_goes_on(seconds: int) -> None:
    async def story() -> None:
        fleet = Overheard()
        await fleet.remote("web")
        west = fleet.clusters["west"]
        life, (copy,) = west.lives, west.delegates()
        fleet.silent.add("west")
        await fleet.run(10)
        west.submit("meanwhile", "100m", 0, away=False)
        fleet.told.clear()
        await fleet.run(seconds)
        assert not [one for one in fleet.told if one.cluster == "west"]
        fleet.silent.discard("west")
        await fleet.run(20)
        first, *later = [one for one in fleet.told if one.cluster == "west"]
        assert not any(one.full for one in (first, *later))
        assert not first.nodes
        assert "meanwhile" in {pod.name for pod in first.pods}
        assert west.lives == life
        assert [one["metadata"]["uid"] for one in west.delegates()] == [copy["metadata"]["uid"]]
        assert source(fleet)["status"]["phase"] == "Running"

    asyncio.run(story())
