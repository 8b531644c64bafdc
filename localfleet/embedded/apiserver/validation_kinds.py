"""What objects other than pods must satisfy."""

import ipaddress

from localfleet.embedded.apiserver import quantity, validation
from localfleet.embedded.apiserver.selectors import label_selector_matches
from localfleet.embedded.apiserver.status import FieldError, Object, supported
from localfleet.embedded.apiserver.validation import (
    Errors,
    dig,
    immutable,
    int_or_percent,
    invalid,
    name_rule,
    nonnegative,
    one_of,
)
from localfleet.embedded.apiserver.validation_container import amount
from localfleet.embedded.apiserver.validation_pod import pod_spec

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _template(spec: Object, path: str) -> Errors:
    """A pod template and the selector that must find its pods."""
    selector = spec.get("selector")
    template = spec.get("template") or {}
    errors: Errors = []
    readable = True
    if selector is None:
        errors.append(FieldError("required", f"{path}.selector"))
    else:
        errors += validation.label_selector(selector, f"{path}.selector")
        if errors:
            readable = False
            errors.append(FieldError("invalid", f"{path}.selector", "invalid label selector", selector))
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            detail = "empty selector is invalid for deployment"
            errors.append(FieldError("invalid", f"{path}.selector", detail, selector))
    labels = dig(template, "metadata.labels") or {}
    selects = bool(selector) and readable and label_selector_matches(selector or {}, labels)
    if readable and selector != {} and not selects:
        detail = "`selector` does not match template `labels`"
        errors.append(FieldError("invalid", f"{path}.template.metadata.labels", detail, labels or None))
    errors += validation.labels(labels, f"{path}.template.metadata.labels")
    return errors + pod_spec(template.get("spec") or {}, f"{path}.template.spec")


def workload(obj: Object) -> Errors:
    """A Deployment or ReplicaSet."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    errors += _template(spec, "spec")
    policy = dig(spec, "template.spec.restartPolicy")
    if policy not in (None, "Always"):
        where = "spec.template.spec.restartPolicy"
        errors.append(FieldError("unsupported", where, supported(("Always",)), policy))
    if dig(spec, "template.spec.activeDeadlineSeconds") is not None:
        where = "spec.template.spec.activeDeadlineSeconds"
        errors.append(FieldError("forbidden", where, "activeDeadlineSeconds in ReplicaSet is not Supported"))
    deadline = spec.get("progressDeadlineSeconds")
    least = spec.get("minReadySeconds", 0)
    if deadline is not None and 0 <= deadline <= least:
        detail = "must be greater than minReadySeconds"
        errors.append(FieldError("invalid", "spec.progressDeadlineSeconds", detail, deadline))
    return errors + _strategy(spec.get("strategy") or {})


def _strategy(strategy: Object) -> Errors:
    kind = strategy.get("type", "RollingUpdate")
    rolling = strategy.get("rollingUpdate")
    where = "spec.strategy.rollingUpdate"
    if kind not in ("Recreate", "RollingUpdate"):
        whole = {"Type": kind, "RollingUpdate": rolling}
        return [FieldError("unsupported", "spec.strategy", supported(("Recreate", "RollingUpdate")), whole)]
    if kind == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [FieldError("forbidden", where, detail)] if rolling is not None else []
    sizes: Object = rolling or {}
    errors = int_or_percent(sizes, where, "maxUnavailable")
    errors += int_or_percent(sizes, where, "maxSurge", bounded=False)
    if {sizes.get(key) for key in ("maxUnavailable", "maxSurge")} <= {0, "0%"}:
        shown = sizes.get("maxUnavailable")
        errors.append(FieldError("invalid", f"{where}.maxUnavailable", "may not be 0 when `maxSurge` is 0", shown))
    return errors


def workload_update(new: Object, old: Object) -> Errors:
    """The selector of a workload never changes."""
    return workload(new) + immutable(new, old, "spec.selector")


_JOB_COUNTS: tuple[str, ...] = ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
_JOB_COUNTS += ("activeDeadlineSeconds",)


def job(obj: Object) -> Errors:
    """A Job: its pods may not restart for ever."""
    spec = obj.get("spec") or {}
    errors = nonnegative(spec, "spec", *_JOB_COUNTS)
    errors += one_of(spec, "spec", "completionMode", ("NonIndexed", "Indexed"))
    errors += one_of(spec, "spec", "podReplacementPolicy", ("Failed", "TerminatingOrFailed"))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        detail = "when completion mode is Indexed"
        errors.append(FieldError("required", "spec.completions", detail))
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
        path = f"metadata.taints[{index}]"  # so the real server says
        errors += invalid(f"{path}.key", taint.get("key", ""), validation.qualified_name(taint.get("key", "")))
        errors += invalid(f"{path}.value", taint.get("value", ""), validation.label_value(taint.get("value", "")))
        if not taint.get("effect"):
            errors.append(FieldError("required", f"{path}.effect"))
        errors += one_of(taint, path, "effect", _EFFECTS)
        pair = (taint.get("key", ""), taint.get("effect", ""))
        if pair in seen:
            detail = "taints must be unique by key and effect pair"
            shown = {"Key": pair[0], "Value": taint.get("value", ""), "Effect": pair[1], "TimeAdded": None}
            errors.append(FieldError("duplicate", path, detail, shown))
        seen.add(pair)
    for group in ("capacity", "allocatable"):
        for name, text in (dig(obj, f"status.{group}") or {}).items():
            errors += amount(name, text, f"status.{group}.{name}")
    for index, block in enumerate(dig(obj, "spec.podCIDRs") or ()):
        try:
            ipaddress.ip_network(block)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            errors.append(FieldError("invalid", f"spec.podCIDRs[{index}]", detail, block))
    return errors


def node_update(new: Object, old: Object) -> Errors:
    """The same, and what identifies the machine."""
    errors = node(new)
    if _changes(new, old, "podCIDR"):
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(FieldError("forbidden", "spec.podCIDRs", detail))
    if _changes(new, old, "providerID"):
        errors.append(FieldError("invalid", "spec.providerID", "field cannot be modified once set"))
    return errors


def _changes(new: Object, old: Object, key: str) -> bool:
    before = dig(old, f"spec.{key}")
    return bool(before) and dig(new, f"spec.{key}") != before


_LARGEST_DATA = 1024 * 1024


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
            elif group == "data" and key in (obj.get("binaryData") or {}):
                errors.append(FieldError("invalid", f"data[{key}]", "duplicate of key present in binaryData", key))
    size = sum(len(value.encode()) for group in ("data", "binaryData") for value in (obj.get(group) or {}).values())
    if size > _LARGEST_DATA:
        errors.append(FieldError("toolong", "[]", f"may not be more than {_LARGEST_DATA} bytes"))
    return errors


_NEEDED_KEYS = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/dockerconfigjson": (".dockerconfigjson",)}


def secret(obj: Object) -> Errors:
    """The same, and what a Secret of some types must have."""
    needed = _NEEDED_KEYS.get(obj.get("type", ""), ())
    data = obj.get("data") or {}
    return config_map(obj) + [FieldError("required", f"data[{key}]") for key in needed if key not in data]


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
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        errors += validation.address(address, f"spec.clusterIPs[{index}]") if address != "None" else []
    ports = spec.get("ports") or []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(FieldError("required", "spec.ports"))
    for index, port in enumerate(ports):
        number = port.get("port", 0)
        if not 0 < number < 65536:
            detail = "must be between 1 and 65535, inclusive"
            errors.append(FieldError("invalid", f"spec.ports[{index}].port", detail, number))
        target = port.get("targetPort", number)
        if isinstance(target, int) and not 0 < target < 65536:
            detail = "must be between 1 and 65535, inclusive"
            errors.append(FieldError("invalid", f"spec.ports[{index}].targetPort", detail, target))
        errors += one_of(port, f"spec.ports[{index}]", "protocol", ("SCTP", "TCP", "UDP"))
        if port.get("name"):
            errors += invalid(f"spec.ports[{index}].name", port["name"], name_rule("label")(port["name"]))
        if len(ports) > 1 and not port.get("name"):
            errors.append(FieldError("required", f"spec.ports[{index}].name"))
    return errors


_BUDGET_ORDER = ("MinAvailable", "Selector", "MaxUnavailable", "UnhealthyPodEvictionPolicy")


def budget(obj: Object) -> Errors:
    """A PodDisruptionBudget names one bound, not two."""
    spec = obj.get("spec") or {}
    errors = int_or_percent(spec, "spec", "minAvailable") + int_or_percent(spec, "spec", "maxUnavailable")
    errors += one_of(spec, "spec", "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = {key: spec.get(key[:1].lower() + key[1:]) for key in _BUDGET_ORDER}
        errors.append(FieldError("invalid", "spec", "minAvailable and maxUnavailable cannot be both set", shown))
    return errors + validation.label_selector(spec.get("selector") or {}, "spec.selector")


_HIGHEST_USER_PRIORITY = 1_000_000_000


def priority_class(obj: Object) -> Errors:
    """User classes stay below the system's."""
    value = obj.get("value", 0)
    name = obj["metadata"].get("name", "")
    if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
        detail = "priority class names with 'system-' prefix are reserved for system use only. "
        detail += f"error: {name} is not a known system priority class"
        return [FieldError("forbidden", "metadata.name", detail)]
    if not name.startswith("system-") and value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        return [FieldError("forbidden", "value", detail)]
    return one_of(obj, "", "preemptionPolicy", ("PreemptLowerPriority", "Never"))


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
    return nonnegative(obj.get("spec") or {}, "spec", "leaseTransitions")


_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def claim(obj: Object) -> Errors:
    """A PersistentVolumeClaim asks for an amount in some mode."""
    spec = obj.get("spec") or {}
    errors: Errors = []
    if not spec.get("accessModes"):
        errors.append(FieldError("required", "spec.accessModes", "at least 1 access mode is required"))
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            errors.append(FieldError("unsupported", "spec.accessModes", supported(_ACCESS_MODES), mode))
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


_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def storage_class(obj: Object) -> Errors:
    """A StorageClass names who provides, and when."""
    errors: Errors = [] if obj.get("provisioner") else [FieldError("required", "provisioner")]
    mode = obj.get("volumeBindingMode")
    if mode not in _BINDING_MODES:
        errors.append(FieldError("unsupported", "volumeBindingMode", supported(_BINDING_MODES), mode))
    return errors


def event(obj: Object) -> Errors:
    """An Event lies in the namespace of what it is about."""
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    if (about or "default") != namespace:
        return [FieldError("invalid", "involvedObject.namespace", "does not match event.namespace", about)]
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
        errors.append(FieldError("invalid", "type", f"has invalid value: {obj.get('type', '')}", ""))
    return errors


_EVENT_SAID = ("involvedObject", "reason", "action", "message", "type", "reportingComponent", "reportingInstance")


def event_frozen(new: Object, old: Object) -> Errors:
    """What of an Event nobody changes by events.k8s.io once it is there; both in the form of core/v1."""
    return [
        FieldError("invalid", key, "field is immutable", new.get(key))
        for key in _EVENT_SAID
        if (new.get(key) or "") != (old.get(key) or "")
    ]
