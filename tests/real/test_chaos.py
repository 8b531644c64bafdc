"""Kills, freezes, partitions, restored etcds, new dispatchers, in an order that a seed gives: each replica runs once.

GLOBAL_DISPATCHER_TEST_BLOWS says how many blows: 29 are one deck, some minutes.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real import partition
from tests.real.blows import CHAOS, Blows
from tests.real.census import Census
from tests.real.fleet import CLUSTERS, RealFleet, start
from tests.real.ledger import Ledger
from tests.saying import Say
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import HOME, System

REPLICAS = 300
FEW = 5  # another part of a deck in each run, without restores: what they leave is collected in a quarter of an hour
GLOBAL_DISPATCHER = (sys.executable, "-m", "dispatcher.cli.main")
NOTICED_S = 60
SETTLE_S, TAKEN_S = 60, 200  # delegates whose sources a restore took go after two answers that are 600 s apart
DELETED = 3  # pods that their user deletes before each blow; several times as many while a backup grows old
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SEED, BLOWS = "GLOBAL_DISPATCHER_TEST_SEED", "GLOBAL_DISPATCHER_TEST_BLOWS"
pytestmark = pytest.mark.timeout(3600 + 60 * int(os.environ.get(BLOWS) or FEW))


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFleet]:
    """Small planes: what is shown is not their size. Agents reach them by ways that can be cut, where this may be."""
    started = start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": 20})
    with contextlib.ExitStack() as stack:
        if not partition.unavailable():
            stack.callback(started.close_ways)
            started.lay_ways(tmp_path_factory.mktemp("ways"))
        yield started


def test_each_replica_runs_once_and_no_other_pod_ends_after_kills_freezes_partitions_and_restores(
    system: System, fleet: RealFleet, tmp_path: Path, say: Say
) -> None:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(2**32))
    ledger = Ledger(system, fleet, seed)
    left_out = [] if os.environ.get(BLOWS) else ["restored etcd"]
    if why := partition.unavailable():
        say(why)
        left_out.append("partition")
    parts = {part: count for part, count in CHAOS.items() if part not in left_out}
    count = int(os.environ.get(BLOWS) or FEW)

    def grow_old() -> None:
        """A backup differs from what is restored over: other pods have come and run."""
        ledger.delete_some(4 * DELETED)
        settle(system, fleet, taken=ledger.taken)

    def restored(plane: str) -> None:
        """Found out by those who watch, confirmed by an operator, mended, before a kill makes them read all anew."""
        ledger.restored(plane)
        eventually(lambda: "went back" in problem_of(system, plane), NOTICED_S, lambda: system.log)
        confirm(plane)
        settle(system, fleet, taken=ledger.taken)

    def confirm(plane: str) -> None:
        command = ["cluster", "confirm", plane, "--config", str(admin), "--yes"]
        told = subprocess.run([*GLOBAL_DISPATCHER, *command], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr

    admin = tmp_path / "dispatcher.yaml"
    clusters = [{"name": name, "context": name, "kubeconfig": str(fleet.kubeconfig)} for name in CLUSTERS]
    admin.write_text(json.dumps({"clusters": clusters}))
    blows = Blows(system, fleet, seed, parts, count, grow_old, restored)
    say(f"{count} blows in the order of {SEED}={seed}")
    system.home.create(DEPLOYMENTS, deployment("web", REPLICAS, requests={"cpu": "100m", "memory": "64Mi"}))
    settle(system, fleet)
    assert {pod.plane for pod in ledger.look().delegates} == set(CLUSTERS) - {HOME}
    try:
        for part in blows.order:
            ledger.delete_some(DELETED)
            blows.moment(2.0)
            blows.strike(part)
        if ledger.taken:  # of many orphans a dispatcher that has begun since asks an operator once more
            settle(system, fleet, taken=ledger.taken)
            confirm(HOME)
        settle(system, fleet, TAKEN_S if ledger.taken else SETTLE_S)
    finally:
        say(f"struck {len(blows.told)} of {count}: {', '.join(blows.told)}")
    assert not ledger.lost(), "\n".join(ledger.lost())


def problem_of(system: System, plane: str) -> str:
    """What the dispatcher says is wrong with a cluster."""
    return next(str(row["problem"]) for row in system.get("/v1/clusters") if row["name"] == plane)


def settle(
    system: System, fleet: RealFleet, patience_s: float = SETTLE_S, taken: Collection[str] = frozenset()
) -> None:
    """Until each replica runs once, and nothing else is there: no pod whose end waits for a finalizer, no orphan.

    Orphans whose sources are `taken` may be there.
    """

    def astray() -> list[str]:
        census = Census(fleet.planes.values())
        wrong = [f"{pod.plane}/{pod.name} does not end" for pod in census.pods if pod.ending]
        wrong += census.astray(taken)
        return wrong if len(census.sources) == REPLICAS else [f"{len(census.sources)} replicas", *wrong]

    def told() -> str:
        return "\n".join([*astray()[:20], system.log])

    eventually(lambda: not astray(), patience_s, told, lambda: -len(astray()))
