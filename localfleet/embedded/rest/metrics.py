"""metrics.k8s.io, as metrics-server answers it (its pkg/api/pod.go and pkg/api/node.go): get and
list.
"""

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.metadata import timestamp
from localfleet.embedded.apiserver.quantity import canonical
from localfleet.embedded.apiserver.status import Object, not_found
from localfleet.embedded.usage import Usage

_VERSION = "metrics.k8s.io/v1beta1"
KINDS = {"nodes": "NodeMetrics", "pods": "PodMetrics"}
_NANO = 10**9
_KIB = 1024
_MINUTE_S = 60


def metrics(api: Api, plural: str, namespace: str, name: str, labels: str, fields: str) -> Object:
    """Usage of one node or pod, or of all of which something is known; ApiError 404."""
    kind = KINDS[plural]
    if name:
        objects = [_shown(api, plural, namespace, name)]
    else:
        objects = api.list(plural, namespace, labels=labels, fields=fields)
    found = [reading for obj in objects if (reading := _reading(api, kind, obj)) is not None]
    if not name:
        return {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": found}
    if not found:
        raise not_found(
            f"{kind.lower()}.metrics.k8s.io", f"{namespace}/{name}" if namespace else name
        )
    return found[0]


def _shown(api: Api, plural: str, namespace: str, name: str) -> Object:
    """The object; ApiError 404 in metrics-server's words: it knows only pods that run, and says
    `node` of a node.
    """
    found = api.find(plural, name, namespace)
    if found is None or (plural == "pods" and not _runs(found)):
        raise not_found(plural if plural == "pods" else "node", name)
    return found


def _runs(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _reading(api: Api, kind: str, obj: Object) -> Object | None:
    meta = obj["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
    kept["creationTimestamp"] = timestamp(api.objects.now())
    head: Object = {"kind": kind, "apiVersion": _VERSION, "metadata": kept}
    if kind == "NodeMetrics":
        node = api.node_usage(meta["name"])
        return head | _when(node) | {"usage": _used(node)} if node is not None else None
    containers = api.pod_usage(meta["namespace"], meta["name"]) if _runs(obj) else None
    if not containers:
        return None
    listed = [{"name": name, "usage": _used(usage)} for name, usage in containers.items()]
    return (
        head | _when(min(containers.values())) | {"containers": listed}
    )  # by time: the earliest of them


def _when(usage: Usage) -> Object:
    return {"timestamp": timestamp(usage.at), "window": duration(usage.window_s)}


def _used(usage: Usage) -> Object:
    memory = int(usage.memory)
    text = canonical(f"{memory // _KIB}Ki") if memory % _KIB == 0 else str(memory)
    return {"cpu": canonical(f"{int(usage.cpu * _NANO)}n"), "memory": text}


def duration(seconds: float) -> str:
    """Seconds as Go writes a time.Duration below an hour.

    >>> duration(15.25), duration(75)
    ('15.25s', '1m15s')
    """
    minutes, rest = divmod(round(seconds, 6), _MINUTE_S)  # no clock here is finer
    text = f"{rest:.6f}".rstrip("0").rstrip(".") + "s"
    return f"{int(minutes)}m{text}" if minutes else text
