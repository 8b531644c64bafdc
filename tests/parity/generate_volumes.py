"""Volumes, claims, classes and limits as manifests, and the volumes of pods."""

from dataclasses import dataclass, field

from tests.parity.case import Object
from tests.parity.dice import Dice, chance, pick
from tests.parity.generate_nodes import ZONE

# One that tells its capacity, and one that nodes have to have; of two such a node may lack both, and kube-scheduler
# tells either.
DRIVER, COUNTING, NEEDED = "csi.example.com", "counting.example.com", "needed.example.com"
_MODES = ("ReadWriteOnce",) * 4 + ("ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
_SIZES = ("1Gi", "5Gi", "10Gi")
# How a claim stands: bound to a volume, to one that is not there, not bound at all, or waiting for its first pod.
_BOUND, _LOST, _UNBOUND, _WAITING = "bound", "lost", "unbound", "waiting"
_STATES = (_BOUND,) * 12 + (_LOST, _UNBOUND)


@dataclass
class Storage:
    """What pods of one case may mount: claims by namespace, those that wait for their first pod apart."""

    objects: list[Object] = field(default_factory=list)
    claims: list[tuple[str, str]] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)


def storage(dice: Dice, prefix: str, spaces: tuple[str, ...], nodes: tuple[str, ...]) -> Storage:
    """Classes, some claims and volumes, and how many volumes some nodes can attach."""
    made = Storage([*_classes(dice, prefix), *(_driver(name) for name in (DRIVER, COUNTING, NEEDED))])
    made.objects += [_capacity(dice, prefix, spaces[0], zone) for zone in ("z1", "z2") if chance(dice, 70)]
    for index in range(dice.number(1, 6)):
        space, name = pick(dice, spaces), f"{prefix}-c{index}"
        state = _WAITING if chance(dice, 20) else pick(dice, _STATES)
        made.objects += _claim(dice, prefix, space, name, state)
        (made.waiting if state == _WAITING else made.claims).append((space, name))
    made.objects += [_volume(dice, f"{prefix}-free{index}", f"{prefix}-wait") for index in range(dice.number(0, 3))]
    made.objects += [
        _csi_node(node, dice.number(0, 3), has_needed=chance(dice, 60)) for node in nodes if chance(dice, 60)
    ]
    return made


def pod_volumes(dice: Dice, storage: Storage, namespace: str) -> list[Object]:
    """Volumes of a pod: claims of its namespace, inline disks."""
    names = [name for space, name in storage.claims if space == namespace] + ["no-such-claim"] * chance(dice, 2)
    mounted = list(dict.fromkeys(pick(dice, names) for _ in range(pick(dice, (1, 1, 2))))) if names else []
    volumes = [_mounted(name, read_only=chance(dice, 10)) for name in mounted]
    return volumes + ([{"name": "disk", **_disk(dice)}] if chance(dice, 20) else [])


def waiting_volumes(dice: Dice, storage: Storage) -> tuple[str, list[Object]]:
    """A namespace, and the claims in it that wait for their pod; with them now and then one that is bound."""
    space, _ = pick(dice, storage.waiting)
    names = [name for at, name in storage.waiting if at == space]
    bound = [name for at, name in storage.claims if at == space] if chance(dice, 30) else []
    return space, [_mounted(name, read_only=False) for name in (*names, *bound[:1])]


def _mounted(name: str, *, read_only: bool) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": name, **({"readOnly": True} if read_only else {})}}


def _disk(dice: Dice) -> Object:
    read_only = {"readOnly": True} if chance(dice, 40) else {}
    return pick(
        dice,
        (
            {"gcePersistentDisk": {"pdName": "disk-1", **read_only}},
            {"awsElasticBlockStore": {"volumeID": "vol-1", **read_only}},
            {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:a", "lun": 0, **read_only}},
            {"rbd": {"monitors": ["10.0.0.2"], "image": "a", **read_only}},
        ),
    )


def _claim(dice: Dice, prefix: str, space: str, name: str, state: str) -> list[Object]:
    mode, size = pick(dice, _MODES), pick(dice, _SIZES)
    waits = pick(dice, (f"{prefix}-wait", f"{prefix}-make", f"{prefix}-count", f"{prefix}-need"))
    storage_class = waits if state == _WAITING else f"{prefix}-now"
    spec: Object = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": size}},
        "storageClassName": storage_class,
    }
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": space},
        "spec": spec,
    }
    if state not in {_BOUND, _LOST}:
        return [claim]
    spec["volumeName"] = f"{name}-volume"
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"] = {"phase": "Bound"}
    if state == _LOST:
        return [claim]
    volume = _volume(dice, f"{name}-volume", storage_class)
    volume["spec"] |= {
        "accessModes": [mode],
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": space, "name": name},
    }
    volume["status"] = {"phase": "Bound"}
    return [claim, volume]


def _volume(dice: Dice, name: str, storage_class: str) -> Object:
    labels = {ZONE: pick(dice, ("z1", "z2", "z1__z2"))} if chance(dice, 25) else {}
    spec: Object = {
        "capacity": {"storage": pick(dice, _SIZES)},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "storageClassName": storage_class,
        "csi": {"driver": NEEDED if chance(dice, 15) else DRIVER, "volumeHandle": name},
    }
    if chance(dice, 35):
        values = ["z1", "z2"][: dice.number(1, 2)]
        clause = {"key": ZONE, "operator": "In", "values": values}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [clause]}]}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def _classes(dice: Dice, prefix: str) -> list[Object]:
    """Volumes at once; from those that are there; made for the pod; made for the pod where there is capacity."""
    made = _class(f"{prefix}-make", DRIVER)
    if chance(dice, 50):
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z3"]}]}]
    now = _class(f"{prefix}-now", DRIVER) | {"volumeBindingMode": "Immediate"}
    others = {"wait": "kubernetes.io/no-provisioner", "count": COUNTING, "need": NEEDED}
    return [now, made, *(_class(f"{prefix}-{name}", provisioner) for name, provisioner in others.items())]


def _class(name: str, provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _driver(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {
            "attachRequired": True,
            "storageCapacity": name == COUNTING,
            "preventPodSchedulingIfMissing": name == NEEDED,
        },
    }


def _capacity(dice: Dice, prefix: str, namespace: str, zone: str) -> Object:
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"{prefix}-{zone}", "namespace": namespace},
        "storageClassName": f"{prefix}-count",
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": pick(dice, _SIZES),
    }
    if chance(dice, 50):
        made["maximumVolumeSize"] = pick(dice, _SIZES)
    return made


def _csi_node(name: str, limit: int, *, has_needed: bool) -> Object:
    drivers: list[Object] = [{"name": one, "nodeID": name, "topologyKeys": None} for one in (DRIVER, NEEDED)]
    if limit:
        drivers[0]["allocatable"] = {"count": limit}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers if has_needed else drivers[:1]},
    }
