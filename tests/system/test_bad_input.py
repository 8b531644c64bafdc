"""Bad input names its object and holds nobody up."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.system.cluster_api import Object, deployment, eventually
from tests.system.harness import System

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def pod(name: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "example.invalid/x:1", **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"global-dispatcher.io/schedule": "true", **spec.pop("notes", {})}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def message_of(system: System, name: str) -> str:
    conditions = system.home.get(f"{PODS}/{name}")["status"].get("conditions", [])
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


def test_hostile_pods_are_told_why_and_the_others_go_on(system: System) -> None:
    hostile = {
        "huge-selector": pod("huge-selector", nodeSelector={f"k{i}": "v" * 60 for i in range(3200)}),
        "bad-spread": pod("bad-spread", notes={"global-dispatcher.io/spread": "zone=-1,=2,cluster=many"}),
        "bad-clusters": pod("bad-clusters", notes={"global-dispatcher.io/clusters": "no-such-cluster"}),
        "bad-key": pod("bad-key", notes={"global-dispatcher.io/clustres": "west"}),
        "bad-stay": pod("bad-stay", notes={"global-dispatcher.io/stay": "ture"}),
        "claim-key": pod("claim-key", notes={"global-dispatcher.io/cluster": "west"}),
        "too-big": pod("too-big", container={"resources": {"requests": {"cpu": "9" * 15}}}),
        "claims": pod("claims", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
    }
    for body in hostile.values():
        answer = system.home.create(PODS, body)
        assert answer.status_code == 201, answer.text
    quantities = {"exponent": "1e999999", "negative": "-1", "long": "9" * 40}
    refused = {
        name: system.home.create(PODS, pod(f"q-{name}", container={"resources": {"requests": {"cpu": text}}}))
        for name, text in quantities.items()
    }
    for name, answer in refused.items():
        if answer.status_code == 201:  # the server takes it: then we must say why it waits
            hostile[f"q-{name}"] = {}
        else:
            assert "quantit" in answer.text.lower() or "greater than or equal to 0" in answer.text, answer.text
    good = deployment("good", 6, requests={"cpu": "100m"})
    assert system.home.create(DEPLOYMENTS, good).status_code == 201
    eventually(
        lambda: system.home.get(f"{DEPLOYMENTS}/good")["status"].get("readyReplicas") == 6, 60, lambda: system.log
    )
    for name in hostile:
        assert eventually(partial(message_of, system, name), 30, lambda: system.log), name
    assert "nodeSelector" in message_of(system, "huge-selector")
    assert "global-dispatcher.io/spread" in message_of(system, "bad-spread")
    assert "did you mean global-dispatcher.io/clusters?" in message_of(system, "bad-key")
    assert "must be 'true' or 'false', not 'ture'; did you mean 'true'?" in message_of(system, "bad-stay")
    assert "global-dispatcher.io/cluster is written by the agent alone" in message_of(system, "claim-key")
    assert 'persistentvolumeclaim "c" not found' in message_of(system, "claims")
    assert "Insufficient cpu" in message_of(system, "too-big")
    for name in hostile:
        assert system.home.delete(f"{PODS}/{name}") == 200
    system.home.delete(f"{DEPLOYMENTS}/good", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60)


def test_an_api_server_that_hangs_keeps_new_pods_away_and_nobody_waiting(system: System) -> None:
    system.fleet.pause("west")
    try:
        eventually(lambda: not {r["name"]: r for r in system.get("/v1/clusters")}["west"]["ready"], 60)
        problem = {row["name"]: row for row in system.get("/v1/clusters")}["west"]["problem"]
        assert problem
        body = deployment("calm", 8, requests={"cpu": "100m"})
        assert system.home.create(DEPLOYMENTS, body).status_code == 201
        eventually(
            lambda: system.home.get(f"{DEPLOYMENTS}/calm")["status"].get("readyReplicas") == 8, 60, lambda: system.log
        )
        assert {row["cluster"] for row in system.get("/v1/pods")} <= {"east", "north"}
    finally:
        system.fleet.resume("west")
    eventually(lambda: {row["name"]: row for row in system.get("/v1/clusters")}["west"]["ready"], 60)
    system.home.delete(f"{DEPLOYMENTS}/calm", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60)


def test_a_broken_config_names_file_line_and_key(tmp_path: Path) -> None:
    config = tmp_path / "dispatcher.yaml"
    config.write_text("http:\n  prot: 80\ntiming:\n  tick_s: soon\n")
    command = [sys.executable, "-m", "dispatcher.cli.main", "config", "check", str(config)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode != 0
    words = told.stdout + told.stderr
    assert f"{config}:2: http.prot" in words
    assert "did you mean port" in words
    assert f"{config}:4: timing.tick_s" in words


def test_the_demo_replays_a_trace_of_real_pods(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"node-{i:04},32000,131072,0,\n" for i in range(9))
    )
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        + "".join(f"pod-{i:04},{1000 + i * 10},2048,0,0,,LS,Running,{i},{i + 100},{i}\n" for i in range(60))
    )
    command = [sys.executable, "-m", "dispatcher.cli.main", "demo", "--once", "--trace", str(tmp_path), "-o", "json"]
    done = subprocess.run([*command, "--port", "0"], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) == {"clusters", "pods", "seconds"}
    assert len(result["pods"]) == 60
    assert {"namespace", "name", "source", "cluster", "node", "phase", "reason"} <= set(result["pods"][0])
    assert len({row["cluster"] for row in result["pods"]}) == 3
