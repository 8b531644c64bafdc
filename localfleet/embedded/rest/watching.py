"""WATCH: a stream of changes from a resourceVersion on, with bookmarks, selectors and a clean end."""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show.forms import TABLE, Shape
from localfleet.embedded.apiserver.status import ApiError, Object, expired
from localfleet.embedded.apiserver.store import (
    ADDED,
    DELETED,
    MODIFIED,
    Event,
    Record,
    Subscription,
)
from localfleet.embedded.apiserver.validate.selectors import Matcher
from localfleet.embedded.rest.listing import Query, check_watch, parse_version

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BOOKMARK_S = 30.0
_LOOK_S = 5.0  # how often an idle stream looks whether its client is still there
_MAX_BACKLOG = 50_000  # events; a client that far behind is cut off and lists again
_LONGEST_S = (1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch as it was asked for."""

    row: Resource
    namespace: str
    query: Query
    shape: Shape
    bookmarks: bool = False
    initial: str = ""  # sendInitialEvents: "", "true" or "false"
    timeout_s: float = 0.0
    matches: Matcher = field(default=lambda obj: True)


class Watches:
    """All open watch streams of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: set[Subscription] = set()

    def close(self) -> None:
        """End every stream; clients come back by themselves."""
        for subscription in tuple(self._open):
            subscription.close()

    async def serve(self, request: web.Request, watch: Watch) -> web.StreamResponse:
        """Answer one watch until its time is over, its client leaves, or the server stops."""
        check_watch(watch.query, watch.initial)
        subscription = self._api.watch(watch.row.key)
        try:
            # No await between following and reading the state: nothing is missed, nothing comes
            # twice.
            first = self._first(watch)
            response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
            response.content_type = "application/json"
            await self._api.storage.durable()
            await response.prepare(request)
            self._open.add(subscription)
            await response.write(first)
            if not first.startswith(b'{"type":"ERROR"'):
                await self._follow(request, response, watch, subscription)
            await response.write_eof()
        except (ConnectionResetError, ConnectionAbortedError):
            pass  # the client has gone
        finally:
            subscription.close()
            self._open.discard(subscription)
        return response

    def _first(self, watch: Watch) -> bytes:
        """What comes before new events: the state, the missed changes, or the error that ends the
        watch.
        """
        shelf = self._api.objects.shelves[watch.row.stored_as or watch.row.key]
        asked = parse_version(watch.query.version)
        current = self._api.objects.version
        if watch.initial == "true" or (not watch.initial and not asked):
            records = self._api.select(
                watch.row, watch.namespace, watch.query.labels, watch.query.fields
            )
            lines = [watch.shape.event(ADDED, record) for record in records]
            if watch.initial == "true" and watch.bookmarks:
                lines.append(bookmark(watch, current, {INITIAL_EVENTS_END: "true"}))
            return b"".join(lines)
        since = asked if asked else current
        if since < shelf.oldest:
            return error_event(expired(f"too old resource version: {since} ({shelf.oldest})"))
        return frames(watch, shelf.since(since))

    async def _follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        watch: Watch,
        subscription: Subscription,
    ) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + (watch.timeout_s or random.uniform(*_LONGEST_S))
        next_bookmark = clock() + _BOOKMARK_S
        while not subscription.closed and clock() < end and request.transport is not None:
            waiting = min(
                end - clock(),
                _LOOK_S,
                max(next_bookmark - clock(), 0.0) if watch.bookmarks else _LOOK_S,
            )
            await subscription.wait(max(waiting, 0.001))
            if len(subscription) > _MAX_BACKLOG:
                return
            events = subscription.drain()
            version = self._api.objects.version
            if events:
                await self._api.storage.durable()
                if text := frames(watch, events):
                    await response.write(text)
            if (
                watch.bookmarks
                and (clock() >= next_bookmark or clock() >= end)
                and not len(subscription)
            ):
                next_bookmark = clock() + _BOOKMARK_S
                await self._api.storage.durable()
                await response.write(bookmark(watch, version))


def frames(watch: Watch, events: Iterable[Event]) -> bytes:
    """The lines of `events` as this client sees them."""
    lines = []
    for event in events:
        seen = _seen(watch, event)
        if seen is not None:
            lines.append(watch.shape.event(*seen))
    return b"".join(lines)


def _seen(watch: Watch, event: Event) -> tuple[str, Record] | None:
    """An object that begins to match is ADDED, one that ceases to match DELETED, in its last
    matching state.
    """
    if watch.namespace and event.object["metadata"].get("namespace") != watch.namespace:
        return None
    before = event.old is not None and watch.matches(event.old)
    after = event.type != DELETED and watch.matches(event.object)
    if after:
        return (MODIFIED if before else ADDED), event.record
    if not before or event.old is None:
        return None
    if event.type == DELETED:
        return DELETED, event.record
    left = event.old | {
        "metadata": event.old["metadata"] | {"resourceVersion": str(event.resource_version)}
    }
    return DELETED, Record(left, event.resource_version)


def bookmark(watch: Watch, version: int, annotations: dict[str, str] | None = None) -> bytes:
    """A line that says: everything up to `version` has been sent."""
    meta: Object = {"resourceVersion": str(version)} | (
        {"annotations": annotations} if annotations else {}
    )
    obj: Object = {"kind": watch.row.kind, "apiVersion": watch.row.api_version, "metadata": meta}
    if watch.shape.form == TABLE:
        rows = [{"cells": [], "object": obj}]
        obj = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": None,
            "rows": rows,
        }
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def error_event(error: ApiError) -> bytes:
    """A line that ends a watch."""
    return msgspec.json.encode({"type": "ERROR", "object": error.status}) + b"\n"
