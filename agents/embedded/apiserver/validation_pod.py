"""What a pod, or a pod template, must satisfy, and which of its fields an update may touch."""

import copy
from typing import Any

from agents.embedded.apiserver import quantity, validation
from agents.embedded.apiserver.status import FieldError, Object
from agents.embedded.apiserver.validation import Errors, invalid, one_of

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_OVERCOMMIT = _STANDARD_RESOURCES
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_dns_label = validation.name_rule("label")


def pod(obj: Object) -> Errors:
    """A whole pod."""
    return pod_spec(obj.get("spec") or {}, "spec")


def pod_spec(spec: Object, path: str) -> Errors:
    """The spec of a pod or of a template at `path`."""
    errors: Errors = []
    if not spec.get("containers"):
        errors.append(FieldError("required", f"{path}.containers"))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            errors += _container(container, f"{path}.{group}[{index}]", seen)
    errors += one_of(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    errors += one_of(spec, path, "dnsPolicy", ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))
    errors += _names(spec, path)
    errors += validation.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        errors += _toleration(toleration, f"{path}.tolerations[{index}]")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        errors += _spread(constraint, f"{path}.topologySpreadConstraints[{index}]")
    return errors + _affinity(spec.get("affinity") or {}, f"{path}.affinity") + _numbers(spec, path)


def _names(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for key in ("nodeName", "serviceAccountName", "schedulerName", "priorityClassName"):
        if spec.get(key):
            errors += invalid(f"{path}.{key}", spec[key], validation.name_rule("subdomain")(spec[key]))
    return errors


def _numbers(spec: Object, path: str) -> Errors:
    errors = validation.nonnegative(spec, path, "terminationGracePeriodSeconds")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(FieldError("invalid", f"{path}.activeDeadlineSeconds", detail, deadline))
    return errors


def _container(container: Object, path: str, seen: set[str]) -> Errors:
    name = container.get("name")
    errors: Errors = []
    if not name:
        errors.append(FieldError("required", f"{path}.name"))
    elif problems := _dns_label(name):
        errors += invalid(f"{path}.name", name, problems)
    elif name in seen:
        errors.append(FieldError("duplicate", f"{path}.name", value=name))
    seen.add(name or "")
    if not container.get("image"):
        errors.append(FieldError("required", f"{path}.image"))
    elif container["image"] != container["image"].strip():
        detail = "must not have leading or trailing whitespace"
        errors.append(FieldError("invalid", f"{path}.image", detail, container["image"]))
    errors += one_of(container, path, "imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    for index, port in enumerate(container.get("ports") or ()):
        errors += _port(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            errors.append(FieldError("required", f"{path}.env[{index}].name"))
    return errors + resources(container.get("resources") or {}, f"{path}.resources")


def _port(port: Object, path: str) -> Errors:
    errors: Errors = []
    if not port.get("containerPort"):
        errors.append(FieldError("required", f"{path}.containerPort"))
    for key in ("containerPort", "hostPort"):
        if port.get(key) and not 0 < port[key] < 65536:
            detail = "must be between 1 and 65535, inclusive"
            errors.append(FieldError("invalid", f"{path}.{key}", detail, port[key]))
    return errors + one_of(port, path, "protocol", ("TCP", "UDP", "SCTP"))


def resources(found: Object, path: str) -> Errors:
    """Requests and limits of a container."""
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    errors: Errors = []
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            errors += _resource_name(name, f"{path}.{group}[{name}]")
            errors += amount(name, text, f"{path}.{group}[{name}]")
    for name, text in requests.items():
        errors += _against_limit(name, text, limits.get(name), path)
    return errors


def _resource_name(name: str, path: str) -> Errors:
    problems = validation.qualified_name(name)
    if problems:
        return invalid(path, name, problems)
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        return [
            FieldError("invalid", path, "must be a standard resource type or fully qualified", name),
            FieldError("invalid", path, "must be a standard resource for containers", name),
        ]
    return []


def amount(name: str, text: str, path: str) -> Errors:
    """One quantity of a resource; extended resources are whole numbers."""
    value = quantity.parse(text)
    if value < 0:
        return [FieldError("invalid", path, "must be greater than or equal to 0", text)]
    if "/" in name and value.denominator != 1:
        return [FieldError("invalid", path, "must be an integer", text)]
    return []


def _against_limit(name: str, text: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if name in _OVERCOMMIT:
            return []
        return [FieldError("required", f"{path}.limits", "Limit must be set for non overcommitable resources")]
    requested, allowed = quantity.parse(text), quantity.parse(limit)
    if name not in _OVERCOMMIT and requested != allowed:
        return [FieldError("invalid", f"{path}.requests", f"must be equal to {name} limit of {limit}", text)]
    if requested > allowed:
        detail = f"must be less than or equal to {name} limit of {limit}"
        return [FieldError("invalid", f"{path}.requests", detail, text)]
    return []


def _toleration(toleration: Object, path: str) -> Errors:
    key, operator, effect = (toleration.get(part, "") for part in ("key", "operator", "effect"))
    errors = invalid(f"{path}.key", key, validation.qualified_name(key)) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(FieldError("invalid", f"{path}.operator", detail, operator))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(FieldError("invalid", f"{path}.effect", detail, effect))
    if operator == "Exists" and toleration.get("value"):
        detail = "value must be empty when `operator` is 'Exists'"
        errors.append(FieldError("invalid", f"{path}.operator", detail, toleration["value"]))
    errors += one_of(toleration, path, "operator", ("Equal", "Exists"))
    return errors + one_of(toleration, path, "effect", _EFFECTS)


def _spread(constraint: Object, path: str) -> Errors:
    errors: Errors = []
    if constraint.get("maxSkew", 0) <= 0:
        errors.append(
            FieldError("invalid", f"{path}.maxSkew", "must be greater than zero", constraint.get("maxSkew", 0))
        )
    if not constraint.get("topologyKey"):
        errors.append(FieldError("required", f"{path}.topologyKey", "can not be empty"))
    else:
        key = constraint["topologyKey"]
        errors += invalid(f"{path}.topologyKey", key, validation.qualified_name(key))
    errors += one_of(constraint, path, "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), needed=True)
    return errors + validation.label_selector(constraint.get("labelSelector") or {}, f"{path}.labelSelector")


def _affinity(affinity: Object, path: str) -> Errors:
    errors: Errors = []
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    base = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if required is not None and not required.get("nodeSelectorTerms"):
        errors.append(FieldError("required", base, "must have at least one node selector term"))
    for index, term in enumerate((required or {}).get("nodeSelectorTerms") or ()):
        errors += _node_term(term, f"{base}[{index}]")
    base = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _weight(preferred, f"{base}[{index}]")
        errors += _node_term(preferred.get("preference") or {}, f"{base}[{index}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        errors += _pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}")
    return errors


def _pod_affinity(affinity: Object, path: str) -> Errors:
    errors: Errors = []
    base = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _pod_term(term, f"{base}[{index}]")
    base = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _weight(preferred, f"{base}[{index}]")
        errors += _pod_term(preferred.get("podAffinityTerm") or {}, f"{base}[{index}].podAffinityTerm")
    return errors


def _weight(preferred: Object, path: str) -> Errors:
    weight = preferred.get("weight", 0)
    return [] if 1 <= weight <= 100 else [FieldError("invalid", f"{path}.weight", "must be in the range 1-100", weight)]


def _node_term(term: Object, path: str) -> Errors:
    errors: Errors = []
    for index, clause in enumerate(term.get("matchExpressions") or ()):
        errors += validation.requirement(clause, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS)
    for index, clause in enumerate(term.get("matchFields") or ()):
        here = f"{path}.matchFields[{index}]"
        if clause.get("key") != "metadata.name":
            errors.append(FieldError("invalid", f"{here}.key", "not a valid field selector key", clause.get("key", "")))
        if clause.get("operator") not in ("In", "NotIn"):
            detail = "not a valid selector operator"
            errors.append(FieldError("invalid", f"{here}.operator", detail, clause.get("operator", "")))
    return errors


def _pod_term(term: Object, path: str) -> Errors:
    errors = validation.label_selector(term.get("labelSelector") or {}, f"{path}.labelSelector")
    if not term.get("topologyKey"):
        errors.append(FieldError("required", f"{path}.topologyKey", "can not be empty"))
        detail = "name part must be non-empty"
        errors.append(FieldError("invalid", f"{path}.topologyKey", detail, ""))
    return errors


def pod_update(new: Object, old: Object) -> Errors:
    """A pod's spec is settled at creation, but for a few fields."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return []
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(before.get(group) or ()):
            return [FieldError("forbidden", f"spec.{group}", "pod updates may not add or remove containers")]
    errors = pod_spec(spec, "spec") + _toleration_additions(spec, before) + _gate_removals(spec, before)
    if _masked(spec, before) != before:
        changed = sorted(key for key in {*spec, *before} if _masked(spec, before).get(key) != before.get(key))
        detail = f"pod updates may not change fields other than {UPDATABLE}\nchanged: {', '.join(changed)}"
        errors.append(FieldError("forbidden", "spec", detail))
    return errors


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
            f"spec.schedulingGates[{index}]",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate not in known
    ]
