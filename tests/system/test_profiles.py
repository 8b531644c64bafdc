"""Policies of a running dispatcher: profiles by schedulerName, kube-scheduler's own file, plugins of files and of an
installed package; gates and pods that wait for others; and what happens when one of the files changes.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from dispatcher.kit.template import Example, new_plugin
from tests.system.cluster_api import Object, deployment, eventually
from tests.system.harness import QUICK_NODES, System, specs
from tests.system.test_bad_input import PODS, message_of, pod

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
AFTER, SHUN = "example.com/after", "example.com/shun"
ZONE = "north-a"
NODES = 3
KUBE = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
profiles:
  - schedulerName: global-dispatcher-kube
    pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
                - matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, values: [{ZONE}]}}]
"""


def write_policies(folder: Path) -> None:
    """Two plugin files, a package with a third plugin, and four profiles."""
    quiet, after = new_plugin("QuietZone"), new_plugin("StartsAfter", Example.PERMIT)
    (folder / "quiet_zone.py").write_text(quiet["quiet_zone.py"])
    (folder / "starts_after.py").write_text(after["starts_after.py"])
    plugins = yaml.safe_load(quiet["profile.yaml"])["plugins"][:-1]
    ours = [{"name": "QuietZone"}, {"name": "StartsAfter"}]
    write_profile(folder / "default.yaml", "global-dispatcher", [*plugins, *ours])
    packing = yaml.safe_load((ROOT / "configs" / "profiles" / "packing.yaml").read_text())
    (folder / "packing.yaml").write_text(json.dumps({**packing, "scheduler_name": "global-dispatcher-packing"}))
    (folder / "kube.yaml").write_text(KUBE)
    write_far(folder, "kubernetes.io/hostname")
    package = folder / "site" / "far_zone-0.1.dist-info"
    package.mkdir(parents=True)
    (package.parent / "far_zone.py").write_text(new_plugin("FarZone")["far_zone.py"])
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: far-zone\nVersion: 0.1\n")
    (package / "entry_points.txt").write_text("[global_dispatcher.plugins]\nfar-zone = far_zone:PLUGIN\n")


def write_profile(path: Path, name: str, plugins: list[Object]) -> None:
    path.write_text(json.dumps({"scheduler_name": name, "plugins": plugins}))


def write_far(folder: Path, avoid: str) -> None:
    """The profile whose plugin comes from a package: nodes with that label are out."""
    plugins = [{"name": name} for name in ("PrioritySort", "NodeReady", "TaintToleration", "NodeResourcesFit")]
    far = {"name": "FarZone", "args": {"avoid": avoid}}
    write_profile(folder / "far.yaml", "global-dispatcher-far", [*plugins, far])


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Three clusters of three nodes, one a zone."""
    folder = tmp_path_factory.mktemp("fleet")
    write_policies(folder)
    config = {
        "profiles": ["default.yaml", "packing.yaml", "kube.yaml", "far.yaml"],
        "plugin_files": ["quiet_zone.py", "starts_after.py"],
    }
    env = {"PYTHONPATH": f"{folder / 'site'}:{os.environ.get('PYTHONPATH', '')}"}
    with System(folder, specs(nodes=NODES, options=QUICK_NODES), config, env=env) as fleet:
        fleet.wait_ready()
        yield fleet


def submit(
    system: System,
    name: str,
    replicas: int,
    scheduler: str = "",
    *,
    cpu: str = "100m",
    spread: str = "",
    after: str = "",
) -> None:
    notes = {"global-dispatcher.io/spread": spread} if spread else {}
    body = deployment(name, replicas, requests={"cpu": cpu}, annotations=notes)
    template = body["spec"]["template"]
    template["spec"] |= {"schedulerName": scheduler} if scheduler else {}
    template["metadata"]["labels"] |= {AFTER: after} if after else {}
    assert system.home.create(DEPLOYMENTS, body).status_code == 201


def placed(system: System, name: str) -> list[str]:
    """cluster/node of each running pod of an app."""
    rows = [row for row in system.get("/v1/pods") if row["name"].startswith(f"{name}-") and row["phase"] == "Running"]
    return [f"{row['cluster']}/{row['node']}" for row in rows]


def wait_placed(system: System, name: str, count: int) -> list[str]:
    return list(eventually(lambda: len(p := placed(system, name)) == count and p, 60, lambda: system.log))


def remove(system: System, *names: str) -> None:
    for name in names:
        system.home.delete(f"{DEPLOYMENTS}/{name}", propagationPolicy="Background")
    eventually(lambda: not any(placed(system, name) for name in names), 60, lambda: system.log)


def events_of(system: System, name: str) -> list[tuple[str, str]]:
    """(reason, message) of a pod's events."""
    found = system.home.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}")
    return [(one["reason"], one.get("message", "")) for one in found["items"]]


def test_each_pod_is_placed_by_the_profile_that_it_names(system: System) -> None:
    # One after the other: which node is the fullest must not change while pods are packed onto it.
    submit(system, "wide", 9)
    wide = wait_placed(system, "wide", 9)
    # Each fills a sixteenth of a node: that counts more than what live readings move meanwhile.
    submit(system, "tight", 9, "global-dispatcher-packing", cpu="1")
    tight = wait_placed(system, "tight", 9)
    submit(system, "kube", 6, "global-dispatcher-kube")
    kube = wait_placed(system, "kube", 6)
    assert len(set(wide)) > 1, wide
    assert len(set(tight)) == 1, tight
    zone = [node["metadata"]["name"] for node in nodes(system, "north") if node["metadata"]["labels"][LABEL] == ZONE]
    assert {f"north/{name}" for name in zone} == set(kube)
    remove(system, "wide", "tight", "kube")


LABEL = "topology.kubernetes.io/zone"


def nodes(system: System, cluster: str) -> list[Object]:
    """Those with a kubelet."""
    found = system.apis[cluster].get("/api/v1/nodes")["items"]
    return [node for node in found if LABEL in node["metadata"]["labels"]]


def test_a_pod_that_names_no_profile_is_told_which_there_are(system: System) -> None:
    system.home.create(PODS, pod("lost", schedulerName="global-dispatcher-fast"))
    message = eventually(lambda: message_of(system, "lost"), 30, lambda: system.log)
    for name in ("", "-packing", "-kube", "-far"):
        assert f"global-dispatcher{name}" in message
    system.home.delete(f"{PODS}/lost")


def test_a_gated_pod_says_so_and_runs_when_its_gates_are_lifted(system: System) -> None:
    system.home.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/approval"}]))
    eventually(lambda: "example.com/approval" in message_of(system, "gated"), 30, lambda: system.log)
    (condition,) = system.home.get(f"{PODS}/gated")["status"]["conditions"]
    assert condition["reason"] == "SchedulingGated"
    system.home.merge(f"{PODS}/gated", {"spec": {"schedulingGates": None}})
    eventually(lambda: phase(system, "gated") == "Running", 30, lambda: system.log)
    system.home.delete(f"{PODS}/gated")


def phase(system: System, name: str) -> str:
    return str(system.home.get(f"{PODS}/{name}")["status"].get("phase"))


def held(system: System) -> list[str]:
    """Pods that wait for another, as the list of pods says."""
    return [row["name"] for row in system.get("/v1/pods") if "Permit plugin StartsAfter" in row["reason"]]


def test_pods_that_wait_for_another_hold_their_places_say_so_and_go_with_it(system: System) -> None:
    submit(system, "train", 2, after="base")
    eventually(lambda: len(held(system)) == 2, 30, lambda: system.log)
    assert placed(system, "train") == []
    name = held(system)[0]
    assert system.explain(name)["waiting"] == "waiting on Permit plugin StartsAfter"
    told = eventually(lambda: [text for reason, text in events_of(system, name) if reason == "Waiting"], 30)
    assert told[0].startswith("waiting on Permit plugin StartsAfter; its place on ")
    submit(system, "base", 1)
    wait_placed(system, "train", 2)
    remove(system, "train")
    remove(system, "base")


def test_a_plugin_of_a_package_refuses_by_name_until_its_changed_profile_lets_go(system: System) -> None:
    submit(system, "far", 2, "global-dispatcher-far")
    name = eventually(lambda: next(iter(waiting(system, "far")), None), 30, lambda: system.log)
    message = eventually(lambda: message_of(system, name), 30, lambda: system.log)
    assert f"{3 * NODES} node(s) were to be avoided (FarZone)" in message
    write_far(system.directory, "example.com/nobody")
    wait_placed(system, "far", 2)
    remove(system, "far")


def reloads(system: System) -> int:
    return (system.directory / "dispatcher.log").read_text().count("changed policies hold from now on")


def refused(system: System) -> float:
    text = httpx.get(f"http://127.0.0.1:{system.port}/metrics", timeout=5, trust_env=False).text
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith("global_dispatcher_policies_refused ")
    )


def waiting(system: System, app: str) -> list[str]:
    found = (one for one in system.home.pods() if one["metadata"]["name"].startswith(f"{app}-"))
    return [one["metadata"]["name"] for one in found if "nodeName" not in one["spec"]]


def test_a_changed_plugin_file_is_refused_with_the_reason_while_it_is_broken_and_then_holds(system: System) -> None:
    path = system.directory / "quiet_zone.py"
    for cluster in ("east", "north"):
        for node in nodes(system, cluster):
            labels = {"metadata": {"labels": {SHUN: "yes"}}}
            system.apis[cluster].merge(f"/api/v1/nodes/{node['metadata']['name']}", labels)
    changed = path.read_text().replace("example.com/avoid", SHUN)
    path.write_text(changed.replace("[rows] >= 0)", "[rows] >= 0"))
    eventually(lambda: "is no Python" in system.log and "the old ones stay" in system.log, 30, lambda: system.log)
    assert refused(system) == 1
    submit(system, "before", 9, spread="cluster=1")
    assert {place.split("/")[0] for place in wait_placed(system, "before", 9)} == set(system.apis)
    taken = reloads(system)
    path.write_text(changed)
    eventually(lambda: reloads(system) > taken, 30, lambda: system.log)
    assert refused(system) == 0
    submit(system, "after", 9)
    assert {place.split("/")[0] for place in wait_placed(system, "after", 9)} == {"west"}
    assert len(placed(system, "before")) == 9
    remove(system, "before", "after")
