"""What every object must satisfy: names, labels, annotations, finalizers, owners, label selectors."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any

from localfleet.embedded.apiserver.status import FieldError, Object, supported

Errors = list[FieldError]
NameRule = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"
_SPACED = "'-', '_' or '.', and must start and end with an alphanumeric character"
_RULES: dict[str, tuple[re.Pattern[str], int, str]] = {
    "label": (
        re.compile(_LABEL),
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
        f"validation is '{_LABEL}')",
    ),
    "subdomain": (
        re.compile(_SUBDOMAIN),
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation "
        f"is '{_SUBDOMAIN}')",
    ),
    "label1035": (
        re.compile(_LABEL_1035),
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex "
        "used for validation "
        f"is '{_LABEL_1035}')",
    ),
    "value": (
        re.compile(_VALUE),
        63,
        f"a valid label must be an empty string or consist of alphanumeric characters, {_SPACED} "
        f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')",
    ),
    "qualified": (
        re.compile(_QUALIFIED),
        63,
        f"must consist of alphanumeric characters, {_SPACED} "
        "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        f"'{_QUALIFIED}')",
    ),
}
MAX_ANNOTATIONS_BYTES = 256 * 1024
_IMMUTABLE = "field is immutable"


def _breaks(rule: str, text: str) -> list[str]:
    pattern, longest, message = _RULES[rule]
    unit = "bytes" if rule in ("value", "qualified") else "characters"
    found = [f"must be no more than {longest} {unit}"] if len(text) > longest else []
    if not pattern.fullmatch(text[: longest + 1]):
        found.append(message)
    return found


def name_rule(rule: str) -> NameRule:
    """How names of a resource are checked: "label", "namespace", "subdomain" or "path" (all but .
    .. / %).
    """
    if rule == "path":
        return _path_segment
    if rule == "namespace":
        return lambda text: ["must not contain dots"] if "." in text else _breaks("label", text)
    return lambda text: _breaks(rule, text)


def _path_segment(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def qualified_name(text: str) -> list[str]:
    """What is wrong with a label key, taint key or finalizer."""
    return _qualified(text, "a qualified name")


def label_key(text: str) -> list[str]:
    """The same for a key in a selector."""
    return _qualified(text, "a valid label key")


def _qualified(text: str, what: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = _RULES["qualified"][2]
        return [
            f"{what} {rule} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in _breaks("subdomain", prefix)]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {problem}" for problem in _breaks("qualified", name)]


def label_value(text: str) -> list[str]:
    """What is wrong with a label value."""
    return _breaks("value", text)


def invalid(path: str, value: Any, problems: Iterable[str]) -> Errors:
    """One "Invalid value" finding for each problem."""
    return [FieldError("invalid", path, problem, value) for problem in problems]


def labels(found: dict[str, str], path: str) -> Errors:
    """A map of labels."""
    errors: Errors = []
    for key, value in found.items():
        errors += invalid(path, key, qualified_name(key))
        errors += invalid(path, value, label_value(value))
    return errors


def metadata(obj: Object, rule: NameRule) -> Errors:
    """ObjectMeta of a new object."""
    meta = obj["metadata"]
    errors: Errors = []
    if not meta.get("name"):
        errors.append(FieldError("required", "metadata.name", "name or generateName is required"))
    else:
        if meta.get("generateName"):
            # A prefix may end as a name may not: it is judged as if one more letter followed.
            prefix = meta["generateName"]
            errors += invalid(
                "metadata.generateName",
                prefix,
                rule(prefix.rstrip("-") if prefix != "-" else prefix),
            )
        errors += invalid("metadata.name", meta["name"], rule(meta["name"]))
    return errors + _common(meta, obj.get("apiVersion", ""))


def marked(new: Object, old: Object) -> Errors:
    """An update does not mark an object as deleted."""
    time, before = (obj["metadata"].get("deletionTimestamp") for obj in (new, old))
    if time and time != before:
        return [FieldError("invalid", "metadata.deletionTimestamp", _IMMUTABLE, time)]
    return []


_STANDARD_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_PLAIN_FINALIZERS = (
    "coordination.k8s.io/v1",
)  # groups whose objects may have finalizers of one word


def _common(meta: Object, version: str) -> Errors:
    errors = labels(meta.get("labels") or {}, "metadata.labels")
    annotations = meta.get("annotations") or {}
    for key in annotations:
        errors += invalid("metadata.annotations", key, qualified_name(key.lower()))
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > MAX_ANNOTATIONS_BYTES
    ):
        detail = f"may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        errors.append(FieldError("toolong", "metadata.annotations", detail))
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        errors += invalid("metadata.finalizers", finalizer, qualified_name(finalizer))
        if (
            "/" not in finalizer
            and finalizer not in _STANDARD_FINALIZERS
            and version not in _PLAIN_FINALIZERS
        ):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(FieldError("invalid", f"metadata.finalizers[{index}]", detail, finalizer))
    return errors + _owners(meta.get("ownerReferences") or [])


def _owners(owners: list[Object]) -> Errors:
    errors: Errors = []
    for owner in owners:
        for key, word in (("apiVersion", "version "), ("kind", ""), ("name", ""), ("uid", "")):
            if not owner.get(key):
                detail = f"{word}must not be empty"
                errors.append(FieldError("invalid", f"metadata.ownerReferences.{key}", detail, ""))
    first, *more = [owner for owner in owners if owner.get("controller")] or [{}]
    for other in more:
        both = " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in (first, other))
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{both}"
        )
        shown = [{key: owner[key] for key in _OWNER_ORDER if key in owner} for owner in owners]
        errors.append(FieldError("invalid", "metadata.ownerReferences", detail, shown))
    return errors


_OWNER_ORDER = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def metadata_update(new: Object, old: Object) -> Errors:
    """What an update may not do to ObjectMeta."""
    meta = new["metadata"]
    before = old["metadata"]
    errors = _common(meta, new.get("apiVersion", ""))
    for key in ("name", "namespace", "uid", "creationTimestamp"):
        if meta.get(key) != before.get(key):
            errors.append(FieldError("invalid", f"metadata.{key}", _IMMUTABLE, meta.get(key, "")))
    if before.get("deletionTimestamp"):
        added = sorted(set(meta.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            detail = (
                "no new finalizers can be added if the object is being deleted, found new "
                "finalizers "
            )
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            errors.append(
                FieldError("forbidden", "metadata.finalizers", f"{detail}[]string{{{listed}}}")
            )
    return errors


def immutable(new: Object, old: Object, *paths: str) -> Errors:
    """Fields that may not change once set."""
    errors: Errors = []
    for path in paths:
        value = dig(new, path)
        before = dig(old, path)
        if before is not None and value != before:
            errors.append(FieldError("invalid", path, _IMMUTABLE, value))
    return errors


def dig(obj: Any, path: str) -> Any:
    """The value at a dotted path of plain fields, None if absent."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(selector: Object, path: str) -> Errors:
    """A metav1.LabelSelector."""
    errors = labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, clause in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator = clause.get("operator", "")
        if operator not in _SELECTOR_OPERATORS:
            errors.append(
                FieldError("invalid", f"{here}.operator", "not a valid selector operator", operator)
            )
        elif operator in ("In", "NotIn") and not clause.get("values"):
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(FieldError("required", f"{here}.values", detail))
    return errors


def nonnegative(obj: Object, path: str, *keys: str) -> Errors:
    """Integers that may not be negative, where given."""
    detail = "must be greater than or equal to 0"
    return [
        FieldError("invalid", f"{path}.{key}", detail, obj[key])
        for key in keys
        if isinstance(obj.get(key), int) and obj[key] < 0
    ]


def one_of(obj: Object, path: str, key: str, values: tuple[str, ...]) -> Errors:
    """An enumerated text field."""
    value = obj.get(key) or ""
    if value in values or not value:
        return []
    return [FieldError("unsupported", f"{path}.{key}".lstrip("."), supported(values), value)]


def address(text: str, path: str) -> Errors:
    """An IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [FieldError("invalid", path, detail, text)]
    return []
