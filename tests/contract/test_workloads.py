"""Deployments, Jobs and what else controllers do, on nodes that play pods."""

from typing import Any

import pytest

from tests.contract.client import Api, Body, deployment, job, template

RUN_SECONDS, EXIT_CODE = "embedded.global-dispatcher.io/run-seconds", "embedded.global-dispatcher.io/exit-code"


async def node(api: Api) -> str:
    """A node that plays pods."""
    return next(name for name in await api.names("nodes") if not name.startswith("node-of-"))


def condition(found: Body, kind: str) -> Body:
    listed = found.get("status", {}).get("conditions", [])
    return next((item for item in listed if item["type"] == kind), {})


def settled(found: Body) -> bool:
    """Whether a Deployment has reached what it wants."""
    status, wanted = found.get("status", {}), found["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [wanted] * 4


async def running_shop(api: Api, replicas: int = 2, **spec: Any) -> Body:
    """A Deployment whose pods run on a node: nothing schedules here."""
    place = await node(api)
    await api.add("deployments", deployment(replicas=replicas, template=template("shop", nodeName=place), **spec))
    return await api.until("deployments", "shop", settled)


async def test_a_deployment_becomes_available(api: Api) -> None:
    shop = await running_shop(api)
    assert shop["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert condition(shop, "Available")["reason"] == "MinimumReplicasAvailable"
    done = await api.until("deployments", "shop", _progressed)
    assert condition(done, "Progressing")["status"] == "True"
    (replica_set,) = (await api.read("replicasets"))["items"]
    owner = replica_set["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]) == (
        *("Deployment", "shop", True, True),
    )
    mark = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"shop-{mark}"
    for found in (await api.read("pods"))["items"]:
        assert found["metadata"]["generateName"] == f"shop-{mark}-"
        assert found["metadata"]["labels"].items() >= {"app": "shop", "pod-template-hash": mark}.items()
        assert found["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]


def _progressed(found: Body) -> bool:
    return condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable"


async def test_a_deployment_without_room_says_that_its_pods_wait(api: Api) -> None:
    await api.add("deployments", deployment(replicas=2))
    shop = await api.until("deployments", "shop", lambda found: found.get("status", {}).get("unavailableReplicas") == 2)
    assert (condition(shop, "Available")["status"], condition(shop, "Available")["reason"]) == (
        *("False", "MinimumReplicasUnavailable"),
    )
    assert {found["status"]["phase"] for found in (await api.read("pods"))["items"]} == {"Pending"}


@pytest.mark.parametrize("replicas", [0, 1, 4])
async def test_a_deployment_is_scaled(api: Api, replicas: int) -> None:
    await running_shop(api)
    await api.change("deployments", "shop/scale", {"spec": {"replicas": replicas}})
    shop = await api.until("deployments", "shop", settled)
    assert shop["spec"]["replicas"] == replicas
    alive = [found for found in (await api.read("pods"))["items"] if "deletionTimestamp" not in found["metadata"]]
    assert len(alive) == replicas


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_a_new_template_replaces_the_pods(api: Api, strategy: str) -> None:
    await running_shop(api, strategy={"type": strategy})
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    await api.change("deployments", "shop", image, "application/strategic-merge-patch+json")
    shop = await api.until("deployments", "shop", settled)
    assert shop["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    sets = (await api.read("replicasets"))["items"]
    assert sorted(found["spec"]["replicas"] for found in sets) == [0, 2]


async def test_a_paused_deployment_waits(api: Api) -> None:
    await api.add("deployments", deployment(replicas=0))
    await api.until("deployments", "shop", settled)
    await api.change("deployments", "shop", {"spec": {"paused": True}})
    paused = await api.until(
        "deployments", "shop", lambda found: condition(found, "Progressing").get("status") == "Unknown"
    )
    assert condition(paused, "Progressing")["reason"] == "DeploymentPaused"


async def test_a_deleted_pod_is_made_again(api: Api) -> None:
    await running_shop(api)
    first, second = await api.names("pods")
    before = await api.now()
    (await api.delete(api.at("pods", first), {"gracePeriodSeconds": 0})).ok()
    made = await api.told("pods", before, lambda event: event["type"] == "ADDED")
    assert made["object"]["metadata"]["name"] not in (first, second)
    await api.gone("pods", first)
    assert len(await api.names("pods")) == 2


async def test_a_pod_whose_label_changes_is_let_go(api: Api) -> None:
    await running_shop(api)
    first = (await api.names("pods"))[0]
    before = await api.now()
    await api.change("pods", first, {"metadata": {"labels": {"app": "other"}}})
    let_go = await api.until("pods", first, lambda found: not found["metadata"].get("ownerReferences"))
    assert let_go["metadata"]["labels"]["app"] == "other"
    await api.told("pods", before, lambda event: event["type"] == "ADDED")
    await api.until("deployments", "shop", settled)
    assert len(await api.names("pods", labelSelector="app=shop")) == 2


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_a_deployment_is_deleted_with_or_without_its_pods(api: Api, policy: str) -> None:
    await running_shop(api)
    pods = await api.names("pods")
    (await api.delete(api.at("deployments", "shop"), {"propagationPolicy": policy})).ok()
    await api.gone("deployments", "shop")
    if policy == "Orphan":
        assert await api.names("pods") == pods
        return
    for name in pods:
        await api.gone("pods", name)


async def test_a_budget_in_percent_follows_its_controller(api: Api) -> None:
    await running_shop(api, replicas=4)
    spec = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "shop"}}}
    await api.add("poddisruptionbudgets", {"metadata": {"name": "guard"}, "spec": spec})
    found = await api.until("poddisruptionbudgets", "guard", lambda it: it.get("status", {}).get("currentHealthy") == 4)
    status = {key: found["status"][key] for key in ("disruptionsAllowed", "desiredHealthy", "expectedPods")}
    assert status == {"disruptionsAllowed": 1, "desiredHealthy": 3, "expectedPods": 4}


async def running_job(api: Api, exit_code: str = "0", **spec: Any) -> None:
    """A Job whose pods run for a moment on a node."""
    body = job(suspend=False, **spec)
    inner = body["spec"]["template"]
    inner["metadata"] = {"annotations": {RUN_SECONDS: "0.1", EXIT_CODE: exit_code}}
    inner["spec"] |= {"nodeName": await node(api)}
    await api.add("jobs", body)


async def test_a_job_completes(api: Api) -> None:
    await running_job(api, completions=3, parallelism=2)
    done = await api.until("jobs", "work", lambda found: bool(condition(found, "Complete")))
    assert (done["status"]["succeeded"], "completionTime" in done["status"]) == (3, True)
    assert (
        condition(done, "SuccessCriteriaMet")["reason"] == condition(done, "Complete")["reason"] == "CompletionsReached"
    )
    pods = (await api.read("pods"))["items"]
    assert {found["status"]["phase"] for found in pods} == {"Succeeded"}
    uid = done["metadata"]["uid"]
    assert {found["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] for found in pods} == {uid}
    assert not any(found["metadata"].get("finalizers") for found in pods)


async def test_a_job_fails_beyond_its_back_off_limit(api: Api) -> None:
    await running_job(api, exit_code="3", backoffLimit=0)
    done = await api.until("jobs", "work", lambda found: bool(condition(found, "Failed")))
    failed = condition(done, "Failed")
    assert (failed["reason"], failed["message"]) == (
        *("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    )
    assert done["status"]["failed"] == 1


async def test_a_suspended_job_makes_no_pods_until_it_is_resumed(api: Api) -> None:
    await api.add("jobs", job())
    held = await api.until("jobs", "work", lambda found: bool(condition(found, "Suspended")))
    assert (condition(held, "Suspended")["status"], condition(held, "Suspended")["reason"]) == ("True", "JobSuspended")
    assert await api.names("pods") == []
    await api.change("jobs", "work", {"spec": {"suspend": False}})
    going = await api.until("jobs", "work", lambda found: found.get("status", {}).get("active") == 1)
    assert (condition(going, "Suspended")["status"], condition(going, "Suspended")["reason"]) == ("False", "JobResumed")
    (found,) = (await api.read("pods"))["items"]
    assert found["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"parallelism": 2}, 200),
        ({"completions": 2}, 422),
        ({"backoffLimit": 1}, 200),
        ({"template": {"spec": {"unknown": 1}}}, 200),
        ({"template": {"spec": {"hostNetwork": True}}}, 422),
    ],
    ids=str,
)
async def test_what_of_a_job_may_change(api: Api, patch: Body, status: int) -> None:
    await api.add("jobs", job())
    assert (await api.patch(api.at("jobs", "work"), {"spec": patch})).status == status


async def test_a_pod_on_a_node_runs_and_tells_so(api: Api) -> None:
    place = await node(api)
    await api.add("pods", {"metadata": {"name": "web"}, "spec": template("x")["spec"]})
    await api.bound("web", place)
    found = await api.until("pods", "web", lambda it: condition(it, "Ready").get("status") == "True")
    assert found["status"]["phase"] == "Running"
    assert found["status"]["podIP"]
    assert found["status"]["containerStatuses"][0]["ready"] is True
    assert condition(found, "PodScheduled")["status"] == "True"
    (await api.delete(api.at("pods", "web"))).ok()
    await api.gone("pods", "web")


@pytest.mark.since("1.35")
@pytest.mark.parametrize("way", ["bound", "made there"])
async def test_a_pod_is_labelled_with_the_zone_and_region_of_its_node(api: Api, way: str) -> None:
    place = await node(api)
    labels = (await api.read("nodes", place))["metadata"]["labels"]
    given = {"app": "x", "topology.kubernetes.io/zone": "mine"}
    spec = template("x", **({} if way == "bound" else {"nodeName": place}))["spec"]
    await api.add("pods", {"metadata": {"name": "web", "labels": given}, "spec": spec})
    if way == "bound":
        await api.bound("web", place)
    found = (await api.read("pods", "web"))["metadata"]["labels"]
    zone, region = (labels[f"topology.kubernetes.io/{level}"] for level in ("zone", "region"))
    assert found == {"app": "x", "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": region}


async def test_a_taint_that_evicts_takes_pods_that_do_not_tolerate_it(api: Api) -> None:
    name = f"node-of-{api.namespace}"
    await api.add("nodes", {"metadata": {"name": name}})
    tolerant = template("x", nodeName=name, tolerations=[{"operator": "Exists"}])["spec"]
    await api.add("pods", {"metadata": {"name": "guest"}, "spec": template("x", nodeName=name)["spec"]})
    await api.add("pods", {"metadata": {"name": "resident"}, "spec": tolerant})
    await api.change("nodes", name, {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
    going = await api.until("pods", "guest", lambda it: "deletionTimestamp" in it["metadata"])
    target = condition(going, "DisruptionTarget")
    assert (target["reason"], target["message"]) == (
        *("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
    )
    assert "deletionTimestamp" not in (await api.read("pods", "resident"))["metadata"]
    for pod_name in ("guest", "resident"):
        await api.delete(api.at("pods", pod_name), {"gracePeriodSeconds": 0})
    (await api.delete(api.at("nodes", name))).ok()
