"""What the fleet promises under demand: tenants hold their quota, apps hold their spread, hot nodes are avoided."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.system.cluster_api import DELEGATE, Object, deployment, eventually
from tests.system.harness import HOME, QUICK_NODES, System, specs

NODES, CPU = 4, 8  # per cluster and per node


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Two tenants of 40 and 60 % of the fleet's CPU."""
    directory = tmp_path_factory.mktemp("fleet")
    tenants = directory / "tenants.yaml"
    tenants.write_text(
        "tenants:\n"
        '  - {name: blue, namespaces: [blue], nominal: {cpu: "40%"}}\n'
        '  - {name: green, namespaces: [green], nominal: {cpu: "60%"}}\n'
        "  - {name: pool, namespaces: [pool], nodes: {selector: {pool: ml}, tolerations: [{key: pool, value: ml}]}}\n"
    )
    clusters = specs(nodes=NODES, cpu=str(CPU), memory="64Gi", options=QUICK_NODES)
    with System(directory, clusters, {"tenants": str(tenants)}) as fleet:
        fleet.wait_ready()
        for namespace in ("blue", "green", "pool"):
            for api in fleet.apis.values():
                api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield fleet


def running(system: System, namespace: str) -> list[tuple[str, Object]]:
    """(cluster, pod) for every pod of a namespace that runs on a real node."""
    return [
        (cluster, pod)
        for cluster, api in system.apis.items()
        for pod in api.pods(namespace)
        if pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and not pod["spec"].get("nodeName", "").startswith("global-dispatcher-")
    ]


def submit(system: System, namespace: str, name: str, replicas: int, cpu: str, **annotations: str) -> None:
    body = deployment(name, replicas, requests={"cpu": cpu, "memory": "64Mi"}, annotations=annotations)
    body["spec"]["template"]["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
        for key in ("not-ready", "unreachable")
    ]
    answer = system.home.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    assert answer.status_code == 201, answer.text


def remove(system: System, namespace: str, name: str) -> None:
    system.home.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", propagationPolicy="Background")
    eventually(lambda: not any(api.pods(namespace) for api in system.apis.values()), 60, lambda: system.log)


def test_two_tenants_under_endless_demand_hold_exactly_their_quota(system: System) -> None:
    whole = 3 * NODES * CPU * 1000
    for namespace in ("blue", "green"):
        submit(system, namespace, "greedy", 400, "400m")
    want = {"blue": whole * 4 // 10 // 400, "green": whole * 6 // 10 // 400}

    def used() -> dict[str, int]:
        return {namespace: len(running(system, namespace)) for namespace in want}

    seen: list[dict[str, int]] = []

    def settled() -> bool:
        seen.append(used())
        assert all(seen[-1][name] <= want[name] for name in want), f"quota exceeded: {seen[-1]} > {want}"
        return seen[-1] == want and seen[-5:] == [want] * 5

    eventually(settled, 120, lambda: f"{seen[-3:]} wanted {want}\n{system.log}")
    waiting = next(pod for pod in system.home.pods("blue") if "nodeName" not in pod["spec"])
    record = eventually(
        lambda: (r := system.explain(waiting["metadata"]["name"], "blue"))["message"] and r, 30, lambda: system.log
    )
    for word in ("blue", "cpu", "asked 400m", "used", "limit"):
        assert word in record["message"]
    chosen = next(p for p in system.home.pods("green") if p["spec"].get("nodeName"))
    assert "TenantQuota" in system.explain(chosen["metadata"]["name"], "green")["decision"]["extras"]
    for namespace in want:
        remove(system, namespace, "greedy")


def zones_of(system: System, namespace: str) -> Counter[str]:
    """Running pods by zone, zones without one included."""
    zone = "topology.kubernetes.io/zone"
    nodes = {
        (cluster, node["metadata"]["name"]): node["metadata"]["labels"][zone]
        for cluster, api in system.apis.items()
        for node in api.get("/api/v1/nodes")["items"]
        if zone in node["metadata"]["labels"] and not node["metadata"]["name"].startswith("global-dispatcher-")
    }
    count = Counter(dict.fromkeys(nodes.values(), 0))
    count.update(nodes[cluster, pod["spec"]["nodeName"]] for cluster, pod in running(system, namespace))
    return count


def run_now(system: System, replicas: int) -> bool:
    return len(running(system, "default")) == replicas


def skew(count: Counter[str]) -> int:
    return max(count.values()) - min(count.values())


def test_an_app_with_hard_zone_skew_1_keeps_it_through_scale_ups_and_a_lost_zone(system: System) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/even"
    submit(system, "default", "even", 7, "200m", **{"global-dispatcher.io/spread": "zone=1"})
    for replicas in (7, 12, 20, 31):
        system.home.merge(path, {"spec": {"replicas": replicas}})
        eventually(partial(run_now, system, replicas), 60, lambda: system.log)
        assert skew(zones_of(system, "default")) <= 1, zones_of(system, "default")
    name = next(pod["metadata"]["name"] for pod in system.home.pods())
    assert "zone" in str(system.explain(name)["decision"]["extras"]["FaultDomainSpread"])
    lost = lose_zone(system, "west", "west-a")
    eventually(lambda: zones_of(system, "default")[lost] == 0, 60, lambda: str(zones_of(system, "default")))
    # The lost zone still counts as a zone: nothing may be placed that would leave it further behind than 1.
    eventually(lambda: waits_for_spread(system), 60, lambda: system.log)
    rest = Counter({zone: n for zone, n in zones_of(system, "default").items() if zone != lost})
    assert skew(rest) <= 1, rest
    find_zone(system, "west", "west-a")
    eventually(lambda: len(running(system, "default")) == 31, 90, lambda: system.log)
    assert skew(zones_of(system, "default")) <= 1, zones_of(system, "default")
    remove(system, "default", "even")


def lose_zone(system: System, cluster: str, zone: str, down: str | None = "down") -> str:
    """Silence (or wake) the kubelets of a zone."""
    api = system.apis[cluster]
    for node in api.get("/api/v1/nodes", labelSelector=f"topology.kubernetes.io/zone={zone}")["items"]:
        note = {"metadata": {"annotations": {"embedded.global-dispatcher.io/kubelet": down}}}
        api.merge(f"/api/v1/nodes/{node['metadata']['name']}", note)
    return zone


def find_zone(system: System, cluster: str, zone: str) -> None:
    """The zone comes back."""
    lose_zone(system, cluster, zone, None)


def waits_for_spread(system: System) -> bool:
    waiting = [pod for pod in system.home.pods() if "nodeName" not in pod["spec"]]
    texts = [c.get("message", "") for pod in waiting for c in pod["status"].get("conditions", [])]
    return bool(waiting) and any("topology spread constraints" in text for text in texts)


@pytest.mark.parametrize("signal", ["cpu", "net"])
def test_new_pods_avoid_hot_nodes_though_requests_are_equal(system: System, signal: str) -> None:
    reading = {"cpu": "cpu", "net": "network"}[signal]
    heat(system, "north", signal, "0.9")
    eventually(
        lambda: all(n["load"][reading]["used"] > 0.6 for n in system.get("/v1/nodes") if n["cluster"] == "north"), 60
    )
    submit(system, "default", "cool", 24, "300m")
    eventually(lambda: len(running(system, "default")) == 24, 60, lambda: system.log)
    where = Counter(cluster for cluster, _ in running(system, "default"))
    assert where["north"] * 3 < min(where["west"], where[HOME]), where
    remove(system, "default", "cool")
    heat(system, "north", signal, None)
    eventually(
        lambda: all(n["load"][reading]["used"] < 0.5 for n in system.get("/v1/nodes") if n["cluster"] == "north"), 60
    )


def heat(system: System, cluster: str, signal: str, share: str | None) -> None:
    """Set (or end) a background load on every node of a cluster."""
    api = system.apis[cluster]
    for node in api.get("/api/v1/nodes")["items"]:
        if not node["metadata"]["name"].startswith("global-dispatcher-"):
            note = {"metadata": {"annotations": {f"embedded.global-dispatcher.io/background-{signal}": share}}}
            api.merge(f"/api/v1/nodes/{node['metadata']['name']}", note)


def test_delegates_carry_no_label_that_a_controller_of_the_target_would_adopt(system: System) -> None:
    submit(system, "default", "plain", 6, "100m", **{"global-dispatcher.io/spread": "cluster=1"})
    eventually(lambda: len(running(system, "default")) == 6, 60, lambda: system.log)
    remote = [pod for _, pod in running(system, "default") if DELEGATE in pod["metadata"].get("labels", {})]
    assert remote
    assert all("pod-template-hash" not in pod["metadata"]["labels"] for pod in remote)
    assert all("ownerReferences" not in pod["metadata"] for pod in remote)
    remove(system, "default", "plain")


def test_a_tenants_pods_run_on_nodes_of_another_cluster_that_are_tainted_for_it(system: System) -> None:
    west = system.apis["west"]
    nodes = [node["metadata"]["name"] for node in west.get("/api/v1/nodes")["items"]]
    pool = [name for name in nodes if not name.startswith("global-dispatcher-")][:2]
    taint = {"key": "pool", "value": "ml", "effect": "NoExecute"}
    for name in pool:
        west.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"pool": "ml"}}, "spec": {"taints": [taint]}})
    submit(system, "pool", "mine", 4, "1")

    def places() -> Counter[tuple[str, bool]]:
        return Counter((cluster, pod["spec"]["nodeName"] in pool) for cluster, pod in running(system, "pool"))

    eventually(lambda: places() == {("west", True): 4}, 60, lambda: f"{places()}\n{system.log}")
    given = {"key": "pool", "operator": "Equal", "value": "ml"}
    bearers = [*system.home.pods("pool"), *west.pods("pool")]
    assert len(bearers) == 8
    assert all(given in pod["spec"]["tolerations"] for pod in bearers)
    uids = {pod["metadata"]["uid"] for pod in bearers}
    time.sleep(3)  # the taint manager would have evicted them
    assert uids == {pod["metadata"]["uid"] for pod in (*system.home.pods("pool"), *west.pods("pool"))}
    remove(system, "pool", "mine")
