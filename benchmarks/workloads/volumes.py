"""What a pod with a volume of its own brings along: a bound PersistentVolume and its claim, as
scheduler_perf makes; or a claim that waits for its pod, and what its cluster makes of that.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from shared.model.objects import (
    AnyObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

EBS = "ebs.csi.aws.com"
_EBS_LIMIT = 39  # volumes that a node of the CSI cases can attach
_READ = ["ReadOnlyMany"]
_DONE = {"pv.kubernetes.io/bind-completed": "true"}


def volume_objects(
    template: str, namespace: str, name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind, object) of the volume and the claim of the pod of that name; the claim is called as
    the pod.
    """
    volume = f"{namespace}-{name}"
    claim = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    source: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": volume}}
    if template == "pv-csi":
        source = {"csi": {"driver": EBS, "volumeHandle": volume}}
    spec = {
        "accessModes": _READ,
        "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": claim,
        **source,
    }
    yield (
        "PersistentVolume",
        {"metadata": {"name": volume, "uid": volume}, "spec": spec, "status": {"phase": "Bound"}},
    )
    wish = {
        "accessModes": _READ,
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": volume,
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"claim-{volume}",
        "annotations": _DONE,
    }
    yield (
        "PersistentVolumeClaim",
        {"metadata": metadata, "spec": wish, "status": {"phase": "Bound"}},
    )


def csi_node(node: str) -> dict[str, Any]:
    """What a node says of its driver: how many volumes it can attach."""
    driver = {"name": EBS, "nodeID": node, "allocatable": {"count": _EBS_LIMIT}}
    return {"metadata": {"name": node}, "spec": {"drivers": [driver]}}


def waiting_class(nodes: int) -> tuple[AnyObject, ...]:
    """A class that provides volumes for their first consumer, and what `nodes` of `Mix.fleet` can
    attach.
    """
    limits = (CSINode(f"n{n:05}", {EBS: _EBS_LIMIT}, (EBS,)) for n in range(nodes))
    return (StorageClass("ebs", EBS, waits=True), *limits)


def waiting_claim(namespace: str, name: str) -> PersistentVolumeClaim:
    """A claim of that class without a volume."""
    return PersistentVolumeClaim(namespace, name, f"uid-{name}", storage_class="ebs", request=2**30)


def provided_for(claim: PersistentVolumeClaim, node: str) -> tuple[AnyObject, ...]:
    """The volume that its cluster makes, and the claim bound to it."""
    volume = PersistentVolume(
        f"pv-{claim.uid}",
        claim.request,
        "ebs",
        phase="Bound",
        claim=claim.key,
        driver=EBS,
        handle=f"h-{claim.uid}",
    )
    fields = {"selected_node": node, "volume": volume.name, "bound": True, "phase": "Bound"}
    return volume, msgspec.structs.replace(claim, **fields)
