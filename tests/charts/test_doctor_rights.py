"""What doctor finds of agents' rights and policies on a real API server: nothing where the chart is whole, and all that
is taken away.
"""

import asyncio
import json
from pathlib import Path

import pytest

from dispatcher.cli.diagnosis import PROBLEM, Finding
from dispatcher.cli.joining.rights import all_lacking
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
    row = {"name": "east", "context": context, "kubeconfig": str(plane.kubeconfig)}
    file = tmp_path / "dispatcher.yaml"
    file.write_text(json.dumps({"clusters": [row]}))

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
