"""Two executors of one cluster at the same time: one acts, whatever becomes of the other."""

import pytest

from tests.simulation.faults import draw
from tests.simulation.planted import executors, search
from tests.simulation.planted.scripted import Hint, Scene, Script
from tests.simulation.telling import Told, tell
from tests.simulation.world.loop import live
from tests.simulation.world.processes import sim_client

pytestmark = pytest.mark.patient

STORIES = (executors.a_second_executor, executors.a_node_that_was_given_up, executors.a_machine_that_slept)


def told(script: Script) -> Told:
    async def story() -> Told:
        return await Scene(Hint(script), 1).tell()

    with sim_client():
        return live(story, 1)


@pytest.mark.parametrize("script", STORIES, ids=[script.__name__ for script in STORIES])
def test_every_pod_runs_once_and_one_executor_at_a_time_writes(script: Script) -> None:
    ended = told(script)
    assert not ended.violations
    assert sum(what.startswith("runs on") for _, _, what in ended.lines) == 8


def test_promises_hold_where_chance_brings_second_executors_pauses_and_cuts() -> None:
    assert not tell(draw(1, ("executors",))).violations


@pytest.mark.parametrize("name", ["executor-without-its-lease-acts", "executor-acts-on-after-its-lease"])
def test_an_executor_that_acts_without_its_lease_is_found(name: str) -> None:
    found = search(name, most=1).found
    assert found is not None
    assert found.judge == "OneExecutor(I1)"
