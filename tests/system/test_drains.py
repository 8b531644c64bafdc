"""Drains where delegates run ask the budgets of the cluster in which their pods were submitted."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from shared.model import names
from tests.system.cluster_api import Object, deployment, eventually
from tests.system.harness import QUICK_NODES, System, specs
from tests.system.test_main_job import DEPLOYMENTS, PODS

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NODES, CPUS, REPLICAS, NEEDED = 3, 8, 6, 5
TARGET = "north"
Drain = Callable[[System, str], None]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Clusters of which two nodes can be drained onto the third."""
    clusters = specs(nodes=NODES, cpu=str(CPUS), options=QUICK_NODES)
    with System(tmp_path_factory.mktemp("fleet"), clusters) as fleet:
        fleet.wait_ready()
        yield fleet


def evict(system: System, pod: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    return system.apis[TARGET].create(f"{PODS}/{pod}/eviction", body).status_code


def delegates(system: System) -> list[Object]:
    """Those that run, with their label of budgets."""
    pods = system.apis[TARGET].pods()
    return [pod for pod in pods if names.DELEGATE_LABEL in pod["metadata"]["labels"] and not _going(pod)]


def _going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def shadows(system: System) -> list[Object]:
    budgets: list[Object] = system.apis[TARGET].get(BUDGETS)["items"]
    return [one for one in budgets if names.BUDGET_OF in one["metadata"].get("labels", {})]


def spare(system: System) -> int:
    """How many evictions the target's own API server allows, -1 while the shadow is not up to date."""
    found = shadows(system)
    covered = [pod for pod in delegates(system) if names.BUDGET in pod["metadata"]["labels"]]
    if len(found) != 1 or len(covered) < REPLICAS or found[0]["status"]["currentHealthy"] < REPLICAS:
        return -1
    return int(found[0]["status"]["disruptionsAllowed"])


def protected(system: System) -> None:
    """A deployment that runs in the target and a budget of its own cluster, which is kept there."""
    body = deployment("web", REPLICAS, requests={"cpu": "1"}, annotations={names.CLUSTERS: TARGET})
    assert system.home.create(DEPLOYMENTS, body).status_code == 201
    spec = {"minAvailable": NEEDED, "selector": {"matchLabels": {"app": "web"}}}
    assert system.home.create(BUDGETS, {"metadata": {"name": "web"}, "spec": spec}).status_code == 201
    system.wait_running(REPLICAS, 120)
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 60, lambda: f"{shadows(system)}\n{system.log}")


def cleared(system: System) -> None:
    """Without the budget nothing is kept, and without the deployment nothing runs."""
    system.home.delete(f"{BUDGETS}/web")
    eventually(lambda: not shadows(system), 60, lambda: f"{shadows(system)}\n{system.log}")
    system.home.delete(f"{DEPLOYMENTS}/web", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 120, lambda: system.log)


def test_an_eviction_in_the_target_spends_the_budget_of_the_source(system: System) -> None:
    protected(system)
    first, second, *_ = (pod["metadata"]["name"] for pod in delegates(system))
    assert evict(system, first) == 201
    assert evict(system, second) == 429
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 60, lambda: f"{shadows(system)}\n{system.log}")
    assert evict(system, second) == 201
    cleared(system)


def test_the_targets_own_budget_takes_the_shadows_place(system: System) -> None:
    protected(system)
    spec = {"minAvailable": REPLICAS, "selector": {"matchLabels": {"app": "web"}}}
    assert system.apis[TARGET].create(BUDGETS, {"metadata": {"name": "own"}, "spec": spec}).status_code == 201
    eventually(lambda: not shadows(system), 60, lambda: f"{shadows(system)}\n{system.log}")
    assert {evict(system, pod["metadata"]["name"]) for pod in delegates(system)} == {429}
    system.apis[TARGET].delete(f"{BUDGETS}/own")
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 60, lambda: f"{shadows(system)}\n{system.log}")
    cleared(system)


def by_hand(system: System, node: str) -> None:
    """As kubectl drains: cordon, then evict until all are gone; a 429 is tried again."""
    system.apis[TARGET].merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    eventually(lambda: all(evict(system, pod) in (201, 404) for pod in on(system, node)) and not on(system, node), 120)


def on(system: System, node: str) -> list[str]:
    pods = system.apis[TARGET].pods()
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]


def drain_two_nodes(system: System, drain: Drain) -> int:
    """Drain two nodes of the target at once; the fewest pods that were ready at home meanwhile."""
    least, done = [REPLICAS], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            try:
                pods = system.home.pods()
            except httpx.HTTPError:
                continue
            least.append(sum(_ready(pod) and not _going(pod) for pod in pods))

    nodes = sorted({pod["spec"]["nodeName"] for pod in delegates(system)})[:2]
    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(watch)
        try:
            list(pool.map(lambda node: drain(system, node), nodes))
            left = {pod["spec"].get("nodeName") for pod in delegates(system)} & set(nodes)
        finally:
            done.set()
        watching.result()
    assert not left
    for node in nodes:
        system.apis[TARGET].merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    return min(least)


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_draining_nodes_of_the_target_leaves_as_many_ready_as_the_source_needs(system: System) -> None:
    protected(system)
    assert drain_two_nodes(system, by_hand) >= NEEDED
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 60, lambda: f"{shadows(system)}\n{system.log}")
    cleared(system)


def test_a_budget_is_kept_while_the_dispatcher_is_away(system: System) -> None:
    protected(system)
    system.dispatcher.kill()
    system.dispatcher.wait()
    first, second, *_ = (pod["metadata"]["name"] for pod in delegates(system))
    assert (evict(system, first), evict(system, second)) == (201, 429)
    system.start_again()
    eventually(lambda: spare(system) == REPLICAS - NEEDED, 120, lambda: f"{shadows(system)}\n{system.log}")
    cleared(system)
