"""Clusters are drained where pods run that a disruption budget of another cluster means: no story breaks the budget."""

import pytest

from tests.simulation.judges.budgets import DRAINS
from tests.simulation.planted import drains
from tests.simulation.planted.scripted import Hint, Scene, Script
from tests.simulation.telling import Told
from tests.simulation.world.loop import live
from tests.simulation.world.processes import sim_client

pytestmark = pytest.mark.patient


def _told(script: Script, seed: int) -> Told:
    async def tell() -> Told:
        return await Scene(Hint(script, drains.BUDGETED), seed).tell()

    with sim_client():
        return live(tell, seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("script", [drains.one_cluster, drains.two_clusters])
def test_a_drain_leaves_as_many_ready_as_the_budget_at_home_asks_for(script: Script, seed: int) -> None:
    told = _told(script, seed)
    assert [*map(str, told.violations)] == []
    evicted = [of for _, of, what in told.lines if what.startswith(f"delete by {DRAINS}")]
    assert evicted  # so that it is no story in which nothing is ever let go
