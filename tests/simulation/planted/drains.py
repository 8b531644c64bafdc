"""Drains of clusters where pods of others run that have a disruption budget at home."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from tests.simulation.acts import plain_pod
from tests.simulation.judges.budgets import DRAINS
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.controllers import ReplicaSet, path_of
from tests.simulation.world.fleet import Sizes

BUDGETED = Sizes(nodes=2, budgets=True)
REPLICAS, LEAST, DRAINED_S = 4, 3, 50


def _budget(at: Scene, clusters: str) -> None:
    """So many replicas of north that run elsewhere, of which one may be missing."""
    meta = {"name": "web", "namespace": "default"}
    spec = {"minAvailable": LEAST, "selector": {"matchLabels": {"app": "web"}}}
    home = at.cluster("north")
    home.api.ask(
        "user", "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": meta, "spec": spec}
    )
    home.controllers.sets.append(
        ReplicaSet("web", "default", REPLICAS, plain_pod("web", "default", 100, clusters=clusters))
    )


def _all_ready(at: Scene) -> bool:
    pods = [pod for pod in at.cluster("north").api.pods("default") if pod["status"].get("phase") == "Running"]
    return len(pods) == REPLICAS


async def _drain(at: Scene, node: str) -> None:
    """kubectl drain: every half second it asks again for what it was refused."""
    cluster = at.cluster(node.rpartition("-")[0])
    cluster.cordon(node, on=True)
    for _ in range(2 * DRAINED_S):
        for pod in at.copies(cluster.name):
            if pod["spec"].get("nodeName") == node and not pod["metadata"].get("deletionTimestamp"):
                cluster.api.ask(DRAINS, "POST", f"{path_of(pod)}/eviction", {})
        await asyncio.sleep(0.5)
    cluster.cordon(node, on=False)


def _drains(at: Scene, clusters: Iterable[str]) -> Iterator[Wait]:
    """Node after node, in all these clusters at once; writes at home take their time."""
    _budget(at, ",".join(clusters))
    yield lambda: _all_ready(at)
    yield 10.0
    for number in range(at.fleet.sizes.nodes):
        at.weather("north", DRAINED_S, late_s=1.5)
        for cluster in clusters:
            at.spawn(_drain(at, f"{cluster}-{number}"))
        yield DRAINED_S + 5.0


def one_cluster(at: Scene) -> Iterator[Wait]:
    """A cluster is drained, one node after the other."""
    yield from _drains(at, ("west",))


def two_clusters(at: Scene) -> Iterator[Wait]:
    """Two clusters are drained at once."""
    yield from _drains(at, ("west", "east"))


@plant("budgets of other clusters have no shadows", hint=Hint(one_cluster, BUDGETED))
def no_shadow_budgets(patches: Patches) -> None:
    from agents.executor.duties import shadows

    patches.set(shadows, "reconcile_tasks", lambda local, now: iter(()))


@plant("a delegate counts under its shadow before home shows it Ready", hint=Hint(one_cluster, BUDGETED))
def shadowed_too_early(patches: Patches) -> None:
    from msgspec.structs import replace

    from dispatcher.scheduling.delegation import shadows
    from shared.model.names import BUDGET

    real = shadows._delegates

    def labelled(tracked: Any) -> Any:
        for target, pod in real(tracked):
            yield target, replace(pod, labels={BUDGET: "soon", **pod.labels})

    patches.set(shadows, "_delegates", labelled)
