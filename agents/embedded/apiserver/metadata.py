"""What the server itself writes into ObjectMeta, at creation and at each update."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from agents.embedded.apiserver.resources import Resource
from agents.embedded.apiserver.schema import DecodeError, object_type
from agents.embedded.apiserver.status import Object, bad_request

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no words; as apimachinery's rand
_LONGEST_BASE = 58
_SYSTEM_FIELDS = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation")


def timestamp(now: float) -> str:
    """Unix seconds as metav1.Time writes them."""
    return dt.datetime.fromtimestamp(int(now), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: float) -> str:
    """Unix seconds as metav1.MicroTime writes them."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: str) -> float:
    """A metav1.Time or MicroTime as unix seconds."""
    return dt.datetime.fromisoformat(text).timestamp()


def read(row: Resource, obj: Any, strict: bool = False) -> Object:
    """A clean copy of what a client sent, without unknown fields.

    ApiError 400 when it is of another kind, a field has the wrong type, or `strict` and there are unknown fields.
    """
    if not isinstance(obj, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {row.kind})")
    version, kind = obj.get("apiVersion", row.api_version), obj.get("kind", row.kind)
    if kind != row.kind:
        raise bad_request(f"{kind} in version {str(version).rpartition('/')[2]!r} cannot be handled as a {row.kind}")
    if version != row.api_version:
        why = "does not match the expected API version"
        raise bad_request(f"the API version in the data ({version}) {why} ({row.api_version})")
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


def read_sent(type_name: str, sent: Any) -> Object:
    """A clean copy of a body that is no stored object, such as a Binding or DeleteOptions; ApiError 400."""
    kind = object_type(type_name)
    if not isinstance(sent, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.short})")
    try:
        return kind.read(sent, "", [])
    except DecodeError as error:
        raise bad_request(f"{kind.short} cannot be handled: {error}") from None


def place(row: Resource, obj: Object, namespace: str) -> str:
    """Settle the namespace of an object between what it says and what was asked; returns it."""
    meta = obj["metadata"]
    said = meta.pop("namespace", "")
    if not row.namespaced:
        if said:
            raise bad_request("namespace is not allowed on this type" if not namespace else _elsewhere())
        return ""
    chosen = namespace or said or "default"
    if said and said != chosen:
        raise bad_request(_elsewhere())
    meta["namespace"] = chosen
    return chosen


def _elsewhere() -> str:
    return "the namespace of the provided object does not match the namespace sent on the request"


def begin(row: Resource, obj: Object, *, now: float, uid: str, letter: Callable[[str], str]) -> None:
    """Fill in what a new object gets: name from generateName, uid, creationTimestamp, generation."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for key in _SYSTEM_FIELDS:
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:_LONGEST_BASE] + "".join(letter(_SUFFIX_LETTERS) for _ in range(5))
    meta["uid"] = uid
    meta["creationTimestamp"] = timestamp(now)
    if row.generation:
        meta["generation"] = 1
    if not meta.get("managedFields"):
        meta.pop("managedFields", None)


def carry_over(row: Resource, new: Object, old: Object, subresource: str) -> None:
    """Settle an update: what belongs to the server, or to another endpoint, stays as it was."""
    meta, before = new["metadata"], old["metadata"]
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
