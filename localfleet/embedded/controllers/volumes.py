"""PersistentVolumes and claims find each other, and claims of classes that provide get a volume
made for them.

- A claim of class Immediate is bound, or provided for, at once; one of WaitForFirstConsumer once it
  names its node, or once a volume is set aside for it. A class of provisioner
  kubernetes.io/no-provisioner provides nothing.
- Volumes that are made are of no driver and everywhere: nothing mounts them here.
- A generic ephemeral volume of a pod gets its claim, owned by the pod.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver import quantity
from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.controllers.writes import Create, Merge, PutStatus, carry_out
from localfleet.embedded.meta import (
    Object,
    annotations_of,
    controller_reference,
    is_terminating,
    label_selector,
    labels_of,
)

VOLUMES = "persistentvolumes"
CLAIMS = "persistentvolumeclaims"
CLASSES = "storageclasses.storage.k8s.io"
PODS = "pods"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeController:
    """Binds claims and volumes; makes volumes, and claims of ephemeral volumes."""

    name = "persistent-volume-controller"

    def __init__(self, api: Api, world: World) -> None:
        self._api = api
        self._world = world

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """A claim, a volume and whoever may want it, a pod with volumes; every claim when a class
        comes.
        """
        if ref.resource == CLAIMS:
            yield ref
            if volume := obj["spec"].get("volumeName"):
                yield Ref(VOLUMES, "", volume)
        elif ref.resource == VOLUMES:
            yield ref
            yield from self._waiting()
        elif ref.resource == CLASSES:
            yield from self._waiting()
        elif ref.resource == PODS and any(
            "ephemeral" in one for one in obj["spec"].get("volumes") or ()
        ):
            yield ref

    def _waiting(self) -> Iterator[Ref]:
        return (ref for ref, claim in self._world.all(CLAIMS) if not _is_bound(claim))

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One claim, volume or pod."""
        found = self._world.get(key)
        if found is None or is_terminating(found):
            return None
        {CLAIMS: self._claim, VOLUMES: self._volume, PODS: self._pod}[key.resource](key, found)
        return None

    # --- claims
    # ----------------------------------------------------------------------------------------------

    def _claim(self, key: Ref, claim: Object) -> None:
        if _is_bound(claim):
            self._show_bound(key, claim)
            return
        volume = self._kept_for(claim) or self._named(claim)
        if volume is None and not claim["spec"].get("volumeName"):
            volume = self._chosen(claim)
        if volume is not None:
            self._bind(key, claim, volume)

    def _kept_for(self, claim: Object) -> Object | None:
        return next(
            (volume for _, volume in self._world.all(VOLUMES) if _is_kept(volume, claim)), None
        )

    def _named(self, claim: Object) -> Object | None:
        volume = self._world.get(Ref(VOLUMES, "", claim["spec"].get("volumeName") or ""))
        return volume if volume is not None and not volume["spec"].get("claimRef") else None

    def _chosen(self, claim: Object) -> Object | None:
        """A free volume that suits, or one that is made now; None while the claim has to wait."""
        made_by = self._world.get(Ref(CLASSES, "", claim["spec"].get("storageClassName") or ""))
        waits = made_by is not None and made_by.get("volumeBindingMode") == "WaitForFirstConsumer"
        node = annotations_of(claim).get(SELECTED_NODE, "")
        if waits and not node:
            return None
        suiting = [volume for _, volume in self._world.all(VOLUMES) if _suits(volume, claim)]
        if suiting and not waits:
            return min(
                suiting,
                key=lambda volume: (
                    _size(volume["spec"].get("capacity")),
                    volume["metadata"]["name"],
                ),
            )
        if made_by is not None and made_by.get("provisioner") != NO_PROVISIONER:
            carry_out(self._api, Create(VOLUMES, _made(claim, made_by)))
        return None

    def _bind(self, key: Ref, claim: Object, volume: Object) -> None:
        name = volume["metadata"]["name"]
        meta = claim["metadata"]
        there = volume["spec"].get("claimRef") or {}
        if there.get("uid") != meta["uid"]:
            notes = {} if there else {"annotations": {BOUND_BY: "yes"}}
            carry_out(
                self._api,
                Merge(
                    Ref(VOLUMES, "", name),
                    {"metadata": notes, "spec": {"claimRef": _ref_to(claim)}},
                ),
            )
        change = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": name},
        }
        carry_out(self._api, Merge(key, change))

    def _show_bound(self, key: Ref, claim: Object) -> None:
        volume = self._world.get(Ref(VOLUMES, "", claim["spec"]["volumeName"]))
        if volume is None:
            status: Object = {"phase": "Lost"}
        else:
            spec = volume["spec"]
            status = {
                "phase": "Bound",
                "accessModes": spec.get("accessModes"),
                "capacity": spec.get("capacity"),
            }
        carry_out(self._api, PutStatus(key, claim, status))

    # --- volumes
    # ----------------------------------------------------------------------------------------------

    def _volume(self, key: Ref, volume: Object) -> None:
        there = volume["spec"].get("claimRef")
        phase = "Available"
        if there and there.get("uid"):
            claim = self._world.get(Ref(CLAIMS, there["namespace"], there["name"]))
            phase = (
                "Bound"
                if claim is not None and claim["metadata"]["uid"] == there["uid"]
                else "Released"
            )
        carry_out(self._api, PutStatus(key, volume, {"phase": phase}))

    # --- pods
    # ----------------------------------------------------------------------------------------------

    def _pod(self, key: Ref, pod: Object) -> None:
        for volume in pod["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = f"{key.name}-{volume['name']}"
            if template is None or self._world.get(Ref(CLAIMS, key.namespace, name)) is not None:
                continue
            meta = {**(template.get("metadata") or {}), "name": name, "namespace": key.namespace}
            meta["ownerReferences"] = [controller_reference(pod, "v1", "Pod")]
            carry_out(self._api, Create(CLAIMS, {"metadata": meta, "spec": template["spec"]}))


def _is_bound(claim: Object) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def _is_kept(volume: Object, claim: Object) -> bool:
    there = volume["spec"].get("claimRef") or {}
    meta = claim["metadata"]
    named = (there.get("namespace"), there.get("name")) == (meta["namespace"], meta["name"])
    return named and there.get("uid") in (None, "", meta["uid"])


def _suits(volume: Object, claim: Object) -> bool:
    offered = volume["spec"]
    wanted = claim["spec"]
    selector = wanted.get("selector")
    return (
        not offered.get("claimRef")
        and (offered.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and offered.get("volumeMode") == wanted.get("volumeMode")
        and set(wanted["accessModes"]) <= set(offered["accessModes"])
        and _size(offered.get("capacity")) >= _size(wanted["resources"]["requests"])
        and (selector is None or label_selector(selector).matches(labels_of(volume)))
    )


def _size(amounts: Any) -> float:
    return float(quantity.parse((amounts or {}).get("storage", "0")))


def _ref_to(claim: Object) -> Object:
    meta = claim["metadata"]
    named = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}


def _made(claim: Object, made_by: Object) -> Object:
    wanted = claim["spec"]
    notes = {"pv.kubernetes.io/provisioned-by": made_by["provisioner"]}
    return {
        "metadata": {"name": f"pvc-{claim['metadata']['uid']}", "annotations": notes},
        "spec": {
            "capacity": {"storage": wanted["resources"]["requests"]["storage"]},
            "accessModes": wanted["accessModes"],
            "volumeMode": wanted.get("volumeMode", "Filesystem"),
            "storageClassName": made_by["metadata"]["name"],
            "persistentVolumeReclaimPolicy": made_by.get("reclaimPolicy", "Delete"),
            "claimRef": _ref_to(claim),
            "hostPath": {"path": f"/volumes/{claim['metadata']['uid']}"},
        },
    }
