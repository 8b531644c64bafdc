"""Deployments as arithmetic: which ReplicaSets there shall be, of what size, and what the status
says.

The rules are kube-controller-manager's (rolling.go, recreate.go, deployment_util.go), without
proportional scaling of several half-rolled ReplicaSets: a scale-up goes to the newest one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

import msgspec

from localfleet.embedded.meta import (
    Object,
    annotations_of,
    condition,
    controller_reference,
    seconds,
    stamp,
    with_condition,
)

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_UNCOPIED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAXIMUM)


@dataclass(frozen=True, slots=True)
class Family:
    """A Deployment's ReplicaSets: the one of its present template (None: not made yet) and the
    others, oldest first.
    """

    new: Object | None
    old: tuple[Object, ...]

    @property
    def members(self) -> tuple[Object, ...]:
        """All of them, the new one last."""
        return (*self.old, self.new) if self.new is not None else self.old


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods there may be at most, and how many must be available at least, during a rolling
    update.
    """

    most: int
    least: int


def family(deployment: Object, replicasets: Sequence[Object]) -> Family:
    """Sort a Deployment's ReplicaSets by their template."""
    wanted = template_hash(deployment["spec"]["template"])
    ordered = sorted(replicasets, key=_age)
    new = next((one for one in ordered if template_hash(one["spec"]["template"]) == wanted), None)
    return Family(new, tuple(one for one in ordered if one is not new))


def _age(obj: Object) -> tuple[float, str]:
    return seconds(obj["metadata"].get("creationTimestamp")), obj["metadata"]["name"]


def template_hash(template: Object) -> str:
    """Ten letters that depend on a pod template alone, its own hash label left out."""
    metadata = dict(template.get("metadata") or {})
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL
    }
    plain = {
        "metadata": {**metadata, "labels": labels, "creationTimestamp": None},
        "spec": template.get("spec"),
    }
    digest = hashlib.sha256(msgspec.json.encode(plain, order="sorted")).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:10])


def bounds(deployment: Object) -> Bounds:
    """maxSurge rounds up, maxUnavailable down; when both come to nothing, one may be unavailable."""
    replicas = replicas_of(deployment)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = _scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = _scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas + surge, replicas - min(unavailable, replicas))


def _scaled(value: int | str, of: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    share = int(text[:-1]) * of / 100
    return ceil(share) if up else floor(share)


def replicas_of(obj: Object) -> int:
    """spec.replicas, 1 when absent."""
    value = obj["spec"].get("replicas")
    return 1 if value is None else int(value)


def _available(replicaset: Object) -> int:
    return int((replicaset.get("status") or {}).get("availableReplicas", 0))


def sizes(deployment: Object, of: Family) -> dict[str, int]:
    """The next size of each ReplicaSet by name, where it differs from the present one; the new one
    exists already.
    """
    wanted = (
        _recreate(deployment, of)
        if _strategy(deployment) == "Recreate"
        else _rolling(deployment, of)
    )
    if deployment["spec"].get("paused"):
        wanted = _paused(deployment, of)
    return {name: size for name, size in wanted.items() if size != _size_of(of, name)}


def _strategy(deployment: Object) -> str:
    return str((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate"))


def _size_of(of: Family, name: str) -> int:
    return next(replicas_of(one) for one in of.members if one["metadata"]["name"] == name)


def _paused(deployment: Object, of: Family) -> dict[str, int]:
    # Only scaling goes on while paused, and it goes to the one that runs.
    running = [one for one in of.members if replicas_of(one)] or list(of.members[-1:])
    return {running[-1]["metadata"]["name"]: replicas_of(deployment)} if len(running) == 1 else {}


def _recreate(deployment: Object, of: Family) -> dict[str, int]:
    stopped = {one["metadata"]["name"]: 0 for one in of.old}
    quiet = all(
        replicas_of(one) == 0 and not (one.get("status") or {}).get("replicas") for one in of.old
    )
    if of.new is None or not quiet:
        return stopped
    return {**stopped, of.new["metadata"]["name"]: replicas_of(deployment)}


def _rolling(deployment: Object, of: Family) -> dict[str, int]:
    if of.new is None:
        return {}
    limits = bounds(deployment)
    wanted = replicas_of(deployment)
    total = sum(map(replicas_of, of.members))
    size = replicas_of(of.new)
    grown = wanted if size > wanted else size + max(0, min(limits.most - total, wanted - size))
    return {of.new["metadata"]["name"]: grown, **_shrink_old(of, grown, limits)}


def _shrink_old(of: Family, grown: int, limits: Bounds) -> dict[str, int]:
    """Old ReplicaSets give up pods that are not available first, then as many as the least
    available allows.
    """
    assert of.new is not None  # noqa: S101 - the caller has looked
    total = sum(map(replicas_of, of.old)) + grown
    spare = total - limits.least - (grown - min(_available(of.new), grown))
    if spare <= 0:
        return {}  # sizes already given out must take effect first
    result: dict[str, int] = {}
    for one in of.old:
        sick = max(0, min(replicas_of(one) - _available(one), spare))
        result[one["metadata"]["name"]] = replicas_of(one) - sick
        spare -= sick
    healthy = min(spare, sum(map(_available, of.members)) - limits.least)
    for one in of.old:
        name = one["metadata"]["name"]
        gone = max(0, min(result[name], healthy))
        result[name] -= gone
        healthy -= gone
    return result


def new_replicaset(deployment: Object, of: Family) -> Object:
    """The ReplicaSet of the present template, at its first size."""
    name = deployment["metadata"]["name"]
    template = deployment["spec"]["template"]
    mark = template_hash(template)
    labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: mark}
    selector = deployment["spec"]["selector"]
    size = 0
    if _strategy(deployment) != "Recreate" or not any(map(replicas_of, of.old)):
        size = max(
            0, min(replicas_of(deployment), bounds(deployment).most - sum(map(replicas_of, of.old)))
        )
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-{mark}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": replicaset_annotations(deployment, revision(of)),
            "ownerReferences": [controller_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment["spec"].get("minReadySeconds", 0),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: mark},
            },
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def revision(of: Family) -> int:
    """The revision of the new ReplicaSet: one more than the highest of the old ones."""
    return max((_revision_of(one) for one in of.old), default=0) + 1


def _revision_of(obj: Object) -> int:
    text = annotations_of(obj).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def replicaset_annotations(deployment: Object, number: int) -> dict[str, str]:
    """What a ReplicaSet carries of its Deployment, and its revision."""
    copied = {
        key: value for key, value in annotations_of(deployment).items() if key not in _UNCOPIED
    }
    size = {DESIRED: str(replicas_of(deployment)), MAXIMUM: str(bounds(deployment).most)}
    return {**copied, **size, REVISION: str(number)}


def outdated(deployment: Object, of: Family) -> list[Object]:
    """Empty old ReplicaSets beyond revisionHistoryLimit, oldest revision first."""
    kept = deployment["spec"].get("revisionHistoryLimit")
    empty = [
        one
        for one in of.old
        if not replicas_of(one) and not (one.get("status") or {}).get("replicas")
    ]
    empty.sort(key=_revision_of)
    return empty[: max(0, len(empty) - (10 if kept is None else int(kept)))]


def status(deployment: Object, of: Family, now: float) -> Object:
    """The Deployment's status: counts, Available and Progressing."""
    updated = (of.new or {}).get("status") or {}
    total = sum(int((one.get("status") or {}).get("replicas", 0)) for one in of.members)
    ready = sum(int((one.get("status") or {}).get("readyReplicas", 0)) for one in of.members)
    available = sum(map(_available, of.members))
    counts = {
        "replicas": total,
        "updatedReplicas": int(updated.get("replicas", 0)),
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, max(total, replicas_of(deployment)) - available),
    }
    result: Object = {key: value for key, value in counts.items() if value}
    result["observedGeneration"] = deployment["metadata"].get("generation", 0)
    result["conditions"] = _conditions(deployment, of, counts, now)
    return result


def _conditions(deployment: Object, of: Family, counts: dict[str, int], now: float) -> list[Object]:
    old = (deployment.get("status") or {}).get("conditions") or []
    conditions = [entry for entry in old if entry["type"] != "ReplicaFailure"]
    enough = counts["availableReplicas"] >= bounds(deployment).least
    available = {
        "type": "Available",
        "status": str(enough),
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }
    conditions = with_condition(conditions, available, now, touched="lastUpdateTime")
    progressing = _progressing(deployment, of, counts, now)
    conditions = with_condition(conditions, progressing, now, touched="lastUpdateTime")
    if _moved(deployment, counts):
        conditions[-1] = {**conditions[-1], "lastUpdateTime": stamp(now)}
    failure = condition(of.new or {}, "ReplicaFailure")
    return (
        [*conditions, {**failure, "lastUpdateTime": stamp(now)}]
        if failure["status"]
        else conditions
    )


def _progressing(deployment: Object, of: Family, counts: dict[str, int], now: float) -> Object:
    wanted = replicas_of(deployment)
    name = (of.new or {"metadata": {"name": ""}})["metadata"]["name"]
    before = condition(deployment, "Progressing")
    complete = (
        counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted
    )
    if deployment["spec"].get("paused"):
        return _progress("Unknown", "DeploymentPaused", "Deployment is paused")
    if complete and of.new is not None:
        return _progress(
            "True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
        )
    if before.get("reason") == "NewReplicaSetAvailable" and not _rolling_out(
        deployment, of, counts
    ):
        return _progress("True", before["reason"], before["message"])
    if _moved(deployment, counts) or not before["status"]:
        return _progress("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    deadline = deployment["spec"].get("progressDeadlineSeconds") or 600
    if before["status"] == "False" or now - seconds(before.get("lastUpdateTime")) > deadline:
        return _progress(
            "False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.'
        )
    return _progress("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')


def _progress(status_: str, reason: str, message: str) -> Object:
    return {"type": "Progressing", "status": status_, "reason": reason, "message": message}


def _rolling_out(deployment: Object, of: Family, counts: dict[str, int]) -> bool:
    return counts["updatedReplicas"] < counts["replicas"] or deployment["metadata"].get(
        "generation"
    ) != (deployment.get("status") or {}).get("observedGeneration")


def _moved(deployment: Object, counts: dict[str, int]) -> bool:
    """Whether more pods are updated, ready or available than before, or fewer old ones are left."""
    old = deployment.get("status") or {}
    before = {key: int(old.get(key, 0)) for key in counts}
    fewer_old = (
        counts["replicas"] - counts["updatedReplicas"]
        < before["replicas"] - before["updatedReplicas"]
    )
    rising = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return fewer_old or any(counts[key] > before[key] for key in rising)
