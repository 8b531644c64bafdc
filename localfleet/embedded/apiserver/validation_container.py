"""What a container of a pod must satisfy: names, ports, variables, probes, mounts, amounts."""

from typing import Any

from localfleet.embedded.apiserver import quantity, validation
from localfleet.embedded.apiserver.status import FieldError, Object
from localfleet.embedded.apiserver.validation import Errors, invalid, one_of

_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
# Amounts that no container has, though their names need no prefix.
_OTHER_RESOURCES = frozenset({"storage", "pods", "services", "secrets", "configmaps", "persistentvolumeclaims"})
_HUGE = "hugepages-"
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PORT_NAME_RULES = (
    (lambda name: len(name) <= 15, "must be no more than 15 characters"),
    (
        lambda name: all(letter in "abcdefghijklmnopqrstuvwxyz0123456789-" for letter in name),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    ),
    (lambda name: any("a" <= letter <= "z" for letter in name), "must contain at least one letter (a-z)"),
    (lambda name: "--" not in name, "must not contain consecutive hyphens"),
    (lambda name: name[:1] != "-" != name[-1:], "must not begin or end with a hyphen"),
)
_dns_label = validation.name_rule("label")


def container(found: Object, path: str, seen: set[str], volumes: set[str]) -> Errors:
    """One container; `seen` are the names of those before it, `volumes` those that it may mount."""
    name = found.get("name")
    errors: Errors = []
    if not name:
        errors.append(FieldError("required", f"{path}.name"))
    elif problems := _dns_label(name):
        errors += invalid(f"{path}.name", name, problems)
    elif name in seen:
        errors.append(FieldError("duplicate", f"{path}.name", value=name))
    seen.add(name or "")
    if not found.get("image"):
        errors.append(FieldError("required", f"{path}.image"))
    elif found["image"] != found["image"].strip():
        detail = "must not have leading or trailing whitespace"
        errors.append(FieldError("invalid", f"{path}.image", detail, found["image"]))
    errors += one_of(found, path, "imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    for index, variable in enumerate(found.get("env") or ()):
        errors += _variable(variable, f"{path}.env[{index}]")
    for key in _PROBES:
        errors += _probe(found.get(key), f"{path}.{key}")
    for index, mount in enumerate(found.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            errors.append(FieldError("notfound", f"{path}.volumeMounts[{index}].name", value=mount.get("name")))
    return errors + resources(found.get("resources") or {}, f"{path}.resources")


def _variable(variable: Object, path: str) -> Errors:
    name = variable.get("name") or ""
    errors: Errors = []
    if not name:
        errors.append(FieldError("required", f"{path}.name"))
    elif "=" in name or not all(" " <= letter <= "~" for letter in name):
        detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        errors.append(FieldError("invalid", f"{path}.name", detail, name))
    if variable.get("valueFrom") == {}:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(FieldError("invalid", f"{path}.valueFrom", detail, ""))
    return errors


def _probe(probe: Object | None, path: str) -> Errors:
    if probe is None:
        return []
    if not any(handler in probe for handler in _HANDLERS):
        return [FieldError("required", path, "must specify a handler type")]
    port: Any = (probe.get("httpGet") or {}).get("port", 0) if "httpGet" in probe else 1
    if isinstance(port, int) and not 0 < port < 65536:
        return [FieldError("invalid", f"{path}.httpGet.port", _PORT_RANGE, port)]
    return []


def ports(containers: list[Object], path: str, *, on_host: bool) -> Errors:
    """The ports of all containers: a port of the host is taken once."""
    errors: Errors = []
    taken: set[str] = set()
    for number, found in enumerate(containers):
        for index, port in enumerate(found.get("ports") or ()):
            here = f"{path}[{number}].ports[{index}]"
            errors += _port(port, here)
            errors += _host_port(port, here, taken, on_host=on_host)
    return errors


def _port(port: Object, path: str) -> Errors:
    errors: Errors = []
    name = port.get("name")
    if name:
        errors += invalid(f"{path}.name", name, [words for holds, words in _PORT_NAME_RULES if not holds(name)])
    if not port.get("containerPort"):
        errors.append(FieldError("required", f"{path}.containerPort"))
    for key in ("containerPort", "hostPort"):
        if port.get(key) and not 0 < port[key] < 65536:
            errors.append(FieldError("invalid", f"{path}.{key}", _PORT_RANGE, port[key]))
    return errors + one_of(port, path, "protocol", ("SCTP", "TCP", "UDP"))


def _host_port(port: Object, path: str, taken: set[str], *, on_host: bool) -> Errors:
    asked = port.get("hostPort")
    if not asked:
        return []
    if on_host and asked != port.get("containerPort"):
        detail = "must match `containerPort` when `hostNetwork` is true"
        return [FieldError("invalid", f"{path}.hostPort", detail, asked)]
    place = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{asked}"
    if place in taken:
        return [FieldError("duplicate", f"{path}.hostPort", value=place)]
    taken.add(place)
    return []


def resources(found: Object, path: str) -> Errors:
    """Requests and limits of a container."""
    limits = found.get("limits") or {}
    requests = found.get("requests") or {}
    errors: Errors = []
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            here = f"{path}.{group}[{name}]"
            errors += _resource_name(name, here) + amount(name, text, here) + _huge_pages(name, text, here)
    for name, text in requests.items():
        errors += _against_limit(name, text, limits.get(name), path)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        errors.append(FieldError("forbidden", path, "HugePages require cpu or memory"))
    return errors


def _resource_name(name: str, path: str) -> Errors:
    errors = invalid(path, name, validation.qualified_name(name))
    if "/" in name or name in _STANDARD_RESOURCES or name.startswith(_HUGE):
        return errors
    if name not in _OTHER_RESOURCES and not errors:
        errors.append(FieldError("invalid", path, "must be a standard resource type or fully qualified", name))
    return [*errors, FieldError("invalid", path, "must be a standard resource for containers", name)]


def amount(name: str, text: str, path: str) -> Errors:
    """One quantity of a resource; extended resources are whole numbers."""
    value = quantity.parse(text)
    if value < 0:
        return [FieldError("invalid", path, "must be greater than or equal to 0", text)]
    if "/" in name and value.denominator != 1:
        return [FieldError("invalid", path, "must be an integer", text)]
    return []


def _huge_pages(name: str, text: str, path: str) -> Errors:
    size = name.removeprefix(_HUGE)
    if size == name or quantity.parse(text) % quantity.parse(size) == 0:
        return []
    return [FieldError("invalid", path, f"{text} is not positive integer multiple of {name}", text)]


def _against_limit(name: str, text: str, limit: str | None, path: str) -> Errors:
    overcommits = not ("/" in name or name.startswith(_HUGE))
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommits else [FieldError("required", f"{path}.limits", detail)]
    requested = quantity.parse(text)
    allowed = quantity.parse(limit)
    if not overcommits and requested != allowed:
        return [FieldError("invalid", f"{path}.requests", f"must be equal to {name} limit of {limit}", text)]
    if requested > allowed:
        detail = f"must be less than or equal to {name} limit of {limit}"
        return [FieldError("invalid", f"{path}.requests", detail, text)]
    return []
