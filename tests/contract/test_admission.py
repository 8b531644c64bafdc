"""What the cluster does to a new pod before it is stored: our opt-in, priority, tolerations, gates."""

import asyncio

import pytest

from tests.contract.client import Api, Body, causes, pod

ASKED = "global-dispatcher.io/schedule"
OURS = "global-dispatcher"
POLICY_S = 120
with_policy = pytest.mark.since("1.34")  # MutatingAdmissionPolicy, which planes turn on where it is v1beta1
LOST = {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}


@with_policy
@pytest.mark.parametrize(
    ("annotation", "named", "scheduler"),
    [
        ("true", None, OURS),
        ("true", "default-scheduler", OURS),
        ("true", "mine", "mine"),
        ("false", None, "default-scheduler"),
        ("True", None, "default-scheduler"),
        (None, None, "default-scheduler"),
        (None, OURS, OURS),
    ],
)
async def test_our_annotation_chooses_our_scheduler(
    api: Api, annotation: str | None, named: str | None, scheduler: str
) -> None:
    await policy_is_read(api)
    notes = {ASKED: annotation} if annotation else {}
    made = await api.add("pods", pod(annotations=notes, spec={"schedulerName": named} if named else None))
    assert made["spec"]["schedulerName"] == scheduler


async def policy_is_read(api: Api) -> None:
    """A real server reads a policy some time after it was made, and anew after a restart."""

    async def asks_for_us() -> bool:
        made = (await api.post(api.at("pods"), pod(annotations={ASKED: "true"}), dryRun="All")).ok()
        return bool(made["spec"]["schedulerName"] == OURS)

    async with asyncio.timeout(POLICY_S):
        while not await asks_for_us():  # noqa: ASYNC110 - the server tells no event of it
            await asyncio.sleep(0.05)


@with_policy
async def test_a_pod_that_names_its_node_is_left_alone(api: Api) -> None:
    await policy_is_read(api)
    placed = pod(annotations={ASKED: "true"}, spec={"nodeName": "nowhere"})
    made = (await api.post(api.at("pods"), placed, dryRun="All")).ok()
    assert made["spec"]["schedulerName"] == "default-scheduler"


async def test_an_annotation_that_comes_later_changes_nothing(api: Api) -> None:
    await api.add("pods", pod())
    changed = await api.change("pods", "web", {"metadata": {"annotations": {ASKED: "true"}}})
    assert changed["spec"]["schedulerName"] == "default-scheduler"


async def test_a_priority_class_becomes_a_number(api: Api) -> None:
    name = f"high-{api.namespace}"
    await api.add("priorityclasses", {"metadata": {"name": name}, "value": 500, "preemptionPolicy": "Never"})
    spec = (await api.add("pods", pod(spec={"priorityClassName": name})))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (500, "Never")
    changed = await api.patch(api.at("priorityclasses", name), {"value": 501})
    assert (changed.status, causes(changed)) == (422, {"value: Forbidden: may not be changed in an update."})
    (await api.delete(api.at("priorityclasses", name))).ok()


async def test_a_priority_class_that_is_lacking_is_refused_by_name(api: Api) -> None:
    refused = await api.post(api.at("pods"), pod(spec={"priorityClassName": f"none-{api.namespace}"}))
    assert refused.status == 403
    assert refused.message.endswith(f"no PriorityClass with name none-{api.namespace} was found")


@pytest.mark.parametrize(
    ("name", "value"), [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
)
async def test_the_systems_own_classes_are_there(api: Api, name: str, value: int) -> None:
    spec = (await api.post(api.at("pods"), pod(spec={"priorityClassName": name}), dryRun="All")).ok()["spec"]
    assert spec["priority"] == value


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, LOST),
        ({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
         LOST | {"node.kubernetes.io/unreachable": 5}),
        ({"operator": "Exists"}, {None: None}),
        ({"key": "other", "operator": "Exists"}, {"other": None} | LOST),
    ],
    ids=["none", "one of them", "everything", "another"],
)  # fmt: skip
async def test_pods_stay_on_a_lost_node_for_a_while(default: Api, given: Body | None, seconds: Body) -> None:
    body = pod(spec={"tolerations": [given]} if given else None)
    made = (await default.post(default.at("pods"), body, dryRun="All")).ok()
    found = {item.get("key"): item.get("tolerationSeconds") for item in made["spec"]["tolerations"]}
    assert found == seconds


async def test_every_namespace_has_an_account_and_the_clusters_certificate(api: Api) -> None:
    assert await api.names("serviceaccounts") == ["default"]
    certificate = await api.until("configmaps", "kube-root-ca.crt", bool)
    assert certificate["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
