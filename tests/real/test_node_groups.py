"""Node groups of Cluster API on a real API server, read with the rights of the agent's chart alone."""

import asyncio
from functools import partial
from typing import Any

import pytest

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from shared.model.node_group import NodeGroup, NodeGroups
from tests.agents.kube.test_node_groups import LARGE, STATUS
from tests.agents.runtime.whole_agent import Dispatcher
from tests.charts.rendering import NAMESPACE, Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually

GROUP = "cluster.x-k8s.io"
READ = {"read": True, "cluster": "east", "namespace": "fleet"}
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: str) -> dict[str, Any]:
    """Of a kind of Cluster API, in the older of its versions."""
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}},
    }
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def machines(namespace: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "MachineDeployment",
        "metadata": {"name": "large", "namespace": namespace, "annotations": LARGE},
        "spec": {"clusterName": "east", "replicas": replicas},
    }


def lists_none(plane: ControlPlane, path: str) -> bool:
    return bool(plane.admin.get(path)["items"] == [])


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlanes, helm: Helm) -> ControlPlane:
    """With Cluster API's MachineDeployments and MachineSets, and what the agent's chart installs beside the agent."""
    (started,) = control_plane.together(PlaneSpec("east", minor=selected_minor()))
    names = (NAMESPACE, "fleet", "other")
    started.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in names))
    started.apply(definition("MachineDeployment"), definition("MachineSet"))
    objects = helm.template("agent", {"cluster": "east", "config": {"node_groups": READ}})
    started.apply(*(one for one in objects if one["kind"] in _RIGHTS))
    served = f"/apis/{GROUP}/v1beta1/namespaces/fleet"
    for kind in ("machinedeployments", "machinesets"):
        eventually(partial(lists_none, started, f"{served}/{kind}"), 30, started.tails)
    return started


def first(dispatcher: Dispatcher) -> NodeGroup | None:
    return next(iter((dispatcher.node_groups or NodeGroups()).groups), None)


async def test_an_agent_with_the_charts_rights_sees_groups_come_grow_and_back_off(plane: ControlPlane) -> None:
    plane.apply(machines("fleet", 0), machines("other", 5))
    told = {"node_groups": {**READ, "all": True}, "kubeconfig": str(plane.kubeconfig_for("agent", NAMESPACE))}
    agent = Agent(AgentSettings.model_validate({"cluster": "east", **told}))
    await agent.start()
    try:
        dispatcher = Dispatcher(agent)
        await dispatcher.poll_until(lambda: first(dispatcher))
        await dispatcher.poll_until(lambda: dispatcher.node_groups and dispatcher.node_groups.all)
        assert dispatcher.node_groups is not None
        (group,) = dispatcher.node_groups.groups
        assert (group.name, group.size, group.most, group.grows) == ("MachineDeployment/fleet/large", 0, 9, True)
        assert group.template is not None
        assert group.template.allocatable["cpu"] == 16_000
        await asyncio.to_thread(plane.apply, machines("fleet", 2))
        await dispatcher.poll_until(lambda: (one := first(dispatcher)) and one.size == 2)
        status = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
        backs_off = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": status, "data": {"status": STATUS}}
        await asyncio.to_thread(plane.apply, backs_off)
        await dispatcher.poll_until(lambda: (one := first(dispatcher)) and one.backs_off)
    finally:
        await agent.stop()
