"""What a DELETE leaves behind: nothing yet, a terminating object, or nothing at all."""

from dataclasses import dataclass

from localfleet.embedded.apiserver.metadata import seconds, timestamp
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.status import Object, conflict

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_PROPAGATION_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_LEAST_GRACE_S = 1  # what a negative grace means
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Options:
    """metav1.DeleteOptions, as far as they matter here."""

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""
    dry_run: bool = False


DEFAULTS = Options()


def check(row: Resource, obj: Object, options: Options) -> None:
    """Refuse (409) when a precondition names another object or another version."""
    meta = obj["metadata"]
    for word, asked, found, hint in (
        ("UID", options.uid, meta["uid"], "The object might have been deleted and then recreated"),
        (
            "ResourceVersion",
            options.resource_version,
            meta["resourceVersion"],
            "The object might have been modified",
        ),
    ):
        if asked and asked != found:
            why = (
                f"the {word} in the precondition ({asked}) does not match the {word} in record "
                f"({found}). {hint}"
            )
            raise conflict(f"{row.kind}.{row.group}" if row.group else row.kind, meta["name"], why)


def after(row: Resource, obj: Object, options: Options, now: float) -> Object:
    """The object as it is after the call: terminating, and `complete` when it goes at once."""
    meta = dict(obj["metadata"])
    meta["finalizers"] = _finalizers(meta.get("finalizers") or [], options.propagation)
    grace = _grace(row, obj, options)
    if meta.get("deletionTimestamp"):
        left = meta.get("deletionGracePeriodSeconds", 0)
        # A shorter grace counts from when termination began; one that nobody names changes nothing.
        if options.grace_seconds is not None and grace < left:
            began = seconds(meta["deletionTimestamp"]) - left
            meta["deletionTimestamp"] = timestamp(max(began + grace, now) if grace else now)
            meta["deletionGracePeriodSeconds"] = left = grace
        grace = left
    else:
        meta["deletionTimestamp"] = timestamp(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
    if not meta["finalizers"]:
        del meta["finalizers"]
    return obj | {"metadata": meta}


def _finalizers(found: list[str], propagation: str) -> list[str]:
    if not propagation:
        return list(found)
    others = [finalizer for finalizer in found if finalizer not in (FOREGROUND, ORPHAN)]
    wanted = _PROPAGATION_FINALIZER.get(propagation)
    return [*others, wanted] if wanted else others


def _grace(row: Resource, obj: Object, options: Options) -> int:
    """Seconds a pod gets to stop; nothing that runs nowhere needs any."""
    spec = obj.get("spec") or {}
    if (
        not row.graceful
        or not spec.get("nodeName")
        or (obj.get("status") or {}).get("phase") in _FINISHED
    ):
        return 0
    if options.grace_seconds is not None:
        return _LEAST_GRACE_S if options.grace_seconds < 0 else options.grace_seconds
    return int(spec.get("terminationGracePeriodSeconds", 30))


def complete(obj: Object) -> bool:
    """Whether a terminating object has nothing left to wait for."""
    meta = obj["metadata"]
    waiting = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
    return bool(meta.get("deletionTimestamp")) and not waiting
