"""What the demo submits, all of it in one cluster: ordinary Deployments and Jobs whose pods carry
one annotation.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from shared.model import names

Manifest = dict[str, Any]
NAMESPACE = "default"
_RUN_SECONDS = "embedded.global-dispatcher.io/run-seconds"


class Workload(NamedTuple):
    """One row of the sample: its share of all pods, what a pod requests, and its annotations."""

    name: str
    kind: str
    share: int
    cpu: str
    memory: str
    annotations: dict[str, str]


WORKLOADS = (
    # Its pods may differ by at most one between any two zones of the whole fleet.
    Workload("web", "Deployment", 12, "500m", "512Mi", {names.SPREAD: "zone=1"}),
    Workload("api", "Deployment", 10, "1", "1Gi", {names.SPREAD: "cluster=1:soft"}),
    Workload("cache", "Deployment", 6, "250m", "6Gi", {}),
    Workload("report", "Job", 8, "1500m", "1Gi", {_RUN_SECONDS: "6"}),
    Workload("local", "Deployment", 4, "250m", "256Mi", {names.STAY: "true"}),
)


class Submission(NamedTuple):
    """One object to create: where it is posted, what, and how many pods it will have."""

    path: str
    manifest: Manifest
    pods: int


def sample(pods: int) -> Iterator[Submission]:
    """The sample workloads with about `pods` pods in all; every workload has at least one."""
    total = sum(workload.share for workload in WORKLOADS)
    for workload in WORKLOADS:
        count = max(1, round(pods * workload.share / total))
        yield _job(workload, count) if workload.kind == "Job" else _deployment(workload, count)


def _deployment(workload: Workload, count: int) -> Submission:
    labels = {"app": workload.name}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "labels": labels},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": _template(workload, "Always"),
        },
    }
    return Submission(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", manifest, count)


def _job(workload: Workload, count: int) -> Submission:
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": workload.name, "labels": {"app": workload.name}},
        "spec": {
            "completions": count,
            "parallelism": count,
            "template": _template(workload, "Never"),
        },
    }
    return Submission(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", manifest, count)


def _template(workload: Workload, restart: str) -> Manifest:
    return {
        "metadata": {"labels": {"app": workload.name}, "annotations": _ours(workload.annotations)},
        "spec": {
            "restartPolicy": restart,
            "containers": [container(workload.cpu, workload.memory)],
        },
    }


def _ours(annotations: dict[str, str]) -> dict[str, str]:
    return {names.SCHEDULE: "true", **annotations}


def container(cpu: str, memory: str) -> Manifest:
    """A container that requests this much."""
    return {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }


def bare_pod(name: str, cpu: str, memory: str) -> Submission:
    """A pod of its own, as a trace has them."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": _ours({})},
        "spec": {"restartPolicy": "Never", "containers": [container(cpu, memory)]},
    }
    return Submission(f"/api/v1/namespaces/{NAMESPACE}/pods", manifest, 1)
