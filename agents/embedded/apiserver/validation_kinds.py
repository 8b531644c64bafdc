"""What objects other than pods must satisfy."""

from agents.embedded.apiserver import quantity, validation
from agents.embedded.apiserver.selectors import label_selector_matches
from agents.embedded.apiserver.status import FieldError, Object, supported
from agents.embedded.apiserver.validation import Errors, dig, immutable, invalid, nonnegative, one_of
from agents.embedded.apiserver.validation_pod import amount, pod_spec

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _template(spec: Object, path: str) -> Errors:
    """A pod template and the selector that must find its pods."""
    selector = spec.get("selector")
    template = spec.get("template") or {}
    errors: Errors = []
    if selector is None:
        errors.append(FieldError("required", f"{path}.selector"))
    else:
        errors += validation.label_selector(selector, f"{path}.selector")
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            detail = "empty selector is invalid for deployment"
            errors.append(FieldError("invalid", f"{path}.selector", detail, selector))
    labels = dig(template, "metadata.labels") or {}
    if selector is not None and not errors and not label_selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        errors.append(FieldError("invalid", f"{path}.template.metadata.labels", detail, labels))
    errors += validation.labels(labels, f"{path}.template.metadata.labels")
    return errors + pod_spec(template.get("spec") or {}, f"{path}.template.spec")


def workload(obj: Object) -> Errors:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    errors += _template(spec, "spec")
    policy = dig(spec, "template.spec.restartPolicy")
    if policy not in (None, "Always"):
        where = "spec.template.spec.restartPolicy"
        errors.append(FieldError("unsupported", where, supported(("Always",)), policy))
    return errors + one_of(spec.get("strategy") or {}, "spec.strategy", "type", ("Recreate", "RollingUpdate"))


def workload_update(new: Object, old: Object) -> Errors:
    """The selector of a workload never changes."""
    return workload(new) + immutable(new, old, "spec.selector")


def job(obj: Object) -> Errors:
    """A Job: its pods may not restart for ever."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
    errors += _template(spec, "spec")
    policy = dig(spec, "template.spec.restartPolicy")
    if policy not in ("OnFailure", "Never"):
        where = "spec.template.spec.restartPolicy"
        errors.append(FieldError("required", where, 'valid values: "OnFailure", "Never"'))
    return errors


def job_update(new: Object, old: Object) -> Errors:
    """A Job's template, selector and completions never change."""
    return nonnegative(new.get("spec") or {}, "spec", "parallelism", "backoffLimit") + immutable(
        new, old, "spec.template", "spec.selector", "spec.completions", "spec.completionMode"
    )


def node(obj: Object) -> Errors:
    """Taints and amounts of a Node."""
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(dig(obj, "spec.taints") or ()):
        path = f"spec.taints[{index}]"
        errors += invalid(f"{path}.key", taint.get("key", ""), validation.qualified_name(taint.get("key", "")))
        errors += invalid(f"{path}.value", taint.get("value", ""), validation.label_value(taint.get("value", "")))
        errors += one_of(taint, path, "effect", _EFFECTS, needed=True)
        pair = (taint.get("key", ""), taint.get("effect", ""))
        if pair in seen:
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError("duplicate", path, detail, taint))
        seen.add(pair)
    for group in ("capacity", "allocatable"):
        for name, text in (dig(obj, f"status.{group}") or {}).items():
            errors += amount(name, text, f"status.{group}.{name}")
    return errors


def node_update(new: Object, old: Object) -> Errors:
    """The same, and what identifies the machine."""
    return node(new) + immutable(new, old, "spec.providerID", "spec.podCIDR")


def config_map(obj: Object) -> Errors:
    """Keys that can be file names."""
    errors: Errors = []
    for group in ("data", "binaryData"):
        for key in obj.get(group) or {}:
            if not key or any(not (letter.isalnum() or letter in "-_.") for letter in key) or len(key) > 253:
                detail = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  "
                    "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                )
                errors.append(FieldError("invalid", f"{group}[{key[:80]}]", detail, key))
    return errors


def config_map_update(new: Object, old: Object) -> Errors:
    """A ConfigMap or Secret marked immutable stays as it is."""
    errors = config_map(new)
    if old.get("immutable"):
        for key in ("data", "binaryData", "immutable"):
            if new.get(key) != old.get(key):
                errors.append(FieldError("forbidden", key, "field is immutable when `immutable` is set"))
    return errors


def service(obj: Object) -> Errors:
    """Ports of a Service."""
    spec = obj.get("spec") or {}
    errors = one_of(spec, "spec", "type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    ports = spec.get("ports") or []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(FieldError("required", "spec.ports"))
    for index, port in enumerate(ports):
        number = port.get("port", 0)
        if not 0 < number < 65536:
            detail = "must be between 1 and 65535, inclusive"
            errors.append(FieldError("invalid", f"spec.ports[{index}].port", detail, number))
        if len(ports) > 1 and not port.get("name"):
            errors.append(FieldError("required", f"spec.ports[{index}].name"))
    return errors


def budget(obj: Object) -> Errors:
    """A PodDisruptionBudget names one bound, not two."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "minAvailable", "maxUnavailable")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        errors.append(FieldError("invalid", "spec", "minAvailable and maxUnavailable cannot be both set", spec))
    return errors + validation.label_selector(spec.get("selector") or {}, "spec.selector")


_HIGHEST_USER_PRIORITY = 1_000_000_000


def priority_class(obj: Object) -> Errors:
    """User classes stay below the system's."""
    value = obj.get("value", 0)
    name = obj["metadata"].get("name", "")
    if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        return [FieldError("forbidden", "metadata.name", detail)]
    if not name.startswith("system-") and value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        return [FieldError("forbidden", "value", detail)]
    return one_of(obj, "", "preemptionPolicy", ("Never", "PreemptLowerPriority"))


def priority_class_update(new: Object, old: Object) -> Errors:
    """The value of a class is what pods already carry."""
    if new.get("value", 0) != old.get("value", 0):
        return [FieldError("forbidden", "value", "may not be changed in an update.")]
    return []


def lease(obj: Object) -> Errors:
    """Durations of a Lease."""
    duration = dig(obj, "spec.leaseDurationSeconds")
    if duration is not None and duration <= 0:
        return [FieldError("invalid", "spec.leaseDurationSeconds", "must be greater than 0", duration)]
    return []


def claim(obj: Object) -> Errors:
    """A PersistentVolumeClaim asks for an amount in some mode."""
    spec = obj.get("spec") or {}
    errors: Errors = []
    if not spec.get("accessModes"):
        errors.append(FieldError("required", "spec.accessModes", "at least 1 access mode is required"))
    requested = dig(spec, "resources.requests.storage")
    if requested is None:
        errors.append(FieldError("required", "spec.resources[storage]"))
    elif quantity.parse(requested) <= 0:
        detail = "must be greater than zero"
        errors.append(FieldError("invalid", "spec.resources[storage]", detail, requested))
    return errors


def volume(obj: Object) -> Errors:
    """A PersistentVolume has a capacity and modes."""
    spec = obj.get("spec") or {}
    errors: Errors = []
    if not spec.get("accessModes"):
        errors.append(FieldError("required", "spec.accessModes"))
    if not spec.get("capacity"):
        errors.append(FieldError("required", "spec.capacity"))
    return errors


def event(obj: Object) -> Errors:
    """An Event lies in the namespace of what it is about."""
    about = (obj.get("involvedObject") or {}).get("namespace", "") or "default"
    namespace = obj["metadata"].get("namespace", "")
    if about != namespace:
        return [FieldError("invalid", "involvedObject.namespace", "does not match event.namespace", about)]
    return []
