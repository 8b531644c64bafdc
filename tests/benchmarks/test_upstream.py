"""Our cases beside the files of scheduler_perf, where there is the module cache that real planes are built from."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.report.anchors import ANCHORS, SOURCES
from benchmarks.workloads.cases import CASES, Case, Pods
from benchmarks.workloads.templates import TEMPLATES

MODULES = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
UPSTREAM = MODULES / "k8s.io" / "kubernetes@v1.36.3" / "test" / "integration" / "scheduler_perf"
# Written in capitals there, and read without regard to case.
CASELESS = {"NodeAffinityPolicy": "nodeAffinityPolicy", "NodeTaintsPolicy": "nodeTaintsPolicy"}

pytestmark = pytest.mark.skipif(not UPSTREAM.exists(), reason=f"no {UPSTREAM}")
every_case = pytest.mark.parametrize("one", CASES, ids=[one.name for one in CASES])


@cache
def configs() -> dict[str, Any]:
    files = UPSTREAM.glob("*/performance-config.yaml")
    return {one["name"]: one for file in files for one in yaml.safe_load(file.read_text())}


def steps(one: Case) -> list[dict[str, Any]]:
    """The operations of the case with its workload's counts put in."""
    config = configs()[one.name]
    workload = next(each for each in config["workloads"] if each["name"].startswith(one.workload))
    default = {"podTemplatePath": config.get("defaultPodTemplatePath", "../templates/pod-default.yaml")}
    return [_filled({**default, **step}, workload["params"]) for step in config["workloadTemplate"]]


def _filled(step: dict[str, Any], params: dict[str, int]) -> dict[str, Any]:
    count = step.get("count", params.get(step.get("countParam", "").removeprefix("$"), 0))
    inner = step.get("createPodsOp")
    return {**step, "count": count, **({"createPodsOp": _filled(inner, params)} if inner else {})}


def told(step: dict[str, Any]) -> Pods:
    """A createPods or createPodSets step in our words."""
    inner = step.get("createPodsOp", step)
    template = Path(inner.get("podTemplatePath") or step["podTemplatePath"]).stem
    volume = Path(inner["persistentVolumeTemplatePath"]).stem if "persistentVolumeTemplatePath" in inner else ""
    if "createPodsOp" in step:
        return Pods(template, inner["count"], step["namespacePrefix"], step["count"], volume)
    return Pods(template, step["count"], step.get("namespace", "default"), 0, volume)


@every_case
def test_the_pods_of_a_case_are_upstreams(one: Case) -> None:
    made = [step for step in steps(one) if step["opcode"] in ("createPods", "createPodSets")]
    assert one.before == tuple(told(step) for step in made if not step.get("collectMetrics"))
    assert [one.measured] == [told(step) for step in made if step.get("collectMetrics")]


@every_case
def test_the_nodes_of_a_case_are_upstreams(one: Case) -> None:
    made = [step for step in steps(one) if step["opcode"] == "createNodes"]
    kinds = {Path(step.get("nodeTemplatePath", "node-default")).stem: step["count"] for step in made}
    assert one.nodes.named == ("node-with-name" in kinds)
    assert one.nodes.tainted == kinds.get("node-with-taint", 0)
    assert one.nodes.count == kinds["node-default"] + one.nodes.tainted
    zones = [step["labelNodePrepareStrategy"]["labelValues"] for step in made if "labelNodePrepareStrategy" in step]
    assert list(one.nodes.zones) == [zone for of in zones for zone in of]


@every_case
def test_what_comes_beside_a_case_is_upstreams(one: Case) -> None:
    churn = [step for step in steps(one) if step["opcode"] == "churn"]
    assert [one.churn] * bool(one.churn) == [Path(step["templatePaths"][0]).stem for step in churn]
    assert {step["intervalMilliseconds"] for step in churn} <= {200}


@every_case
def test_the_floor_of_a_case_is_upstreams_or_a_later_higher_one(one: Case) -> None:
    floors = [each.get("threshold", 0) for each in configs()[one.name]["workloads"]]
    anchor = ANCHORS.get(f"bound_{one.name}")
    if anchor is None:
        assert not any(floors)
    elif SOURCES[anchor.source].where.endswith("v1.36.3"):
        assert anchor.value == max(floors)
    else:
        assert anchor.value > max(floors)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_upstreams(name: str) -> None:
    file = next(UPSTREAM.glob(f"**/templates/{name}.yaml"))
    pod = yaml.safe_load(file.read_text())
    spec = pod["spec"]
    for container in spec["containers"]:
        container["image"] = TEMPLATES[name].spec["containers"][0]["image"]  # its version is nobody's business
        for amounts in container.get("resources", {}).values():
            amounts["cpu"] = str(amounts["cpu"]).replace("3000m", "3")
    for rule in spec.get("topologySpreadConstraints", ()):
        for old, new in CASELESS.items():
            if old in rule:
                rule[new] = rule.pop(old)
    assert TEMPLATES[name].spec == spec
    assert TEMPLATES[name].labels == pod["metadata"].get("labels", {})
