"""CREATE, UPDATE, PATCH, DELETE and the pod's own verbs: parameters read, the API called, the
answer encoded.
"""

from typing import Any

import msgspec
from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver import metadata
from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.apiserver.metadata import UNREADABLE
from localfleet.embedded.apiserver.patch import live_pod
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show import forms, protobuf, scale
from localfleet.embedded.apiserver.show.forms import Shape
from localfleet.embedded.apiserver.status import (
    ApiError,
    FieldError,
    Object,
    bad_option,
    bad_request,
    invalid,
    no_such_path,
    plain,
    success,
    supported,
)
from localfleet.embedded.apiserver.store import Record
from localfleet.embedded.apiserver.write import Write
from localfleet.embedded.rest.answers import answer, body, raw, repeated
from localfleet.embedded.rest.target import Target

PATCH_KINDS = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+json": "apply",
}
_PATCH_ERRORS = dict.fromkeys(("merge", "json", "strategic"), "invalid JSON patch") | {"apply": ""}
_ON_OBJECTS = ("status", "scale", "finalize", *live_pod.PARTS)


_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER = 128
_MEDIA_TYPES = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)


def options(request: web.Request, kind: str, *, applies: bool = False) -> Write:
    """The parameters of a write; ApiError 422 about `kind`, such as CreateOptions, for values that
    mean nothing.
    """
    query = request.query
    dry_run, validation, manager = (
        query.get(key, "") for key in ("dryRun", "fieldValidation", "fieldManager")
    )
    errors = []
    if applies and not manager:
        errors.append(FieldError("required", "fieldManager", "is required for apply patch"))
    if "force" in query and not applies:
        errors.append(FieldError("forbidden", "force", "may not be specified for non-apply patch"))
    if dry_run not in ("", "All"):
        errors.append(FieldError("unsupported", "dryRun", supported(("All",)), [dry_run[:40]]))
    if len(manager.encode()) > _LONGEST_MANAGER:
        errors.append(
            FieldError("toolong", "fieldManager", f"may not be more than {_LONGEST_MANAGER} bytes")
        )
    if validation not in _VALIDATIONS:
        errors.append(
            FieldError("unsupported", "fieldValidation", supported(_VALIDATIONS), validation[:40])
        )
    if errors:
        raise bad_option(kind, *errors)
    named = manager or request.headers.get("User-Agent", "unknown").partition("/")[0]
    return Write(
        dry_run=dry_run == "All",
        strict=validation == "Strict",
        manager=named,
        force=query.get("force") in ("true", "1"),
        tracked=bool(manager),
    )


def check_media_type(request: web.Request) -> None:
    """415 for a body in a language that is not spoken here."""
    if "Content-Type" in request.headers and request.content_type not in _MEDIA_TYPES:
        listed = ", ".join(_MEDIA_TYPES)
        message = (
            "the body of the request was in an unknown format - accepted media types include: "
            f"{listed}"
        )
        raise ApiError(415, "UnsupportedMediaType", message)


async def _new(request: web.Request, row: Resource, *, strict: bool) -> Any:
    """The body of a create or an update."""
    check_media_type(request)
    unrecognized = f"the object provided is unrecognized (must be of type {row.kind}): {UNREADABLE}"
    sent = await body(request, unrecognized)
    if strict and (twice := await repeated(request)):
        listed = ", ".join(f'duplicate field "{path}"' for path in twice)
        how = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}'
        raise bad_request(f"{how}: strict decoding error: {listed}")
    return sent


async def create(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """POST on a collection."""
    asked = options(request, "CreateOptions")
    sent = await _new(request, row, strict=asked.strict)
    if row.namespaced and not target.namespace:
        raise plain(405)
    made = api.create(row.key, sent, target.namespace, options=asked)
    return await encoded(request, api, row, made, 201)


async def update(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """PUT on an object, or on one of its parts."""
    asked = options(request, "UpdateOptions")
    sent = _object(await _new(request, row, strict=asked.strict), row)
    meta = sent.setdefault("metadata", {})
    name = meta.setdefault("name", target.name)
    namespace = meta.get("namespace") or target.namespace
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if namespace != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        meta["namespace"] = target.namespace
    if (
        _record(api, row, target.namespace, name) is None
        and row.made_by_put
        and not target.subresource
    ):
        made = api.create(row.key, sent, target.namespace, options=asked)
        return await encoded(request, api, row, made, 201)
    if not row.unconditional and not meta.get("resourceVersion"):
        missing = FieldError(
            "invalid", "metadata.resourceVersion", "must be specified for an update", 0
        )
        raise invalid(row.plural, row.group, name, [missing])
    new = api.update(row.key, sent, subresource=target.subresource, options=asked)
    return await encoded(request, api, row, new, 200)


async def patch(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """PATCH on an object, or on one of its parts."""
    kind = PATCH_KINDS.get(request.content_type)
    if kind is None:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    asked = options(request, "PatchOptions", applies=kind == "apply")
    sent = await body(request, _PATCH_ERRORS[kind])
    existed = _record(api, row, target.namespace, target.name) is not None
    where = (row.key, target.name, target.namespace)
    new = api.patch(*where, sent, kind=kind, subresource=target.subresource, options=asked)
    return await encoded(request, api, row, new, 200 if existed else 201)


def _object(sent: Any, row: Resource) -> Object:
    if not isinstance(sent, dict) or not isinstance(sent.get("metadata", {}), dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {row.kind})")
    return sent


async def delete(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """DELETE of one object, or of all that selectors find."""
    asked = _delete_options(request, await body(request))
    if target.name:
        left = api.delete(row.key, target.name, target.namespace, asked)
        await api.storage.durable()
        still_there = (
            _record(api, row, target.namespace, target.name) is not None and not asked.dry_run
        )
        if still_there or row.graceful or row.key == "namespaces":
            return await encoded(request, api, row, left, 200)
        meta = left["metadata"]
        details = {"name": meta["name"]} | ({"group": row.group} if row.group else {})
        return answer(success(details | {"kind": row.plural, "uid": meta["uid"]}))
    if row.key == "namespaces":
        raise plain(405)
    query = request.query
    records = api.select(
        row, target.namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
    )
    for record in records:
        meta = record.object["metadata"]
        if _record(api, row, meta.get("namespace", ""), meta["name"]) is not None:
            api.delete(row.key, meta["name"], meta.get("namespace", ""), asked)
    await api.storage.durable()
    shape = Shape(row, forms.WHOLE, "", api.objects.now)
    return raw(shape.many(records, {"resourceVersion": str(api.objects.version)}))


_POLICIES = ("Foreground", "Background", "Orphan", "nil")


def _delete_options(request: web.Request, sent: Any) -> Options:
    found = _sent_options(sent)
    conditions = found.get("preconditions") or {}
    query = request.query
    grace = found.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = str(found.get("propagationPolicy") or query.get("propagationPolicy") or "")
    dry_run: list[str] = [*(found.get("dryRun") or query.getall("dryRun", []) or ())]
    if propagation not in ("", *_POLICIES[:3]):
        raise bad_option(
            "DeleteOptions",
            FieldError("unsupported", "propagationPolicy", supported(_POLICIES), propagation[:40]),
        )
    if propagation and "orphanDependents" in found:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        raise bad_option(
            "DeleteOptions", FieldError("invalid", "propagationPolicy", detail, propagation)
        )
    if set(dry_run) - {"All"}:
        raise bad_option(
            "DeleteOptions", FieldError("unsupported", "dryRun", supported(("All",)), dry_run)
        )
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(
            f'strconv.ParseInt: parsing "{str(grace)[:40]}": invalid syntax'
        ) from None
    versions = (conditions.get("uid") or "", conditions.get("resourceVersion") or "")
    return Options(*versions, grace_seconds, propagation, bool(dry_run))


def _sent_options(sent: Any) -> Object:
    if sent is None:
        return {}
    if not isinstance(sent, dict):
        raise bad_request(f"{UNREADABLE}json: cannot unmarshal it into Go value of type struct")
    if sent.get("kind", "DeleteOptions") != "DeleteOptions":
        version = sent.get("apiVersion", "")
        why = (
            f'no kind "{sent["kind"]}" is registered for version "{version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
        raise bad_request(why)
    return metadata.read_sent("meta.v1.DeleteOptions", sent)


async def posted_verb(request: web.Request, api: Api, target: Target) -> web.Response:
    """POST on pods/binding, pods/eviction or serviceaccounts/token."""
    verbs = {"binding": api.bind, "eviction": api.evict, "token": api.request_token}
    verb = verbs.get(target.subresource)
    if verb is None:
        raise no_such_path()
    sent = await body(request)
    done = verb(
        target.namespace, target.name, sent, dry_run=options(request, "CreateOptions").dry_run
    )
    await api.storage.durable()
    return answer(done, 201)


def _record(api: Api, row: Resource, namespace: str, name: str) -> Record | None:
    return api.objects.get(row.stored_as or row.key, (namespace if row.namespaced else "", name))


async def encoded(
    request: web.Request, api: Api, row: Resource, obj: Object, status: int
) -> web.Response:
    """`obj` in the form the client wants, once what was written is on disk."""
    form = form_of(request)
    meta = obj["metadata"]
    record = _record(api, row, meta.get("namespace", ""), meta.get("name", ""))
    await api.storage.durable()
    if form == forms.WHOLE:
        if record is not None and record.object is obj:
            return raw(record.body(), status)
        return raw(msgspec.json.encode(obj), status)
    shape = Shape(row, form, request.query.get("includeObject", ""), api.objects.now)
    return raw(shape.one(Record(obj, 0)), status)


def form_of(request: web.Request, *, of_list: bool = False) -> str:
    """The form the client accepts; ApiError 406, or 400 for rows that shall carry what there is
    not.
    """
    form = forms.wanted(request.headers.get("Accept", ""), of_list=of_list)
    include = request.query.get("includeObject", "")
    if form == forms.TABLE and include not in ("", "None", "Metadata", "Object"):
        why = (
            f"includeObject: Invalid value: \"{include[:40]}\": must be 'Metadata', 'Object', "
            "'None', or empty"
        )
        raise bad_request(f"Unable to convert to Table as requested: {why}")
    if form is None:
        raise plain(406)
    return form


def read_part(row: Resource, obj: Object, subresource: str) -> Object:
    """What GET on a subresource shows."""
    if subresource not in row.subresources or subresource not in _ON_OBJECTS:
        raise no_such_path()
    return scale.of(obj) if subresource == "scale" else obj
