"""CREATE, UPDATE, PATCH, DELETE and the pod's own verbs: parameters read, the API called, the answer encoded."""

from typing import Any

import msgspec
from aiohttp import web

from agents.embedded.api import Api, Write
from agents.embedded.apiserver import forms, metadata, scale
from agents.embedded.apiserver.deletion import Options
from agents.embedded.apiserver.forms import Shape
from agents.embedded.apiserver.resources import Resource
from agents.embedded.apiserver.status import (
    ApiError,
    FieldError,
    Object,
    bad_request,
    invalid,
    no_such_path,
    plain,
    success,
)
from agents.embedded.apiserver.store import Record
from agents.embedded.rest.answers import answer, body, raw
from agents.embedded.rest.target import Target

PATCH_KINDS = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+json": "apply",
}
_ON_OBJECTS = ("status", "scale", "finalize")


def options(request: web.Request) -> Write:
    """The parameters of a write; ApiError 400 for a dryRun that is not All."""
    query = request.query
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise bad_request(f'Invalid value: "{dry_run[:40]}": dryRun must be "All"')
    return Write(
        dry_run=dry_run == "All",
        strict=query.get("fieldValidation") == "Strict",
        manager=query.get("fieldManager", ""),
        force=query.get("force") in ("true", "1"),
    )


async def create(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """POST on a collection."""
    asked = options(request)
    sent = await body(request)
    if row.namespaced and not target.namespace:
        raise plain(405)
    made = api.create(row.key, sent, target.namespace, dry_run=asked.dry_run, strict=asked.strict)
    return await encoded(request, api, row, made, 201)


async def update(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """PUT on an object, or on one of its parts."""
    asked = options(request)
    sent = _object(await body(request), row)
    meta = sent.setdefault("metadata", {})
    name, namespace = meta.setdefault("name", target.name), meta.get("namespace") or target.namespace
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if namespace != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if target.namespace:
        meta["namespace"] = target.namespace
    if _record(api, row, target.namespace, name) is None and row.made_by_put and not target.subresource:
        made = api.create(row.key, sent, target.namespace, dry_run=asked.dry_run, strict=asked.strict)
        return await encoded(request, api, row, made, 201)
    if not row.unconditional and not meta.get("resourceVersion"):
        missing = FieldError("invalid", "metadata.resourceVersion", "must be specified for an update", 0)
        raise invalid(row.plural, row.group, name, [missing])
    new = api.update(row.key, sent, subresource=target.subresource, options=asked)
    return await encoded(request, api, row, new, 200)


async def patch(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """PATCH on an object, or on one of its parts."""
    kind = PATCH_KINDS.get(request.content_type)
    if kind is None:
        listed = ", ".join(PATCH_KINDS)
        message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
        raise ApiError(415, "UnsupportedMediaType", message)
    asked = options(request)
    if kind == "apply" and not asked.manager:
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    sent = await body(request)
    before = api.objects.version
    existed = _record(api, row, target.namespace, target.name) is not None
    where = (row.key, target.name, target.namespace)
    new = api.patch(*where, sent, kind=kind, subresource=target.subresource, options=asked)
    created = not existed and api.objects.version > before
    return await encoded(request, api, row, new, 201 if created else 200)


def _object(sent: Any, row: Resource) -> Object:
    if not isinstance(sent, dict) or not isinstance(sent.get("metadata", {}), dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {row.kind})")
    return sent


async def delete(request: web.Request, api: Api, target: Target, row: Resource) -> web.Response:
    """DELETE of one object, or of all that selectors find."""
    asked = _delete_options(request, await body(request))
    if target.name:
        left = api.remove(row.key, target.name, target.namespace, asked)
        await api.storage.durable()
        if _record(api, row, target.namespace, target.name) is not None or row.graceful:
            return await encoded(request, api, row, left, 200)
        meta = left["metadata"]
        details = {"name": meta["name"]} | ({"group": row.group} if row.group else {})
        return answer(success(details | {"kind": row.plural, "uid": meta["uid"]}))
    query = request.query
    records = api.select(row, target.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    for record in records:
        meta = record.object["metadata"]
        if _record(api, row, meta.get("namespace", ""), meta["name"]) is not None:
            api.remove(row.key, meta["name"], meta.get("namespace", ""), asked)
    await api.storage.durable()
    shape = Shape(row, forms.WHOLE, "", api.objects.now)
    return raw(shape.many(records, {"resourceVersion": str(api.objects.version)}))


def _delete_options(request: web.Request, sent: Any) -> Options:
    found = metadata.read_sent("meta.v1.DeleteOptions", sent) if sent is not None else {}
    conditions = found.get("preconditions") or {}
    query = request.query
    grace = found.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = found.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if propagation not in ("", "Orphan", "Background", "Foreground"):
        raise bad_request(f'invalid propagationPolicy "{str(propagation)[:40]}": use Orphan, Background or Foreground')
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds {str(grace)[:40]!r} is not a number") from None
    dry_run = "All" in (found.get("dryRun") or ()) or query.get("dryRun") == "All"
    versions = (conditions.get("uid") or "", conditions.get("resourceVersion") or "")
    return Options(*versions, grace_seconds, propagation, dry_run)


async def pod_verb(request: web.Request, api: Api, target: Target) -> web.Response:
    """POST on pods/binding or pods/eviction."""
    sent = await body(request)
    verb = {"binding": api.bind, "eviction": api.evict}.get(target.subresource)
    if verb is None:
        raise no_such_path()
    done = verb(target.namespace, target.name, sent, dry_run=options(request).dry_run)
    await api.storage.durable()
    return answer(done, 201)


def _record(api: Api, row: Resource, namespace: str, name: str) -> Record | None:
    return api.objects.get(row.stored_as or row.key, (namespace if row.namespaced else "", name))


async def encoded(request: web.Request, api: Api, row: Resource, obj: Object, status: int) -> web.Response:
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


def form_of(request: web.Request) -> str:
    """The form the client accepts; ApiError 406."""
    form = forms.wanted(request.headers.get("Accept", ""))
    if form is None:
        raise plain(406)
    return form


def read_part(row: Resource, obj: Object, subresource: str) -> Object:
    """What GET on a subresource shows."""
    if subresource not in row.subresources or subresource not in _ON_OBJECTS:
        raise no_such_path()
    return scale.of(obj) if subresource == "scale" else obj
