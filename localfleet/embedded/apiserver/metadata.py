"""What the server itself writes into ObjectMeta, at creation and at each update."""

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

from localfleet.embedded.apiserver.patch import live_pod
from localfleet.embedded.apiserver.patch.apply import as_sent
from localfleet.embedded.apiserver.resources import RESOURCES, Resource
from localfleet.embedded.apiserver.schema import DecodeError, object_type
from localfleet.embedded.apiserver.status import (
    ApiError,
    FieldError,
    Object,
    bad_request,
    invalid,
    unexplained,
)

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no words; as apimachinery's rand
_LONGEST_BASE = 58
UNREADABLE = "couldn't get version/kind; json parse error: "
KINDS = frozenset(row.kind for row in RESOURCES.values())
_SYSTEM_FIELDS = (
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
)


def timestamp(now: float) -> str:
    """Unix seconds as metav1.Time writes them."""
    return dt.datetime.fromtimestamp(int(now), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """A metav1.Time or MicroTime as unix seconds."""
    return dt.datetime.fromisoformat(text).timestamp()


def read(row: Resource, obj: Any, strict: bool = False) -> Object:
    """A clean copy of what a client sent, without unknown fields.

    ApiError 400 when it is of another kind, a field has the wrong type, or `strict` and there are
    unknown fields.
    """
    if not isinstance(obj, dict):
        raise unrecognized(row.kind, obj)
    check_kind(obj, row.api_version, row.kind)
    unknown: list[str] = []
    how = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}'
    try:
        clean = row.type.read(obj, "", unknown)
    except DecodeError as error:
        raise bad_request(f"{how}: {error}") from None
    if strict and unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(f"{how}: strict decoding error: {listed}")
    meta = clean.pop("metadata", {})
    return {"apiVersion": row.api_version, "kind": row.kind, "metadata": meta} | clean


def unrecognized(kind: str, obj: Any) -> ApiError:
    """400 for a body that is no object."""
    why = (
        "unexpected end of JSON input (<empty>)"
        if obj is None
        else f"a JSON object is needed, not {_shown(obj)}"
    )
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {UNREADABLE}{why}"
    )


def _shown(obj: Any) -> str:
    return f"{type(obj).__name__} {str(obj)[:40]}"


def check_kind(obj: Object, version: str, kind: str) -> None:
    """Refuse (400) an object that says it is of another kind or version; one that says nothing is
    taken.
    """
    given_version = obj.get("apiVersion") or version
    given_kind = obj.get("kind") or kind
    for key, value in (("apiVersion", given_version), ("kind", given_kind)):
        if not isinstance(value, str):
            raise bad_request(
                f"{UNREADABLE}json: cannot unmarshal {_shown(value)} into Go struct field .{key} "
                "of type string"
            )
    if (given_version, given_kind) == (version, kind):
        return
    how = (
        f'{given_kind} in version "{str(given_version).rpartition("/")[2]}" cannot be handled as '
        f"a {kind}"
    )
    why = (
        f'no kind "{given_kind}" is registered for version "{given_version}" in scheme '
        '"pkg/runtime/scheme.go:111"'
    )
    if given_version == version and given_kind in KINDS:
        why = f"converting (v1.{given_kind}) to (core.{kind}): unknown conversion"
    raise bad_request(f"{how}: {why}")


def read_patched(row: Resource, patched: Object, strict: bool) -> Object:
    """The same of an object after a patch; ApiError 422 shows it."""
    try:
        return read(row, patched, strict)
    except ApiError as error:
        what = FieldError(
            "invalid", "patch", str(error), json.dumps(patched, separators=(",", ":"))
        )
        raise invalid("", "", "", [what]) from None


def read_applied(row: Resource, sent: Any, name: str) -> Object:
    """What a manager applies to `name`, without anything that it did not send; ApiError 400 or 500."""
    if not isinstance(sent, dict):
        raise bad_request("error decoding YAML: a mapping is needed")
    version = sent.get("apiVersion") or ""
    kind = sent.get("kind") or ""
    if (version, kind) != (row.api_version, row.kind):
        raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
    unknown: list[str] = []
    try:
        clean = row.type.read(sent, "", unknown)
    except DecodeError as error:
        raise bad_request(f"{row.kind} cannot be applied: {error}") from None
    applied: Object = as_sent(clean, sent)
    meta = applied.setdefault("metadata", {})
    where = f"({meta.get('namespace', '')}/{name}; {version}, Kind={kind})"
    if unknown:
        listed = f".{unknown[0]}: field not declared in schema"
        raise unexplained(f"failed to create typed patch object {where}: {listed}")
    if "managedFields" in (sent.get("metadata") or {}):
        raise bad_request("metadata.managedFields must be nil")
    meta.setdefault("name", name)
    check_place(applied, name, "")
    return applied


def check_place(obj: Object, name: str, namespace: str) -> None:
    """Refuse (400) an object whose name or namespace is not that of the path."""
    meta = obj.get("metadata") or {}
    if not meta.get("name"):
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if meta["name"] != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if namespace and meta.get("namespace", namespace) != namespace:
        raise bad_request(_elsewhere())


def read_sent(type_name: str, sent: Any) -> Object:
    """A clean copy of a body that is no stored object, such as a Binding or DeleteOptions; ApiError
    400.
    """
    kind = object_type(type_name)
    if not isinstance(sent, dict):
        raise unrecognized(kind.short, sent)
    if sent.get("kind", kind.short) != kind.short:
        check_kind(sent, str(sent.get("apiVersion", "v1")), kind.short)
    try:
        return kind.read(sent, "", [])
    except DecodeError as error:
        raise bad_request(f"{kind.short} cannot be handled: {error}") from None


def place(row: Resource, obj: Object, namespace: str) -> str:
    """Settle the namespace of an object between what it says and what was asked; returns it."""
    meta = obj["metadata"]
    given = meta.pop("namespace", "")
    if not row.namespaced:
        return ""
    chosen = namespace or given or "default"
    if given and given != chosen:
        raise bad_request(_elsewhere())
    meta["namespace"] = chosen
    return chosen


def _elsewhere() -> str:
    return "the namespace of the provided object does not match the namespace sent on the request"


def begin(
    row: Resource, obj: Object, *, now: float, uid: str, letter: Callable[[str], str]
) -> None:
    """Fill in what a new object gets: name from generateName, uid, creationTimestamp, generation."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise unexplained("resourceVersion should not be set on objects to be created")
    for key in _SYSTEM_FIELDS:
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:_LONGEST_BASE] + "".join(
            letter(_SUFFIX_LETTERS) for _ in range(5)
        )
    meta["uid"] = uid
    meta["creationTimestamp"] = timestamp(now)
    if row.generation:
        meta["generation"] = 1
    if not meta.get("managedFields"):
        meta.pop("managedFields", None)


def carry_over(row: Resource, new: Object, old: Object, subresource: str) -> None:
    """Settle an update: what belongs to the server, or to another endpoint, stays as it was."""
    meta = new["metadata"]
    before = old["metadata"]
    meta.setdefault("uid", before["uid"])
    for key in (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ):
        meta.pop(key, None)
        if key in before:
            meta[key] = before[key]
    if row.namespaced:
        meta.setdefault("namespace", before["namespace"])
    if subresource in ("status", "finalize"):
        _only(new, old, "status" if subresource == "status" else "spec")
        if row.key == "pods":  # never taken away
            new["status"].setdefault("qosClass", (old.get("status") or {}).get("qosClass", ""))
    elif subresource in live_pod.PARTS:
        live_pod.keep(new, old, subresource)
    elif "status" in row.subresources:
        _restore(new, old, "status")
    if row.generation and new.get("spec") != old.get("spec"):
        meta["generation"] = before.get("generation", 0) + 1


def _only(new: Object, old: Object, part: str) -> None:
    for key in {*new, *old} - {part, "metadata"}:
        _restore(new, old, key)
    if "ownerReferences" in old["metadata"]:
        new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    else:
        new["metadata"].pop("ownerReferences", None)


def _restore(new: Object, old: Object, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)
