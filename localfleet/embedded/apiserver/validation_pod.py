"""What a pod, or a pod template, must satisfy, and which of its fields an update may touch."""

import copy
from typing import Any

from localfleet.embedded.apiserver import validation, validation_container
from localfleet.embedded.apiserver.status import FieldError, Object, supported
from localfleet.embedded.apiserver.validation import Errors, invalid, one_of
from localfleet.embedded.apiserver.validation_placing import placing

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_label = validation.name_rule("label")
_subdomain = validation.name_rule("subdomain")


def pod(obj: Object) -> Errors:
    """A whole pod."""
    spec = obj.get("spec") or {}
    errors = pod_spec(spec, "spec")
    if spec.get("ephemeralContainers"):
        errors.append(FieldError("forbidden", "spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError("forbidden", "spec.nodeName", detail))
    return errors


def pod_spec(spec: Object, path: str) -> Errors:
    """The spec of a pod or of a template at `path`."""
    errors = _volumes(spec, path)
    if not spec.get("containers"):
        errors.append(FieldError("required", f"{path}.containers"))
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            errors += validation_container.container(container, f"{path}.{group}[{index}]", seen, volumes)
            errors += _of_init(container, f"{path}.{group}[{index}]") if group == "initContainers" else []
    on_host = bool(spec.get("hostNetwork"))
    errors += validation_container.ports(spec.get("containers") or [], f"{path}.containers", on_host=on_host)
    errors += one_of(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    errors += one_of(spec, path, "dnsPolicy", _DNS_POLICIES)
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        errors.append(FieldError("required", f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"))
    errors += _names(spec, path) + _gates(spec, path) + _kind_of_machine(spec, path)
    errors += validation.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    return errors + placing(spec, path) + _numbers(spec, path)


def _volumes(spec: Object, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name") or ""
        here = f"{path}.volumes[{index}].name"
        if not name:
            errors.append(FieldError("required", here))
        elif name in seen:
            errors.append(FieldError("duplicate", here, value=name))
        else:
            errors += invalid(here, name, _label(name))
        seen.add(name)
    return errors


def _of_init(container: Object, path: str) -> Errors:
    return one_of(container, path, "restartPolicy", ("Always", "OnFailure", "Never"))


def _names(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for key in ("nodeName", "serviceAccountName", "priorityClassName"):
        if spec.get(key):
            errors += invalid(f"{path}.{key}", spec[key], _subdomain(spec[key]))
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            errors += invalid(f"{path}.{key}", spec[key], _label(spec[key]))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        errors += invalid(f"{path}.readinessGates[{index}].conditionType", kind, validation.qualified_name(kind))
    return errors


def _gates(spec: Object, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        here = f"{path}.schedulingGates[{index}]"
        errors += invalid(here, name, validation.qualified_name(name))
        if name in seen:
            errors.append(FieldError("duplicate", here, value=name))
        seen.add(name)
    return errors


def _kind_of_machine(spec: Object, path: str) -> Errors:
    system = spec.get("os")
    if system is None or system.get("name") in ("linux", "windows"):
        return []
    return [FieldError("unsupported", f"{path}.os", supported(("linux", "windows")), system.get("name", ""))]


def _numbers(spec: Object, path: str) -> Errors:
    errors: Errors = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(FieldError("invalid", f"{path}.activeDeadlineSeconds", detail, deadline))
    user = (spec.get("securityContext") or {}).get("runAsUser")
    if user is not None and not 0 <= user < 2**31:
        detail = "must be between 0 and 2147483647, inclusive"
        errors.append(FieldError("invalid", f"{path}.securityContext.runAsUser", detail, user))
    return errors


def pod_status(new: Object, old: Object) -> Errors:
    """What the status of a pod cannot become."""
    status = new.get("status") or {}
    before = old.get("status") or {}
    errors: Errors = []
    node = status.get("nominatedNodeName")
    if node:
        errors += invalid("status.nominatedNodeName", node, _subdomain(node))
    for group in ("podIPs", "hostIPs"):
        for index, found in enumerate(status.get(group) or ()):
            errors += validation.address(found.get("ip", ""), f"status.{group}[{index}]")
    quality = status.get("qosClass")
    if quality != before.get("qosClass"):
        errors.append(FieldError("invalid", "status.qosClass", "field is immutable", quality))
    return errors + validation.metadata_update(new, old)


def pod_update(new: Object, old: Object) -> Errors:
    """A pod's spec is settled at creation, but for a few fields."""
    spec = new.get("spec") or {}
    before = old.get("spec") or {}
    if spec == before:
        return []
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(before.get(group) or ()):
            added = FieldError("forbidden", f"spec.{group}", "pod updates may not add or remove containers")
            return [*pod_spec(spec, "spec"), added]
    errors = pod_spec(spec, "spec") + _toleration_additions(spec, before) + _gate_removals(spec, before)
    if before.get("schedulingGates") and not _only_adds(spec.get("nodeSelector"), before.get("nodeSelector")):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [*errors, FieldError("invalid", "spec.nodeSelector", detail, spec.get("nodeSelector") or {})]
    if _masked(spec, before) != before:
        changed = sorted(key for key in {*spec, *before} if _masked(spec, before).get(key) != before.get(key))
        detail = f"pod updates may not change fields other than {UPDATABLE}\nchanged: {', '.join(changed)}"
        errors.append(FieldError("forbidden", "spec", detail))
    return errors


def _only_adds(now: dict[str, str] | None, before: dict[str, str] | None) -> bool:
    return (before or {}).items() <= (now or {}).items()


def _masked(spec: Object, before: Object) -> Object:
    """`spec` with the updatable fields as they were."""
    masked: Object = copy.copy(spec)
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        masked.pop(key, None)
        if key in before:
            masked[key] = before[key]
    for group in ("containers", "initContainers"):
        if group in spec:
            pairs = zip(spec[group], before[group], strict=True)
            masked[group] = [_with_image(container, was) for container, was in pairs]
    if before.get("schedulingGates"):  # a gated pod may still be steered
        for key in ("nodeSelector", "affinity"):
            masked.pop(key, None)
            masked |= {key: before[key]} if key in before else {}
    return masked


def _with_image(container: Object, was: Object) -> Object:
    return container | {"image": was["image"]}


def _toleration_additions(spec: Object, before: Object) -> Errors:
    now: list[Any] = spec.get("tolerations") or []
    if all(toleration in now for toleration in before.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [FieldError("forbidden", "spec.tolerations", detail)]


def _gate_removals(spec: Object, before: Object) -> Errors:
    known = before.get("schedulingGates") or []
    return [
        FieldError(
            "forbidden",
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate not in known
    ]
