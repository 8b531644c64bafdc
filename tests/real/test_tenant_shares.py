"""Three tenants with endless demand share two planes by weight; what one leaves is lent, and is handed back.

The short form of `python -m benchmarks --only tenants_on_planes`. Limits leave room for a starved machine, where what
has ended is replaced late.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.tenant_shares import WEIGHTS, lend, steady
from benchmarks.tenants_on_planes import ACCEPT, Demand, make_namespaces, write_tenants
from localfleet.controlplane.nodes import NodeSpec
from tests.charts.rendering import Helm, of_kind
from tests.controlplane.fixtures import ControlPlanes
from tests.real.fleet import RealFleet, start
from tests.saying import Say
from tests.system.cluster_api import eventually
from tests.system.harness import HOME, System

CPUS, NODES, GRACE_S = 40, 2, 5
SETTLE_S, WINDOW_S = 20, 30
LENT_S, BACK_S = 10, 45


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Planes that have room for all that is given out, and whose agents may evict."""

    def nodes(name: str) -> list[NodeSpec]:
        return [NodeSpec(f"{name}-{number}", cpu="32", pods="250") for number in range(NODES)]

    folder = tmp_path_factory.mktemp("fleet")
    started = start(control_plane, helm, folder, lambda name: {"nodes": nodes(name)})
    for name, plane in started.planes.items():
        objects = helm.template("agent", {"cluster": name, "rebalancing": {"enabled": True}})
        plane.apply(*of_kind(objects, "ClusterRole"))
    return started


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tenants") / "tenants.yaml"
    write_tenants(file, CPUS, given=False)
    return file


@pytest.fixture(scope="module")
def system(fleet: RealFleet, tenants: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The fleet with a dispatcher that knows the tenants."""
    make_namespaces(fleet.planes.values())
    members = fleet.members()
    for one in members:
        one["agent"]["executor"].update(ACCEPT)
    config = {"clusters": members, "tenants": str(tenants)}
    with System(tmp_path_factory.mktemp("dispatcher"), fleet, config, readings=False) as started:
        started.wait_ready()
        yield started


@pytest.fixture
def demand(system: System, fleet: RealFleet) -> Iterator[Demand]:
    """Pods of one of the tenants are submitted in another cluster."""
    homes = {name: fleet.planes["north" if name == "blue" else HOME] for name in WEIGHTS}
    with Demand(homes, CPUS, grace_s=GRACE_S, runs_s=(10, 20)) as started:
        yield started
        for name in WEIGHTS:
            started.leave(name)


def test_tenants_with_endless_demand_have_what_their_weights_say(demand: Demand, say: Say) -> None:
    (window,) = steady(demand, 1, WINDOW_S, SETTLE_S)
    say(f"{100 * window.furthest:.1f} % off, Jain's index {window.jain:.4f}, {100 * window.busy:.0f} % used")
    assert window.furthest <= 0.1
    assert window.jain >= 0.99
    assert window.busy <= 1.0


def test_what_a_tenant_leaves_is_lent_and_handed_back_when_borrowers_have_had_their_grace(
    demand: Demand, system: System, tenants: Path, say: Say
) -> None:
    write_tenants(tenants, CPUS, given=True)
    eventually(lambda: "changed policies hold from now on" in system.log, 30, lambda: system.log)
    demand.endless = True
    lent = lend(demand, SETTLE_S / 2)
    late_s = lent.back_s - GRACE_S
    say(f"{lent.lent_s:.1f} s until it is lent; {lent.evicted} evicted, {late_s:.1f} s beyond their grace")
    assert lent.lent_s <= LENT_S
    assert lent.evicted > 0
    assert 0 <= late_s <= BACK_S
