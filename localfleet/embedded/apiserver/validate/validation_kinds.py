"""What objects other than pods must satisfy, as far as the product writes them or people get them
wrong.
"""

from localfleet.embedded.apiserver.status import FieldError, Object
from localfleet.embedded.apiserver.validate import validation
from localfleet.embedded.apiserver.validate.selectors import label_selector_matches
from localfleet.embedded.apiserver.validate.validation import (
    Errors,
    dig,
    immutable,
    invalid,
    nonnegative,
    one_of,
)
from localfleet.embedded.apiserver.validate.validation_pod import amount, pod_spec

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _template(spec: Object, path: str) -> Errors:
    """A pod template and the selector that must find its pods."""
    selector = spec.get("selector") or {}
    template = spec.get("template") or {}
    labels = dig(template, "metadata.labels") or {}
    errors = [] if selector else [FieldError("required", f"{path}.selector")]
    errors += validation.label_selector(selector, f"{path}.selector")
    if not errors and not label_selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        errors.append(
            FieldError("invalid", f"{path}.template.metadata.labels", detail, labels or None)
        )
    errors += validation.labels(labels, f"{path}.template.metadata.labels")
    return errors + pod_spec(template.get("spec") or {}, f"{path}.template.spec")


def workload(obj: Object) -> Errors:
    """A Deployment or ReplicaSet."""
    spec = obj.get("spec") or {}
    return nonnegative(spec, "spec", "replicas", "minReadySeconds") + _template(spec, "spec")


def workload_update(new: Object, old: Object) -> Errors:
    """The selector of a workload never changes."""
    return workload(new) + immutable(new, old, "spec.selector")


def job(obj: Object) -> Errors:
    """A Job: its pods may not restart for ever."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "parallelism", "completions", "backoffLimit") + _template(
        spec, "spec"
    )
    errors += one_of(
        spec, "spec", "completionMode", ("NonIndexed",)
    )  # nothing here carries out the other
    if dig(spec, "template.spec.restartPolicy") not in ("OnFailure", "Never"):
        where = "spec.template.spec.restartPolicy"
        errors.append(FieldError("required", where, 'valid values: "OnFailure", "Never"'))
    return errors


def job_update(new: Object, old: Object) -> Errors:
    """A Job's template, selector and completions never change."""
    return nonnegative(new.get("spec") or {}, "spec", "parallelism", "backoffLimit") + immutable(
        new, old, "spec.template", "spec.selector", "spec.completions"
    )


def node(obj: Object) -> Errors:
    """Taints and amounts of a Node."""
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(dig(obj, "spec.taints") or ()):
        path = f"metadata.taints[{index}]"  # so the real server says
        errors += invalid(
            f"{path}.key", taint.get("key", ""), validation.qualified_name(taint.get("key", ""))
        )
        errors += invalid(
            f"{path}.value", taint.get("value", ""), validation.label_value(taint.get("value", ""))
        )
        if not taint.get("effect"):
            errors.append(FieldError("required", f"{path}.effect"))
        errors += one_of(taint, path, "effect", _EFFECTS)
        pair = (taint.get("key", ""), taint.get("effect", ""))
        if pair in seen:
            detail = "taints must be unique by key and effect pair"
            shown = {
                "Key": pair[0],
                "Value": taint.get("value", ""),
                "Effect": pair[1],
                "TimeAdded": None,
            }
            errors.append(FieldError("duplicate", path, detail, shown))
        seen.add(pair)
    for group in ("capacity", "allocatable"):
        for name, text in (dig(obj, f"status.{group}") or {}).items():
            errors += amount(name, text, f"status.{group}.{name}")
    return errors


def node_update(new: Object, old: Object) -> Errors:
    """A node stays with its provider."""
    before = dig(old, "spec.providerID")
    changed = bool(before) and dig(new, "spec.providerID") != before
    detail = "field cannot be modified once set"
    return node(new) + ([FieldError("invalid", "spec.providerID", detail)] if changed else [])


def budget(obj: Object) -> Errors:
    """A PodDisruptionBudget names one bound, not two."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "minAvailable", "maxUnavailable")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        errors.append(
            FieldError(
                "invalid", "spec", "minAvailable and maxUnavailable cannot be both set", spec
            )
        )
    return errors + validation.label_selector(spec.get("selector") or {}, "spec.selector")


def priority_class_update(new: Object, old: Object) -> Errors:
    """The value of a class is what pods already carry."""
    if new.get("value", 0) != old.get("value", 0):
        return [FieldError("forbidden", "value", "may not be changed in an update.")]
    return []


def lease(obj: Object) -> Errors:
    """Durations of a Lease."""
    duration = dig(obj, "spec.leaseDurationSeconds")
    if duration is not None and duration <= 0:
        return [
            FieldError("invalid", "spec.leaseDurationSeconds", "must be greater than 0", duration)
        ]
    return nonnegative(obj.get("spec") or {}, "spec", "leaseTransitions")


def event(obj: Object) -> Errors:
    """An Event lies in the namespace of what it is about."""
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    if (about or "default") != namespace:
        return [
            FieldError(
                "invalid", "involvedObject.namespace", "does not match event.namespace", about
            )
        ]
    return []


_LONGEST_TEXT = (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024))


def new_event(obj: Object) -> Errors:
    """What an Event must say that comes by events.k8s.io; `obj` is in the form of core/v1."""
    errors = [FieldError("required", key) for key in ("eventTime",) if not obj.get(key)]
    controller = obj.get("reportingComponent") or ""
    if not controller:
        errors.append(FieldError("required", "reportingController"))
    errors += invalid("reportingController", controller, validation.qualified_name(controller))
    for key, longest in _LONGEST_TEXT:
        text = obj.get(key) or ""
        if not text and key != "message":
            errors.append(FieldError("required", key))
        if len(text) > longest:
            errors.append(FieldError("invalid", key, f"can have at most {longest} characters", ""))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(
            FieldError("invalid", "type", f"has invalid value: {obj.get('type', '')}", "")
        )
    return errors


_EVENT_SAID = (
    "involvedObject",
    "reason",
    "action",
    "message",
    "type",
    "reportingComponent",
    "reportingInstance",
)


def event_frozen(new: Object, old: Object) -> Errors:
    """What of an Event nobody changes by events.k8s.io once it is there; both in the form of
    core/v1.
    """
    return [
        FieldError("invalid", key, "field is immutable", new.get(key))
        for key in _EVENT_SAID
        if (new.get(key) or "") != (old.get(key) or "")
    ]
