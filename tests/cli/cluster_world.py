"""Two embedded clusters to operate on; a thread does what agents do with pods that end."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml
from typer.testing import CliRunner, Result

from dispatcher.cli.main import app
from localfleet.embedded.fleet import EmbeddedFleet
from shared.model import names
from tests.system.cluster_api import ClusterApi, Object

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
MARKED: dict[str, Any] = {"finalizers": [names.FINALIZER]}


class World:
    """East with a proxy node of west, west with one of east, and a dispatcher.yaml that lists both."""

    def __init__(self, fleet: EmbeddedFleet, folder: Path) -> None:
        self.config = folder / "dispatcher.yaml"
        self.apis = {name: ClusterApi(fleet.kubeconfig, name) for name in ("east", "west")}
        self.east, self.west = self.apis["east"], self.apis["west"]
        self.list_clusters({name: str(fleet.kubeconfig) for name in self.apis})
        self.wipe()
        for name, api in self.apis.items():
            other = "west" if name == "east" else "east"
            api.delete(f"{NODES}/{names.proxy_node_name(other)}")
            proxy = {"name": names.proxy_node_name(other), "labels": {names.PROXY_LABEL: other}}
            assert api.create(NODES, {"metadata": proxy}).is_success

    def list_clusters(self, kubeconfigs: dict[str, str]) -> None:
        listed = [{"name": name, "kubeconfig": file, "context": name} for name, file in kubeconfigs.items()]
        self.config.write_text(yaml.safe_dump({"clusters": listed}))

    def wipe(self) -> None:
        for api in self.apis.values():
            for one in api.pods():
                end(api, one)

    def run(self, *said: str) -> Result:
        return CliRunner().invoke(app, ["cluster", *said, "--config", str(self.config)])

    def json(self, *said: str) -> tuple[int, dict[str, Any]]:
        result = self.run(*said, "-o", "json")
        return result.exit_code, json.loads(result.stdout)

    def machine(self, cluster: str) -> None:
        """A machine in the other cluster has the name that the proxy node of `cluster` would have."""
        api = self.east if cluster == "west" else self.west
        name = names.proxy_node_name(cluster)
        api.delete(f"{NODES}/{name}")
        assert api.create(NODES, {"metadata": {"name": name}}).is_success

    def proxy(self, cluster: str = "west") -> tuple[bool, str]:
        """Whether the proxy node in the other cluster is cordoned, and its fence."""
        api = self.east if cluster == "west" else self.west
        node = api.get(f"{NODES}/{names.proxy_node_name(cluster)}")
        return bool(node["spec"].get("unschedulable")), node["metadata"].get("labels", {}).get(names.FENCED, "")


def pod(api: ClusterApi, name: str, node: str = "", *, owned: bool = True, **metadata: Any) -> None:
    """A pod, bound if `node` is given."""
    body: Object = {"metadata": {"name": name, "labels": {"app": "web"}, **metadata}}
    if owned:
        owner = api.get(NODES)["items"][0]["metadata"]  # stays, and makes no pods
        it = {"apiVersion": "v1", "kind": "Node", "name": owner["name"], "uid": owner["uid"], "controller": True}
        body["metadata"]["ownerReferences"] = [it]
    body["spec"] = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "busybox"}]}
    if node:
        body["spec"]["nodeName"] = node
    answer = api.create(PODS, body)
    assert answer.is_success, answer.text


def delegate(api: ClusterApi, name: str, source_cluster: str) -> None:
    body: Object = {
        "metadata": {
            "name": name,
            "labels": {names.DELEGATE_LABEL: "true"},
            "annotations": {names.SOURCE_CLUSTER: source_cluster},
        },
        "spec": {"schedulerName": names.DELEGATE_SCHEDULER, "containers": [{"name": "main", "image": "busybox"}]},
    }
    assert api.create(PODS, body).is_success


def end(api: ClusterApi, one: Object) -> None:
    """What executors do in the end: our finalizer goes, and then the pod."""
    path = f"{PODS}/{one['metadata']['name']}"
    with suppress(httpx.HTTPStatusError):
        api.merge(path, {"metadata": {"finalizers": None}})
    api.delete(path, gracePeriodSeconds="0")


def _fenced(node: Object) -> bool:
    return bool(node["metadata"].get("labels", {}).get(names.FENCED) == "true")


@contextmanager
def ending(*apis: ClusterApi) -> Iterator[None]:
    """A dispatcher and agents: pods that are being deleted end, and those on fenced proxy nodes."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            for api in apis:
                closed = {node["metadata"]["name"] for node in api.get(NODES)["items"] if _fenced(node)}
                for one in api.pods():
                    fenced = one["spec"].get("nodeName", "") in closed and one["status"].get("phase") != "Succeeded"
                    if fenced or one["metadata"].get("deletionTimestamp"):
                        end(api, one)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def names_of(api: ClusterApi) -> list[str]:
    return sorted(one["metadata"]["name"] for one in api.pods())
