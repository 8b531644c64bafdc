"""What a pod, or a pod template, must satisfy, and which of its fields an update may touch.

Not all that kube-apiserver asks for: what the product writes, and what people get wrong. Where a
pod wants to be is taken as it is said.
"""

import copy
from typing import Any

from localfleet.embedded.apiserver import quantity
from localfleet.embedded.apiserver.status import FieldError, Object
from localfleet.embedded.apiserver.validate import validation
from localfleet.embedded.apiserver.validate.validation import Errors, invalid, one_of

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_label = validation.name_rule("label")
_subdomain = validation.name_rule("subdomain")


def pod(obj: Object) -> Errors:
    """A whole pod."""
    spec = obj.get("spec") or {}
    errors = pod_spec(spec, "spec")
    if spec.get("ephemeralContainers"):
        errors.append(
            FieldError("forbidden", "spec.ephemeralContainers", "cannot be set on create")
        )
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError("forbidden", "spec.nodeName", detail))
    return errors


def pod_spec(spec: Object, path: str) -> Errors:
    """The spec of a pod or of a template at `path`."""
    errors: Errors = (
        [] if spec.get("containers") else [FieldError("required", f"{path}.containers")]
    )
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            errors += _container(container, f"{path}.{group}[{index}]", seen, volumes)
    errors += one_of(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    for key in ("nodeName", "priorityClassName"):
        if spec.get(key):
            errors += invalid(f"{path}.{key}", spec[key], _subdomain(spec[key]))
    errors += validation.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    return errors + _gates(spec, path)


def _container(found: Object, path: str, seen: set[str], volumes: set[str]) -> Errors:
    """One container; `seen` are the names of those before it, `volumes` those that it may mount."""
    name = found.get("name")
    errors: Errors = []
    if not name:
        errors.append(FieldError("required", f"{path}.name"))
    elif problems := _label(name):
        errors += invalid(f"{path}.name", name, problems)
    elif name in seen:
        errors.append(FieldError("duplicate", f"{path}.name", value=name))
    seen.add(name or "")
    if not found.get("image"):
        errors.append(FieldError("required", f"{path}.image"))
    for index, mount in enumerate(found.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            errors.append(
                FieldError(
                    "notfound", f"{path}.volumeMounts[{index}].name", value=mount.get("name")
                )
            )
    return errors + _resources(found.get("resources") or {}, f"{path}.resources")


def _resources(found: Object, path: str) -> Errors:
    """Requests and limits of a container."""
    limits = found.get("limits") or {}
    requests = found.get("requests") or {}
    errors: Errors = []
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            here = f"{path}.{group}[{name}]"
            errors += invalid(here, name, validation.qualified_name(name)) + amount(
                name, text, here
            )
    for name, text in requests.items():
        if name in limits and quantity.parse(text) > quantity.parse(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.append(FieldError("invalid", f"{path}.requests", detail, text))
    return errors


def amount(name: str, text: str, path: str) -> Errors:
    """One quantity of a resource; extended resources are whole numbers."""
    value = quantity.parse(text)
    if value < 0:
        return [FieldError("invalid", path, "must be greater than or equal to 0", text)]
    if "/" in name and value.denominator != 1:
        return [FieldError("invalid", path, "must be an integer", text)]
    return []


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
            added = FieldError(
                "forbidden", f"spec.{group}", "pod updates may not add or remove containers"
            )
            return [*pod_spec(spec, "spec"), added]
    errors = (
        pod_spec(spec, "spec") + _toleration_additions(spec, before) + _gate_removals(spec, before)
    )
    if before.get("schedulingGates") and not _only_adds(
        spec.get("nodeSelector"), before.get("nodeSelector")
    ):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [
            *errors,
            FieldError("invalid", "spec.nodeSelector", detail, spec.get("nodeSelector") or {}),
        ]
    if _masked(spec, before) != before:
        changed = sorted(
            key for key in {*spec, *before} if _masked(spec, before).get(key) != before.get(key)
        )
        detail = (
            f"pod updates may not change fields other than {UPDATABLE}\nchanged: "
            f"{', '.join(changed)}"
        )
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
