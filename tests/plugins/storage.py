"""Volumes, claims and what serves them, as small as a test needs them."""

from typing import Any

from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.labels import IN, NodeSelectorTerm, Requirement
from shared.model.names import ZONE
from shared.model.objects import AnyObject, PersistentVolume, PersistentVolumeClaim, StorageClass
from shared.model.pod import CLAIM, Volume
from tests.builders import NodeBuilder, PodBuilder, fleet, pod

GIB = 2**30
WAIT, NOW, STATIC = "wait", "immediate", "static"
CLASSES = (
    StorageClass(WAIT, "csi.example.com", waits=True),
    StorageClass(STATIC, "kubernetes.io/no-provisioner", waits=True),
    StorageClass(NOW, "csi.example.com"),
)


def using(*claims: str, name: str = "p1", **fields: Any) -> PodBuilder:
    """A pod of namespace default that mounts these claims."""
    return pod(name).set(volumes=tuple(Volume(CLAIM, claim) for claim in claims), **fields)


def ephemeral(name: str = "p1") -> PodBuilder:
    """A pod with one generic ephemeral volume, whose claim is NAME-v."""
    return pod(name).set(volumes=(Volume(CLAIM, f"{name}-v", ephemeral=True),))


def in_zone(*zones: str) -> tuple[NodeSelectorTerm, ...]:
    """Node affinity to zones."""
    return on(ZONE, *zones)


def on(key: str, *values: str) -> tuple[NodeSelectorTerm, ...]:
    """Node affinity to values of a label."""
    return (NodeSelectorTerm((Requirement(key, IN, values),)),)


def volume(name: str, gib: int = 1, storage_class: str = WAIT, **fields: Any) -> PersistentVolume:
    """A free ReadWriteOnce volume."""
    defaults: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "phase": "Available"}
    return PersistentVolume(name, gib * GIB, storage_class, **{**defaults, **fields})


def claim(name: str, gib: int = 1, storage_class: str | None = WAIT, **fields: Any) -> PersistentVolumeClaim:
    """A ReadWriteOnce claim of namespace default without a volume."""
    fields = {"uid": f"uid-{name}", "access_modes": ("ReadWriteOnce",), "request": gib * GIB, **fields}
    return PersistentVolumeClaim("default", name, storage_class=storage_class, **fields)


def bound(name: str, to: str, **fields: Any) -> PersistentVolumeClaim:
    """A claim that has its volume."""
    return claim(name, **{"volume": to, "bound": True, "phase": "Bound", **fields})


def keep(state: FleetState, *found: AnyObject, cluster: str = "a") -> FleetState:
    """Let a cluster report objects."""
    for one in found:
        state.kept.put(cluster, one)
    return state


def storing(*found: AnyObject, nodes: tuple[NodeBuilder | str, ...] = ("n1", "n2")) -> FleetState:
    """One cluster, a, with nodes, the usual classes and these objects."""
    return keep(fleet(a=nodes), *CLASSES, *found)
