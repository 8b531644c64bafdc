"""Drains of nodes that run delegates, by kube-apiserver's Eviction API, its controllers, and kubectl itself."""

import pytest

from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.fleet import RealFleet, start
from tests.system.cluster_api import eventually
from tests.system.harness import System
from tests.system.test_drains import (
    NEEDED,
    NODES,
    REPLICAS,
    TARGET,
    cleared,
    drain_two_nodes,
    protected,
    shadows,
    spare,
    test_a_budget_is_kept_while_the_dispatcher_is_away,
    test_an_eviction_in_the_target_spends_the_budget_of_the_source,
    test_the_targets_own_budget_takes_the_shadows_place,
)

__all__ = [
    "test_a_budget_is_kept_while_the_dispatcher_is_away",
    "test_an_eviction_in_the_target_spends_the_budget_of_the_source",
    "test_the_targets_own_budget_takes_the_shadows_place",
]


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Planes of which two nodes can be drained onto the third."""
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": NODES})


def test_kubectl_drain_in_the_target_leaves_as_many_ready_as_the_source_needs(system: System, fleet: RealFleet) -> None:
    def kubectl(_: System, node: str) -> None:
        fleet.planes[TARGET].kubectl("drain", node, "--force", "--timeout=300s")

    protected(system)
    assert drain_two_nodes(system, kubectl) >= NEEDED
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 60, lambda: f"{shadows(system)}\n{system.log}")
    cleared(system)
