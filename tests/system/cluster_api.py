"""The tests' own plain Kubernetes client: httpx and a kubeconfig context, nothing of the product's."""

import base64
import ssl
import tempfile
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import httpx
import yaml

Object = dict[str, Any]
# Times are given as a quiet machine needs them at most: a busy one gets so many times more.
PATIENCE = 6


class ClusterApi:
    """One context of a kubeconfig."""

    def __init__(self, kubeconfig: Path, context: str) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        entry = {c["name"]: c["context"] for c in config["contexts"]}[context]
        cluster = {c["name"]: c["cluster"] for c in config["clusters"]}[entry["cluster"]]
        user = {u["name"]: u["user"] for u in config["users"]}[entry["user"]]
        self.name = context
        self._http = httpx.Client(
            base_url=cluster["server"],
            headers={"Authorization": f"Bearer {user['token']}"} if user.get("token") else {},
            verify=_tls(cluster, user),
            timeout=20,
            trust_env=False,
        )

    def get(self, path: str, **params: str) -> Object:
        """GET, 2xx or raise."""
        answer = self._http.get(path, params=params)
        answer.raise_for_status()
        body: Object = answer.json()
        return body

    def log(self, name: str, namespace: str = "default") -> httpx.Response:
        """The log of a pod, any answer."""
        return self._http.get(f"/api/v1/namespaces/{namespace}/pods/{name}/log")

    def create(self, path: str, body: Object) -> httpx.Response:
        """POST, any answer."""
        return self._http.post(path, json=body)

    def merge(self, path: str, body: Object) -> Object:
        """Merge patch, 2xx or raise."""
        answer = self._http.patch(path, json=body, headers={"Content-Type": "application/merge-patch+json"})
        answer.raise_for_status()
        patched: Object = answer.json()
        return patched

    def delete(self, path: str, **params: str) -> int:
        """DELETE, the status code."""
        return self._http.delete(path, params=params).status_code

    def pods(self, namespace: str = "default") -> list[Object]:
        """All pods of a namespace."""
        items: list[Object] = self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return items

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()


def _tls(cluster: Object, user: Object) -> ssl.SSLContext:
    """Trust in the cluster's authority, and the user's certificate if that is how it gets in."""
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            for part in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[part]))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def eventually(
    condition: Callable[[], Any],
    timeout_s: float,
    what: Callable[[], str] = lambda: "",
    progress: Callable[[], float] | None = None,
) -> Any:
    """Wait until `condition` is truthy and return it; AssertionError with `what()` after PATIENCE times `timeout_s`.

    With `progress`, the time begins anew whenever that is higher than ever: what fails is work that stands still, not
    work on a slow machine. A connection that fails meanwhile counts as "not yet": servers are killed in these tests.
    """
    patience, best = PATIENCE * timeout_s, -inf
    deadline = time.monotonic() + patience
    while True:
        try:
            if value := condition():
                return value
            reached = progress() if progress is not None else -inf
        except httpx.HTTPError:
            reached = -inf
        if reached > best:
            best, deadline = reached, time.monotonic() + patience
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:.0f} s{_of(best)}: {what()}")
        time.sleep(0.25)


def _of(best: float) -> str:
    return "" if best == -inf else f" since it was at {best:g}"


def deployment(name: str, replicas: int, *, requests: Object, annotations: Object | None = None) -> Object:
    """An annotated Deployment."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"global-dispatcher.io/schedule": "true", **(annotations or {})},
                },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": requests}}
                    ],
                },
            },
        },
    }


DELEGATE = "global-dispatcher.io/delegate"
SOURCE_UID = "global-dispatcher.io/source-uid"


def running_places(apis: dict[str, ClusterApi], home: str) -> dict[str, list[str]]:
    """Source uid -> the clusters in which it really runs now (on a node with a kubelet, not ended, not ending)."""
    places: dict[str, list[str]] = {}
    for cluster, api in apis.items():
        for pod in api.pods():
            meta, delegate = pod["metadata"], DELEGATE in pod["metadata"].get("labels", {})
            alive = pod["status"].get("phase") == "Running" and "deletionTimestamp" not in meta
            local = cluster == home and not pod["spec"].get("nodeName", "global-dispatcher-").startswith(
                "global-dispatcher-"
            )
            if alive and (delegate or local):
                uid = meta["annotations"][SOURCE_UID] if delegate else meta["uid"]
                places.setdefault(uid, []).append(cluster)
    return places
