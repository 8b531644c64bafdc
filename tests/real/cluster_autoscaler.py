"""A real Cluster Autoscaler on a control plane, whose nodes KWOK plays: its provider `kwok`.

The Go module proxy does not have it, so it is not built here: see CONTRIBUTING.md.
"""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from localfleet.controlplane.nodes import MANAGED
from localfleet.controlplane.plane import ControlPlane

PROGRAM = "GLOBAL_DISPATCHER_TEST_CLUSTER_AUTOSCALER"
GROUP = "example.com/node-group"  # label of the nodes that it has made
_NAMESPACE = "kube-system"
_LOOP = "Starting main loop"
_FLAGS = (
    "--cloud-provider=kwok",
    f"--namespace={_NAMESPACE}",
    "--leader-elect=false",
    "--scan-interval=2s",
    "--scale-down-unneeded-time=10s",
    "--scale-down-delay-after-add=5s",
    "--unremovable-node-recheck-timeout=5s",
    "--v=4",
)


def program() -> str:
    """Where it is; "" if nobody says."""
    return os.environ.get(PROGRAM, "")


class ClusterAutoscaler:
    """It makes nodes of 8 CPUs, up to three, when pods ask for them."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._log = folder / f"autoscaler-{plane.name}.log"
        self._plane = plane
        group = {"nodegroups": {"fromNodeLabelKey": GROUP}, "nodes": {"skipTaint": True}}
        config = {"apiVersion": "v1alpha1", "readNodesFrom": "configmap", "configmap": {"name": "templates"}, **group}
        templates = {"apiVersion": "v1", "kind": "List", "items": [_template()]}
        for name, key, value in (("settings", "config", config), ("templates", "templates", templates)):
            metadata = {"name": name, "namespace": _NAMESPACE}
            data = {key: json.dumps(value)}
            plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        flags = (*_FLAGS, f"--kubeconfig={plane.kubeconfig}", "--address=127.0.0.1:0")
        env = {
            **os.environ,
            "POD_NAMESPACE": _NAMESPACE,
            "KUBECONFIG": str(plane.kubeconfig),
            "KWOK_PROVIDER_MODE": "local",
            "KWOK_PROVIDER_CONFIGMAP": "settings",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program(), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env
            )

    @property
    def log(self) -> str:
        """All that it said."""
        return self._log.read_text("utf-8", "replace")

    @property
    def loops(self) -> int:
        """How often it has looked at the cluster."""
        assert self._process.poll() is None, self.log[-3000:]
        return self.log.count(_LOOP)

    def made(self) -> set[str]:
        """The nodes that it has made, and not removed."""
        nodes = self._plane.admin.get("/api/v1/nodes")["items"]
        return {one["metadata"]["name"] for one in nodes if GROUP in one["metadata"]["labels"]}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)


def _template() -> dict[str, Any]:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    address = {"type": "InternalIP", "address": "127.0.0.1"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "bought",
            "labels": {GROUP: "bought", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "local"},
            "annotations": {
                MANAGED: "fake",
                "cluster-autoscaler.kwok.nodegroup/min-count": "0",
                "cluster-autoscaler.kwok.nodegroup/max-count": "3",
            },
        },
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity, "addresses": [address], "conditions": [ready]},
    }
