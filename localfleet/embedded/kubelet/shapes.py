"""The nodes of an embedded cluster: their shapes, and the Node objects that their kubelets
register.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from localfleet.embedded.meta import Object, stamp
from shared.model.names import BANDWIDTH, HOSTNAME, PREFIX, REGION, ZONE
from shared.model.resources import QuantityError, parse_quantity

EMBEDDED_LABEL = PREFIX + "embedded-node"
GPU = "nvidia.com/gpu"
GPU_MODEL = "nvidia.com/gpu.product"
KUBELET_VERSION = "v1.37.2"


class ShapeError(ValueError):
    """A node shape or a row of a node table that cannot be read; the text names the key or the
    line.
    """


@dataclass(frozen=True, slots=True)
class Shape:
    """`count` equal nodes; quantities as Kubernetes writes them. Without a zone they go round the
    cluster's zones.
    """

    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    gpu: str = "0"
    bandwidth: str = "1250M"
    count: int = 1
    zone: str = ""
    type: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("cpu", "memory", "pods", "gpu", "bandwidth"):
            try:
                parse_quantity(getattr(self, key), scale=1000 if key == "cpu" else 1)
            except QuantityError as error:
                raise ShapeError(f"node shape: {key}: {error}") from None
        if self.count < 1:
            raise ShapeError(f"node shape: count: {self.count} is not a number of nodes from 1 up")

    @property
    def resources(self) -> dict[str, str]:
        """status.capacity and status.allocatable."""
        extended = {GPU: self.gpu} if parse_quantity(self.gpu) else {}
        basic = {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": "100Gi",
        }
        return {**basic, **extended}


def parse_shape(text: str) -> Shape:
    """Read 'cpu=8,memory=32Gi,pods=110,count=10,zone=a'; all keys may be left out."""
    known = ("cpu", "memory", "pods", "gpu", "bandwidth", "count", "zone", "type")
    given: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, separator, value = part.partition("=")
        if key not in known or not separator or not value:
            raise ShapeError(
                f"node shape {text!r}: {part!r} is not KEY=VALUE with KEY one of {', '.join(known)}"
            )
        given[key] = value
    count = given.pop("count", "1")
    if not count.isdigit():
        raise ShapeError(f"node shape {text!r}: count={count} is not a whole number")
    return Shape(count=int(count), **given)  # type: ignore[arg-type]  # the keys are those above, all text


def read_shapes(path: Path, part: int = 1, parts: int = 1) -> list[Shape]:
    """The nodes of a table with the columns sn, cpu_milli, memory_mib, gpu, model; every `parts`-th
    row from `part`.
    """
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = {"sn", "cpu_milli", "memory_mib"} - set(rows.fieldnames or ())
        if missing:
            raise ShapeError(f"{path}: column {', '.join(sorted(missing))} is missing")
        return [
            _row(path, line, row)
            for line, row in enumerate(rows, 2)
            if (line - 2) % parts == part - 1
        ]


def _row(path: Path, line: int, row: dict[str, str]) -> Shape:
    model = row.get("model") or ""
    labels = {GPU_MODEL: model} if model else {}
    try:
        return Shape(
            cpu=f"{row['cpu_milli']}m",
            memory=f"{row['memory_mib']}Mi",
            pods="256",
            gpu=row.get("gpu") or "0",
            type=model or "cpu",
            name=row["sn"],
            labels=labels,
        )
    except ShapeError as error:
        raise ShapeError(f"{path}:{line}: {error}") from None


def node_objects(
    cluster: str, shapes: Iterable[Shape], region: str, zones: Sequence[str]
) -> Iterator[Object]:
    """Node objects as kubelets first register them, without addresses, heartbeat or readiness."""
    rotation = cycle(zones)
    number = 0
    for shape in shapes:
        for _ in range(shape.count):
            name = shape.name or f"{cluster}-node-{number:03d}"
            yield _node(name, shape, region, shape.zone or next(rotation))
            number += 1


def _node(name: str, shape: Shape, region: str, zone: str) -> Object:
    labels = {
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        # deprecated since 1.14, still set by every kubelet, and still asked for by charts
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": shape.type or f"embedded-{shape.cpu}-{shape.memory}",
        REGION: region,
        ZONE: zone,
        EMBEDDED_LABEL: "true",
        **shape.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {BANDWIDTH: shape.bandwidth}},
        "spec": {"providerID": f"embedded://{name}"},
        "status": {"capacity": shape.resources, "allocatable": shape.resources},
    }


def heartbeat_conditions(old: list[Object], now: float) -> list[Object]:
    """The four node conditions of a healthy kubelet, heard from at `now`."""
    moment = stamp(now)
    since = {
        entry["type"]: entry.get("lastTransitionTime")
        for entry in old
        if entry.get("status") == _status(entry)
    }
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": since.get(kind) or moment,
        }
        for kind, (status, reason, message) in _HEALTHY.items()
    ]


_HEALTHY = {
    "MemoryPressure": (
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


def _status(entry: Object) -> str:
    return _HEALTHY.get(entry["type"], ("",))[0]


def registered_status(node: Object, address: str, port: int, now: float) -> Object:
    """The node's status with its address, kubelet port and healthy conditions."""
    old = node.get("status") or {}
    name = node["metadata"]["name"]
    return {
        **old,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": heartbeat_conditions(old.get("conditions") or [], now),
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Embedded (simulated)",
            "kernelVersion": "embedded",
            "containerRuntimeVersion": "embedded://1",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "machineID": node["metadata"].get("uid", ""),
            "systemUUID": node["metadata"].get("uid", ""),
            "bootID": node["metadata"].get("uid", ""),
        },
    }
