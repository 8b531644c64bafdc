"""What volume controllers do once kube-scheduler has chosen: the claims of a pod get their volumes."""

import time
from collections.abc import Iterator
from typing import Any

import httpx

from localfleet.controlplane.api import Api
from tests.parity.case import Object
from tests.parity.kinds import KINDS

_ZONE = "topology.kubernetes.io/zone"
_SELECTED = "volume.kubernetes.io/selected-node"
_PAUSE_S = 0.02
_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


def claim_names(pod: Object) -> Iterator[str]:
    """The claims that a pod mounts, those that are made for it alone included."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


class Binder:
    """Serves the claims of one pod. `changed`: claims and volumes as they are after that."""

    def __init__(self, api: Api, pod: Object) -> None:
        self._api = api
        self._namespace = pod["metadata"]["namespace"]
        self._waiting = set(claim_names(pod))
        self.changed: list[Object] = []
        self._next = 0.0

    @property
    def done(self) -> bool:
        """Whether no claim is left to be looked at."""
        return not self._waiting

    def serve(self) -> None:
        """Bind each claim for which kube-scheduler has chosen a volume, or a node where one shall be; now and then."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE_S
        for name in sorted(self._waiting):
            claim = self._claim(name)
            if claim is None or claim["spec"].get("volumeName"):
                self._waiting.discard(name)
                continue
            volume = self._chosen(claim) or self._provided(claim)
            if volume is not None:
                self._waiting.discard(name)
                self._bind(claim, volume)

    def _claim(self, name: str) -> Object | None:
        try:
            return self._api.get(f"{KINDS['PersistentVolumeClaim'].path.format(self._namespace)}/{name}")
        except httpx.HTTPStatusError:
            return None

    def _chosen(self, claim: Object) -> Object | None:
        """The volume that was written for the claim."""
        name, space = claim["metadata"]["name"], claim["metadata"]["namespace"]
        for volume in self._api.get(KINDS["PersistentVolume"].path)["items"]:
            reference: dict[str, Any] = volume["spec"].get("claimRef") or {}
            same = (reference.get("namespace"), reference.get("name")) == (space, name)
            if same and reference.get("uid") == claim["metadata"]["uid"]:
                return volume  # type: ignore[no-any-return]
        return None

    def _provided(self, claim: Object) -> Object | None:
        """A new volume in the zone of the node that was chosen for it; anywhere if that node is in none."""
        node_name = (claim["metadata"].get("annotations") or {}).get(_SELECTED)
        if not node_name:
            return None
        spec, name = claim["spec"], f"pvc-{claim['metadata']['uid']}"
        made_by = self._api.get(f"{KINDS['StorageClass'].path}/{spec['storageClassName']}")
        zone = (self._api.get(f"{KINDS['Node'].path}/{node_name}")["metadata"].get("labels") or {}).get(_ZONE)
        clause = {"key": _ZONE, "operator": "In", "values": [zone]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [clause]}]}}}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "storageClassName": spec["storageClassName"],
                "csi": {"driver": made_by["provisioner"].rpartition("/")[2], "volumeHandle": name},
                "claimRef": _reference(claim),
                **(affinity if zone else {}),
            },
        }
        return self._api.create(KINDS["PersistentVolume"].path, volume)

    def _bind(self, claim: Object, volume: Object) -> None:
        path = f"{KINDS['PersistentVolume'].path}/{volume['metadata']['name']}"
        volume = self._api.patch(f"{path}/status", {"status": {"phase": "Bound"}})
        meta, spec = claim["metadata"], volume["spec"]
        path = f"{KINDS['PersistentVolumeClaim'].path.format(self._namespace)}/{meta['name']}"
        self._api.patch(
            path, {"metadata": {"annotations": _COMPLETED}, "spec": {"volumeName": volume["metadata"]["name"]}}
        )
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        claim = self._api.patch(f"{path}/status", {"status": status})
        self.changed += [
            {**volume, "kind": "PersistentVolume", "apiVersion": "v1"},
            {**claim, "kind": "PersistentVolumeClaim", "apiVersion": "v1"},
        ]


def _reference(claim: Object) -> Object:
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
