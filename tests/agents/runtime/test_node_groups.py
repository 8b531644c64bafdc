"""An agent that is to tell of node groups, against a fake API server."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from agents.runtime.settings import AgentSettings
from shared.model.node_group import NodeGroups
from tests.agents.kube.fake_server import fake_api
from tests.agents.kube.objects import Object
from tests.agents.kube.test_node_groups import LARGE, STATUS
from tests.agents.runtime.whole_agent import PATIENT, Dispatcher, an_agent

READ = {"read": True, "cluster": "east", "namespace": "fleet", "all": True}


def machines(name: str, replicas: int = 0) -> Object:
    spec = {"clusterName": "east", "replicas": replicas}
    return {"metadata": {"name": name, "namespace": "fleet", "annotations": LARGE}, "spec": spec}


def told(dispatcher: Dispatcher) -> dict[str, tuple[int, bool]]:
    """By name: how many nodes the group is to have, and whether it makes more."""
    groups = (dispatcher.node_groups or NodeGroups()).groups
    return {one.name: (one.size, one.grows) for one in groups}


async def test_it_tells_of_those_that_are_there_come_change_go_and_back_off(tmp_path: Path) -> None:
    large, other = "MachineDeployment/fleet/large", "MachineSet/fleet/other"
    async with fake_api() as api:
        api.put("machinedeployments", machines("large"))
        async with an_agent(api, tmp_path, pace=PATIENT, node_groups=READ) as dispatcher:
            await dispatcher.poll_until(lambda: told(dispatcher) == {large: (0, True)})
            await dispatcher.poll_until(lambda: dispatcher.node_groups and dispatcher.node_groups.all)
            api.put("machinesets", machines("other"))
            api.put("machinedeployments", machines("large", 3))
            await dispatcher.poll_until(lambda: told(dispatcher) == {large: (3, True), other: (0, True)})
            status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": STATUS}}
            api.put("configmaps", status)
            await dispatcher.poll_until(lambda: told(dispatcher)[large] == (3, False))
            api.delete("machinesets", "other")
            await dispatcher.poll_until(lambda: told(dispatcher).keys() == {large})


async def test_it_asks_for_none_unless_it_is_to(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("machinedeployments", machines("large"))
        async with an_agent(api, tmp_path, pace=PATIENT) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            assert dispatcher.node_groups is None
            assert not [one for one in api.requests if "machine" in one or "autoscaler" in one]


async def test_those_that_it_may_not_see_keep_it_well_and_are_not_all(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("machinesets", machines("other"))
        api.refused["machinedeployments"] = 403
        async with an_agent(api, tmp_path, pace=PATIENT, node_groups=READ) as dispatcher:
            await dispatcher.poll_until(lambda: told(dispatcher).keys() == {"MachineSet/fleet/other"})
            await dispatcher.poll_until(dispatcher.well)
            assert dispatcher.node_groups is not None
            assert not dispatcher.node_groups.all


def test_whose_groups_are_read_has_to_be_said() -> None:
    with pytest.raises(ValidationError, match=r"name this cluster's own Cluster object"):
        AgentSettings.model_validate({"cluster": "east", "node_groups": {"read": True}})
