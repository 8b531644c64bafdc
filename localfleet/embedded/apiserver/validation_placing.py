"""What a pod may say of where it wants to be: affinity, tolerations, spread."""

from typing import Any

from localfleet.embedded.apiserver import validation
from localfleet.embedded.apiserver.status import FieldError, Object, supported
from localfleet.embedded.apiserver.validation import Errors, invalid, one_of

_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_subdomain = validation.name_rule("subdomain")
_label = validation.name_rule("label")


def placing(spec: Object, path: str) -> Errors:
    """All of it, in the spec of a pod at `path`."""
    errors = affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, found in enumerate(spec.get("tolerations") or ()):
        errors += toleration(found, f"{path}.tolerations[{index}]")
    constraints = spec.get("topologySpreadConstraints") or []
    for index, constraint in enumerate(constraints):
        here = f"{path}.topologySpreadConstraints[{index}]"
        errors += spread(constraint, here) + _twice(constraint, constraints[index + 1 :], here)
    return errors


def toleration(found: Object, path: str) -> Errors:
    """One toleration."""
    key, operator, effect, value = (found.get(part, "") for part in ("key", "operator", "effect", "value"))
    errors = invalid(f"{path}.key", key, validation.qualified_name(key)) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(FieldError("invalid", f"{path}.operator", detail, operator))
    if found.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(FieldError("invalid", f"{path}.effect", detail, effect))
    if operator == "Exists" and value:
        detail = "value must be empty when `operator` is 'Exists'"
        errors.append(FieldError("invalid", f"{path}.operator", detail, value))
    if operator in ("", "Equal"):
        errors += invalid(f"{path}.operator", value, validation.label_value(value))
    if operator not in ("", "Equal", "Exists"):
        # Lt and Gt are known, and off.
        listed = supported(("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists"))
        errors.append(FieldError("unsupported", f"{path}.operator", listed, operator))
    return errors + one_of(found, path, "effect", _EFFECTS)


def spread(constraint: Object, path: str) -> Errors:
    """One topology spread constraint."""
    skew = constraint.get("maxSkew", 0)
    domains = constraint.get("minDomains")
    policy = constraint.get("whenUnsatisfiable", "")
    errors: Errors = []
    if skew <= 0:
        errors.append(FieldError("invalid", f"{path}.maxSkew", "must be greater than zero", skew))
    if not constraint.get("topologyKey"):
        errors.append(FieldError("required", f"{path}.topologyKey", "can not be empty"))
    errors += one_of(constraint, path, "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), needed=True)
    if domains is not None and domains <= 0:
        errors.append(FieldError("invalid", f"{path}.minDomains", "must be greater than zero", domains))
    if domains is not None and policy == "ScheduleAnyway":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {policy}"
        errors.append(FieldError("invalid", f"{path}.minDomains", detail, domains))
    for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors += one_of(constraint, path, key, ("Honor", "Ignore"))
    return errors + validation.label_selector(constraint.get("labelSelector") or {}, f"{path}.labelSelector")


def _twice(constraint: Object, later: list[Object], path: str) -> Errors:
    pair = tuple(constraint.get(key, "") for key in ("topologyKey", "whenUnsatisfiable"))
    if not any(tuple(other.get(key, "") for key in ("topologyKey", "whenUnsatisfiable")) == pair for other in later):
        return []
    shown = "{" + ", ".join(pair) + "}"
    return [FieldError("duplicate", f"{path}.{{topologyKey, whenUnsatisfiable}}", value=shown)]


def affinity(found: Object, path: str) -> Errors:
    """Node affinity, pod affinity and pod anti-affinity."""
    node = found.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    base = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    errors: Errors = []
    if required is not None and not required.get("nodeSelectorTerms"):
        errors.append(FieldError("required", base, "must have at least one node selector term"))
    for index, term in enumerate((required or {}).get("nodeSelectorTerms") or ()):
        errors += _node_term(term, f"{base}[{index}]")
    base = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _weight(preferred, f"{base}[{index}]")
        errors += _node_term(preferred.get("preference") or {}, f"{base}[{index}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        errors += _pod_affinity(found.get(kind) or {}, f"{path}.{kind}")
    return errors


def _pod_affinity(found: Object, path: str) -> Errors:
    errors: Errors = []
    base = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _pod_term(term, f"{base}[{index}]")
    base = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
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
        errors += _node_field(clause, f"{path}.matchFields[{index}]")
    return errors


def _node_field(clause: Object, path: str) -> Errors:
    key = clause.get("key", "")
    operator = clause.get("operator", "")
    values = clause.get("values") or []
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(FieldError("invalid", f"{path}.operator", "not a valid selector operator", operator))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(FieldError("required", f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, FieldError("invalid", f"{path}.key", "not a valid field selector key", key)]
    for index, value in enumerate(values):
        errors += invalid(f"{path}.values[{index}]", value, _subdomain(value))
    return errors


def _pod_term(term: Object, path: str) -> Errors:
    errors = validation.label_selector(term.get("labelSelector") or {}, f"{path}.labelSelector")
    for namespace in term.get("namespaces") or ():
        errors += invalid(f"{path}.namespace", namespace, _label(namespace))
    key: Any = term.get("topologyKey") or ""
    if not key:
        errors.append(FieldError("required", f"{path}.topologyKey", "can not be empty"))
    return errors + invalid(f"{path}.topologyKey", key, validation.qualified_name(key))
