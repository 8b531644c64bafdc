"""pods/ephemeralcontainers and pods/resize: what may change of a pod that runs, each by a part of its
own.
"""

from collections.abc import Callable
from typing import Any

from localfleet.embedded.apiserver.status import FieldError, Object
from localfleet.embedded.apiserver.validate.validation import Errors, metadata_update

DEBUG = "ephemeralcontainers"
RESIZE = "resize"
PARTS = (DEBUG, RESIZE)


def keep(new: Object, old: Object, subresource: str) -> None:
    """All that this part does not write stays as it was, in `new` (its version and UID aside)."""
    sent = new.get("spec") or {}
    spec = dict(old.get("spec") or {})
    if subresource == DEBUG:
        _take(spec, sent, "ephemeralContainers")
    else:
        _take(spec, sent, "resources")
        for kind in ("initContainers", "containers"):
            told = {one.get("name"): one for one in sent.get(kind) or ()}
            if kind in spec:
                spec[kind] = [_resized(one, told.get(one["name"])) for one in spec[kind]]
    meta = new["metadata"]
    identity = {key: meta[key] for key in ("uid",) if key in meta}
    for key in {*new, *old} - {"metadata"}:
        if key in old:
            new[key] = old[key]
        else:
            del new[key]
    meta.clear()
    meta.update({**old["metadata"], **identity})
    new["spec"] = spec


def judge(subresource: str) -> Callable[[Object, Object], Errors] | None:
    """What finds fault with an update of this part, None for what is none of these."""
    return {DEBUG: _debug_errors, RESIZE: _resize_errors}.get(subresource)


def _take(spec: Object, sent: Object, key: str) -> None:
    if sent.get(key):
        spec[key] = sent[key]
    else:
        spec.pop(key, None)


def _resized(container: Object, sent: Object | None) -> Object:
    return container if sent is None else {**container, "resources": sent.get("resources") or {}}


def _debug_errors(new: Object, old: Object) -> Errors:
    errors = metadata_update(new, old)
    spec = new["spec"]
    now: list[Any] = spec.get("ephemeralContainers") or []
    for one in (old["spec"].get("ephemeralContainers")) or ():
        if one not in now:
            detail = "existing ephemeral containers may not be removed or changed"
            errors.append(FieldError("forbidden", "spec.ephemeralContainers", detail))
    taken = [
        one["name"] for kind in ("initContainers", "containers") for one in spec.get(kind) or ()
    ]
    for index, one in enumerate(now):
        path = f"spec.ephemeralContainers[{index}]"
        if not one.get("name") or not one.get("image"):
            missing = "image" if one.get("name") else "name"
            errors.append(FieldError("required", f"{path}.{missing}"))
        elif one["name"] in taken:
            errors.append(FieldError("duplicate", f"{path}.name", value=one["name"]))
        taken.append(one.get("name", ""))
    return errors


def _resize_errors(new: Object, old: Object) -> Errors:
    phase = (old.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return [FieldError("forbidden", "", "a pod that has ended cannot be resized")]
    return metadata_update(new, old)
