"""Readings that are too old, or gone, count for nothing: placement falls back to requests and says so."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from dispatcher.cli.main import app
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import System, specs

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEFAULT = Path(__file__).parents[2] / "configs" / "profiles" / "default.yaml"
LIVE = ("ExpectedLoad",)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Three clusters under a profile for which every reading is stale, one of them hot."""
    directory = tmp_path_factory.mktemp("fleet")
    profile = yaml.safe_load(DEFAULT.read_text())
    for plugin in profile["plugins"]:
        if plugin["name"] in LIVE:
            plugin["args"] = {"fresh_s": 0.0001, "stale_s": 0.0002}
    (directory / "profile.yaml").write_text(yaml.safe_dump(profile))
    with System(directory, specs(nodes=4), {"profile": str(directory / "profile.yaml")}) as fleet:
        api = fleet.apis["north"]
        for node in api.get("/api/v1/nodes")["items"]:
            hot = {"metadata": {"annotations": {"embedded.global-dispatcher.io/background-cpu": "0.9"}}}
            api.merge(f"/api/v1/nodes/{node['metadata']['name']}", hot)
        fleet.wait_ready()
        yield fleet


def test_stale_readings_count_for_nothing_and_explain_says_so(system: System) -> None:
    body = deployment("blind", 24, requests={"cpu": "500m", "memory": "256Mi"})
    assert system.home.create(DEPLOYMENTS, body).status_code == 201
    places = system.wait_running(24, 60)
    where = Counter(clusters[0] for clusters in places.values())
    assert abs(where["north"] - where["west"]) <= 2, where  # by requests the hot cluster is like the other
    record = system.explain(system.home.pods()[0]["metadata"]["name"])["decision"]
    assert "by requests" in record["extras"]["ExpectedLoad"]["cpu"]["judged"]
    system.home.delete(f"{DEPLOYMENTS}/blind", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60)


def command(system: System, *words: str) -> Result:
    """As a user runs it."""
    return CliRunner().invoke(app, [*words, "--server", f"http://127.0.0.1:{system.port}"])


def test_doctor_and_top_show_what_the_agents_read(system: System) -> None:
    eventually(lambda: command(system, "doctor").exit_code == 0, 60)
    lines = [line.split() for line in command(system, "doctor").stdout.splitlines() if "kubelet" in line]
    assert [(words[0], words[2]) for words in lines] == [(name, "ok") for name in sorted(system.apis)]
    nodes = json.loads(command(system, "top", "nodes", "-o", "json").stdout)
    assert {row["load"]["cpu"]["source"] for row in nodes} == {"kubelet"}
    assert {row["cluster"] for row in nodes[:4]} == {"north"}  # the hot one
    clusters = json.loads(command(system, "top", "clusters", "-o", "json").stdout)
    assert (clusters[0]["cluster"], clusters[0]["load"]["cpu"]["known"]) == ("north", 4)
