"""PodGroups on a real API server, which has them beside their gates: read and written with the rights of the agent's
chart alone. A Job gets its group by its own controller.
"""

import asyncio
from typing import Any

import pytest

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from localfleet.controlplane.binaries import release, selected_minor
from localfleet.controlplane.plane import ControlPlane
from shared.messages import DONE, STALE, IntentBatch, PodRef, ReportGroup
from shared.model import names
from shared.model.group_kinds import COSCHEDULING, KAI, OURS, POD_GROUPS, VOLCANO
from shared.model.pod import Group, Pod
from tests.agents.runtime.whole_agent import Dispatcher
from tests.charts.rendering import NAMESPACE, Helm, Object
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually

pytestmark = pytest.mark.skipif(release(selected_minor()) < (1, 37), reason="Kubernetes has them since 1.37")
GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadWithJob=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
PODS = "/api/v1/namespaces/default/pods"
OF_KUBERNETES = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
RACK = "topology.kubernetes.io/rack"
# by kind: the version of its API, a spec, and where pods name it
OTHERS: dict[str, tuple[str, Object, Object]] = {
    COSCHEDULING: ("v1alpha1", {"minMember": 3}, {"labels": {"scheduling.x-k8s.io/pod-group": "all"}}),
    VOLCANO: ("v1beta1", {"minMember": 4}, {"annotations": {"scheduling.k8s.io/group-name": "all"}}),
    KAI: (
        "v2alpha2",
        {"minMember": 5, "topologyConstraint": {"requiredTopologyLevel": RACK}},
        {"annotations": {"pod-group-name": "all"}},
    ),
}
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: str) -> Object:
    plural, _, group = kind.partition(".")
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind, "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": plural},
            "versions": [{"name": OTHERS[kind][0], "served": True, "storage": True, "schema": schema}],
        },
    }


def template(**spec: Any) -> Object:
    container = {"name": "main", "image": "example.invalid/app:1"}
    return {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **spec}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlanes, helm: Helm) -> ControlPlane:

    started = control_plane("east", api_flags=[GATES, SERVED], controller_flags=[GATES])
    started.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    objects = helm.template("agent", {"cluster": "east"})
    started.apply(*(one for one in objects if one["kind"] in _RIGHTS))
    eventually(lambda: started.admin.answers("/api/v1/namespaces/default/serviceaccounts/default"), 60)
    return started


class Fleet(Dispatcher):
    """The dispatcher's side of one agent with the chart's rights."""

    async def group_of(self, *, job: str = "", name: str = "") -> Group:
        """Of the pod of this name, or of this Job, as soon as all is known of it."""
        found: list[Pod] = []

        def known() -> bool:
            found[:] = [one for one in self.pods.values() if one.name == name or (job and one.name.startswith(job))]
            return any(one.group is not None and not one.problems for one in found)

        await self.poll_until(known)
        group = next(one.group for one in found if one.group is not None)
        assert group is not None
        return group


async def start(plane: ControlPlane) -> tuple[Agent, Fleet]:
    told = {"cluster": "east", "kubeconfig": str(plane.kubeconfig_for("agent", NAMESPACE))}
    agent = Agent(AgentSettings.model_validate(told))
    await agent.start()
    return agent, Fleet(agent)


async def test_an_agent_with_the_charts_rights_tells_the_groups_of_kubernetes_and_writes_their_condition(
    plane: ControlPlane,
) -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
        "disruptionMode": {"all": {}},
    }
    made = plane.admin.create(OF_KUBERNETES, {"metadata": {"name": "train"}, "spec": spec})
    named = template(schedulingGroup={"podGroupName": "train"})
    pod = plane.admin.create(PODS, {"metadata": {"name": "one"}, "spec": named})
    agent, fleet = await start(plane)
    try:
        uid = made["metadata"]["uid"]
        assert await fleet.group_of(name="one") == Group(POD_GROUPS, "train", uid, 2, "rack", whole=True)
        more = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        await asyncio.to_thread(plane.admin.patch, f"{OF_KUBERNETES}/train", more)
        await fleet.poll_until(lambda: (one := fleet.pods["one"].group) and one.min_count == 3)
        ref = PodRef("default", "one", pod["metadata"]["uid"])
        waits = ReportGroup("1", ref, 1, "train", uid, scheduled=False, message="no rack has room for 3 pods")
        placed = ReportGroup("2", ref, 2, "train", uid, scheduled=True)
        late = ReportGroup("3", ref, 3, "train", uid, scheduled=False, message="no room")
        another = ReportGroup("4", ref, 4, "train", "another", scheduled=False)
        expected = [
            (waits, DONE, ("False", "Unschedulable", "no rack has room for 3 pods")),
            (placed, DONE, ("True", "Scheduled", "")),
            (late, DONE, ("True", "Scheduled", "")),
            (another, STALE, ("True", "Scheduled", "")),
        ]
        for intent, verdict, shown in expected:
            answer = await agent.execute(IntentBatch("life-1", 1, (intent,)))
            assert [one.verdict for one in answer.outcomes] == [verdict], answer
            group = await asyncio.to_thread(plane.admin.get, f"{OF_KUBERNETES}/train")
            (condition,) = group["status"]["conditions"]
            assert condition["type"] == "PodGroupInitiallyScheduled"
            assert (condition["status"], condition["reason"], condition["message"]) == shown
    finally:
        await agent.stop()


async def test_a_job_with_a_gang_of_its_own_is_told_as_its_controller_has_made_it(plane: ControlPlane) -> None:
    made: dict[str, tuple[Object, Object]] = {
        "gang": ({"schedulingPolicy": {"gang": {"minCount": 3}}}, {}),
        "basic": ({"schedulingPolicy": {"basic": {}}}, {names.GROUP: "basic", names.GROUP_MIN: "2"}),
    }
    for name, (scheduling, annotations) in made.items():
        spec = {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "scheduling": scheduling,
            "template": {"metadata": {"annotations": annotations}, "spec": template(restartPolicy="Never")},
        }
        plane.admin.create("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": name}, "spec": spec})
    agent, fleet = await start(plane)
    try:
        group = await fleet.group_of(job="gang-")
        assert (group.kind, group.min_count, group.within) == (POD_GROUPS, 3, "cluster")
        assert await fleet.group_of(job="basic-") == Group(OURS, "basic", "", 2)
    finally:
        await agent.stop()


async def test_groups_of_other_projects_are_told_once_their_apis_are_there(plane: ControlPlane) -> None:
    for kind, (_, _, marks) in OTHERS.items():
        name = kind.split(".")[2]
        plane.admin.create(PODS, {"metadata": {"name": name, **marks}, "spec": template()})
    agent, fleet = await start(plane)
    try:
        await fleet.poll_until(lambda: fleet.pods.get("volcano"))
        assert "or this cluster does not serve podgroups.scheduling.volcano.sh" in fleet.pods["volcano"].problems[0]
    finally:
        await agent.stop()
    plane.apply(*map(definition, OTHERS))
    told = {}
    for kind, (version, spec, _) in OTHERS.items():
        path = f"/apis/{kind.partition('.')[2]}/{version}/namespaces/default/podgroups"
        eventually(lambda: plane.admin.answers(path), 60)  # noqa: B023 - called at once
        made = plane.admin.create(path, {**typed(kind, version), "metadata": {"name": "all"}, "spec": spec})
        within = "rack" if kind == KAI else "cluster"
        told[kind.split(".")[2]] = Group(kind, "all", made["metadata"]["uid"], spec["minMember"], within)
    agent, fleet = await start(plane)
    try:
        assert {name: await fleet.group_of(name=name) for name in told} == told
    finally:
        await agent.stop()


def typed(kind: str, version: str) -> Object:
    return {"apiVersion": f"{kind.partition('.')[2]}/{version}", "kind": "PodGroup"}
