"""What doctor finds of agents' rights and policies on a real API server: nothing where the chart is whole, and all that
is taken away.
"""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from dispatcher.cli.diagnosis import PROBLEM, Finding
from dispatcher.cli.joining.install import May, roles
from dispatcher.cli.joining.rights import all_lacking, lacking_here
from dispatcher.cli.operate.members import reached
from dispatcher.service.run import read_config
from tests.charts.rendering import CHARTS, NAMESPACE, Helm
from tests.charts.test_split_agent import SPLIT
from tests.controlplane.fixtures import ControlPlanes

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_an_agent_of_the_chart_lacks_nothing_until_a_binding_of_its_account_goes(
    control_plane: ControlPlanes, helm: Helm, tmp_path: Path
) -> None:
    plane = control_plane("east", nodes=1)
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    example = str(CHARTS / "agent" / "ci" / "example-values.yaml")
    values = ["-f", example, "-f", helm.values_file(SPLIT)]
    helm("install", "agent", str(CHARTS / "agent"), *values, "-n", NAMESPACE, KUBECONFIG=str(plane.kubeconfig))
    context = plane.kubectl("config", "current-context").strip()
    row = {"name": "east", "via": "gateway", "context": context, "kubeconfig": str(plane.kubeconfig)}
    file = tmp_path / "dispatcher.yaml"
    gateway = {"cert_file": "a", "key_file": "b", "client_ca_file": "c"}
    file.write_text(json.dumps({"clusters": [row], "gateway": gateway, "leader_election": {"enabled": False}}))

    async def lacking() -> list[Finding]:
        config = read_config(file)[0]
        async with reached(config) as members:
            return await all_lacking(config, members)

    def found() -> list[Finding]:
        return asyncio.run(lacking())

    assert found() == []
    guard = f"{NAMESPACE}-agent-guard-nodes"
    plane.kubectl("delete", "validatingadmissionpolicybinding", guard)
    (told,) = found()
    assert f"nothing is refused by {guard}, for system:serviceaccount:{NAMESPACE}:agent" in told.text
    bindings = plane.kubectl("get", "clusterrolebindings", "-o", "name").split()
    (observers,) = [one for one in bindings if one.endswith("-observer") and "agent" in one]
    plane.kubectl("delete", observers)
    lacks = [one for one in found() if one != told]
    assert {one.cluster for one in lacks} == {"east"}
    assert any(one.level == PROBLEM and "may not list, watch nodes" in one.text for one in lacks)
    assert all("observer may not" in one.text for one in lacks)


def test_an_agent_that_run_starts_lacks_nothing_of_what_install_gives(
    control_plane: ControlPlanes, tmp_path: Path
) -> None:
    plane = control_plane("west", nodes=1)
    plane.kubectl("create", "serviceaccount", "run", "-n", "default")
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump_all(roles("system:serviceaccount:default:run", frozenset({May.SERVICES}))))
    plane.kubectl("apply", "-f", str(given))
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": plane.kubectl("create", "token", "run", "-n", "default").strip()}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    row = {
        "name": "west",
        "kubeconfig": str(tmp_path / "kubeconfig"),
        "agent": {"executor": {"services": True}},
    }
    file = tmp_path / "dispatcher.yaml"
    file.write_text(json.dumps({"clusters": [row]}))

    async def lacking() -> list[Finding]:
        found = read_config(file)[0]
        async with reached(found) as members:
            return await lacking_here(found.clusters[0], members["west"])

    assert asyncio.run(lacking()) == []
    bindings = plane.kubectl("get", "clusterrolebindings", "-o", "name").split()
    (services,) = [one for one in bindings if one.endswith("-run-services")]
    plane.kubectl("delete", services)
    (unknown,) = asyncio.run(lacking())  # RoleBindings may give it in some namespaces, and it may not list those
    assert unknown.text.startswith("not known: ")
    plane.kubectl("create", "clusterrole", "doctor", "--verb=list", "--resource=rolebindings")
    plane.kubectl("create", "clusterrolebinding", "doctor", "--clusterrole=doctor", "--serviceaccount=default:run")
    lacks = asyncio.run(lacking())
    assert all(one.text.startswith("system:serviceaccount:default:run may not ") for one in lacks)
    assert any("may not list serviceimports.multicluster.x-k8s.io: " in one.text for one in lacks)
