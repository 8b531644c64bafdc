"""What a case holds: a client of one server with a namespace of its own, and small builders for bodies."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.embedded.api_client import JSON_PATCH, MERGE, STRATEGIC, Answer, ApiClient, Body

APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
WAIT_S = "60"

_ROOTS = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "new-events": "/apis/events.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    **dict.fromkeys(("csidrivers", "csinodes", "csistoragecapacities"), "/apis/storage.k8s.io/v1"),
    **dict.fromkeys(("storageclasses", "volumeattachments"), "/apis/storage.k8s.io/v1"),
}
_GLOBAL = frozenset(
    {
        *("nodes", "namespaces", "persistentvolumes", "priorityclasses"),
        *("csidrivers", "csinodes", "storageclasses", "volumeattachments"),
    }
)

__all__ = ["APPLY", "JSON_PATCH", "MERGE", "STRATEGIC", "Answer", "Api", "Body"]


@dataclass
class Api(ApiClient):
    """Calls to one server, as told by resource: `at("pods", "web", "status")` is a path in the case's namespace."""

    namespace: str = ""

    def at(self, resource: str, *rest: str) -> str:
        """The path of a resource, of one object, or of its part; "new-events" are those of events.k8s.io."""
        root = _ROOTS.get(resource, "/api/v1")
        place = "" if resource in _GLOBAL else f"/namespaces/{self.namespace}"
        return "/".join([root + place, "events" if resource == "new-events" else resource, *rest])

    async def add(self, resource: str, body: Body) -> Body:
        """Create an object that must be accepted."""
        return await self.make(self.at(resource), body)

    async def read(self, resource: str, *rest: str) -> Body:
        """Read an object, or a list, that must be there."""
        return (await self.get(self.at(resource, *rest))).ok()

    async def change(self, resource: str, name: str, body: Any, kind: str = MERGE) -> Body:
        """Patch an object; `name` may lead to a part of it ("web/status")."""
        return (await self.patch(self.at(resource, name), body, kind)).ok()

    async def names(self, resource: str, **query: str) -> list[str]:
        """The names that a list finds, in its order."""
        listed = (await self.get(self.at(resource), **query)).ok()
        return [item["metadata"]["name"] for item in listed["items"]]

    async def now(self) -> str:
        """The server's current resourceVersion."""
        return str((await self.read("pods"))["metadata"]["resourceVersion"])

    async def until(self, resource: str, name: str, holds: Callable[[Body], bool]) -> Body:
        """An object as soon as something holds for it; waits by watching."""
        query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": WAIT_S}
        seen: Body = {}
        async with self.session.get(self.url + self.at(resource), params=query) as response:
            async for line in response.content:
                seen = json.loads(line)["object"]
                if holds(seen):
                    return seen
        raise AssertionError(f"{resource}/{name} never came there: {seen}")

    async def gone(self, resource: str, name: str) -> None:
        """Wait until an object is no more."""
        path = self.at(resource)
        listed = (await self.get(path, fieldSelector=f"metadata.name={name}")).ok()
        if not listed["items"]:
            return
        query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": WAIT_S}
        query["fieldSelector"] = f"metadata.name={name}"
        async with self.session.get(self.url + path, params=query) as response:
            async for line in response.content:
                if json.loads(line)["type"] == "DELETED":
                    return
        raise AssertionError(f"{resource}/{name} is still there")

    async def told(self, resource: str, since: str, holds: Callable[[Body], bool], **query: str) -> Body:
        """The first event after a version that something holds for."""
        asked = {"watch": "1", "resourceVersion": since, "timeoutSeconds": WAIT_S} | query
        async with self.session.get(self.url + self.at(resource), params=asked) as response:
            async for line in response.content:
                event: Body = json.loads(line)
                if holds(event):
                    return event
        raise AssertionError(f"no such event of {resource} after {since}")

    async def bound(self, name: str, node: str = "nowhere") -> None:
        """Bind a pod."""
        (await self.post(self.at("pods", name, "binding"), binding(name, node))).ok()


def pod(name: str = "web", *, spec: Body | None = None, **meta: Any) -> Body:
    """A small valid pod; `spec` is laid over its spec."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    whole = {"containers": [container], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": whole}


def template(app: str, **spec: Any) -> Body:
    """A pod template labelled app=APP."""
    container = {"name": "main", "image": "app:1"}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def deployment(name: str = "shop", replicas: int = 0, **spec: Any) -> Body:
    """A small valid Deployment; without replicas, so that its controller has little to do."""
    labels = {"app": name}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": whole}


def job(name: str = "work", **spec: Any) -> Body:
    """A small valid Job; suspended, so that its controller makes no pods."""
    inner = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    whole = {"suspend": True, "template": inner, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


def config_map(name: str = "settings", **meta: Any) -> Body:
    """An object that no controller cares for."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "1"}}


def binding(name: str, node: str = "nowhere", **meta: Any) -> Body:
    """A Binding of a pod to a node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target}


def causes(answer: Answer) -> set[str]:
    """What a 422 lists: "field: message" of every cause, without the lengthy rules in it."""
    listed = answer.body.get("details", {}).get("causes", [])
    return {f"{cause.get('field', '')}: {short(cause['message'])}" for cause in listed}


def short(text: str) -> str:
    """A message without its "(e.g. ...)" and its "must consist of ..."."""
    for tail in (" (e.g. ", " must consist of ", " or consist of "):
        text = text.partition(tail)[0]
    return text
