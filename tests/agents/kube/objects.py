"""API objects as JSON, as small as a test needs them."""

from typing import Any

import msgspec

from agents.kube.convert import pod_seen
from shared.model import names
from shared.model.pod import Pod

Object = dict[str, Any]


def pod_object(name: str = "web-1", **spec: Any) -> Object:
    """A pod of ours in namespace default; its uid is uid-NAME. `metadata` and `status` are merged, the rest is spec."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    metadata |= spec.pop("metadata", {})
    status = spec.pop("status", {"phase": "Pending"})
    spec.setdefault("schedulerName", names.SCHEDULER_NAME)
    return {"metadata": metadata, "spec": spec, "status": status}


def node_object(name: str = "n1", **fields: Any) -> Object:
    """A Ready node with 4 cores, 8 GiB and 110 places. `metadata`, `spec` and `status` are merged."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **fields.get("metadata", {})},
        "spec": fields.get("spec", {}),
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            **fields.get("status", {}),
        },
    }


def needs(**requests: str) -> Object:
    """A container that requests so much."""
    return {"name": "c", "image": "app:1", "resources": {"requests": requests}}


def raw(thing: Object) -> bytes:
    """Its JSON."""
    return msgspec.json.encode(thing)


def read_pod(thing: Object) -> Pod:
    """The model pod that the converter makes of an object that matters."""
    seen = pod_seen(raw(thing))
    assert seen is not None
    assert seen.pod is not None
    return seen.pod
