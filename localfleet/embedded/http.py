"""The HTTP front of one embedded API server, as an aiohttp application. TLS and sockets belong to
the caller.
"""

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Middleware

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show import discovery
from localfleet.embedded.apiserver.show.forms import Shape
from localfleet.embedded.apiserver.status import (
    ApiError,
    FieldError,
    bad_option,
    bad_request,
    no_such_path,
    plain,
)
from localfleet.embedded.rest import logs, streams, users, writing
from localfleet.embedded.rest.answers import answer, body, raw, refusal
from localfleet.embedded.rest.listing import Lists, Query
from localfleet.embedded.rest.metrics import KINDS, metrics
from localfleet.embedded.rest.reviews import REVIEWS
from localfleet.embedded.rest.target import Target, parse
from localfleet.embedded.rest.watching import Watch, Watches

MAX_BODY_BYTES = 3 * 1024 * 1024
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez", "/version"})
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_POSTED = ("binding", "eviction", "token")
_NO_INITIAL_EVENTS = FieldError(
    "forbidden", "sendInitialEvents", "sendInitialEvents is forbidden for list"
)
_log = logging.getLogger(__name__)


def make_app(
    api: Api, token: str, reader: str = "", *, middlewares: Iterable[Middleware] = ()
) -> web.Application:
    """The application. `token` is the bearer token of the admin, `reader` that of who may only look
    ('': nobody); `middlewares` come first (tests put faults there).
    """
    front = _Front(api)
    tokens = {token: users.ADMIN, **({reader: users.READER} if reader else {})}
    app = web.Application(
        client_max_size=MAX_BODY_BYTES,
        middlewares=[*middlewares, _refusals(), _authentication(tokens)],
    )
    for path in ("/healthz", "/readyz", "/livez"):
        app.router.add_get(path, _healthy)
        app.router.add_get(path + "/{check}", _healthy)
    app.router.add_get("/version", _version)
    app.router.add_get("/openapi/v2", _openapi_v2)
    app.router.add_get("/openapi/v3", _openapi_index)
    app.router.add_get("/openapi/v3/{path:.+}", _openapi)
    for root in ("/api", "/apis"):
        app.router.add_get(root, _discovery)
        app.router.add_get(root + "/", _discovery)
    app.router.add_route("*", "/{path:.*}", front.handle)

    async def close(_: web.Application) -> None:
        front.watches.close()

    app.on_shutdown.append(close)
    return app


def _refusals() -> Middleware:
    @web.middleware
    async def refuse(request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return refusal(plain(413))
        except RecursionError:
            return refusal(bad_request("the object is nested too deeply"))
        except web.HTTPException:
            raise
        except sqlite3.Error as error:
            _log.exception("storage refused a write")
            return refusal(
                ApiError(500, "InternalError", f"Internal error occurred: storage: {error}")
            )
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            return refusal(ApiError(500, "InternalError", f"Internal error occurred: {error!r}"))

    return refuse


def _authentication(tokens: dict[str, users.User]) -> Middleware:
    @web.middleware
    async def authenticate(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.path not in OPEN_PATHS:
            sent = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            user = users.known_by(sent, tokens)
            if user is None:
                return refusal(plain(401))
            request[users.USER] = user
        return await handler(request)

    return authenticate


async def _healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _version(request: web.Request) -> web.Response:
    return answer(discovery.VERSION)


_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def _discovery(request: web.Request) -> web.Response:
    core = request.path.rstrip("/") == "/api"
    accept = request.headers.get("Accept", "").replace(" ", "")
    if "as=APIGroupDiscoveryList" in accept and "v=v2;" in accept + ";":
        response = answer(discovery.aggregated(core=core))
        response.headers["Content-Type"] = _AGGREGATED
        return response
    return answer(discovery.api_versions() if core else discovery.group_list())


# An OpenAPI v2 document without definitions, as protobuf: kubectl asks for it before it sends a
# List, finds no definition to check against, and leaves validation to the server.
_OPENAPI_V2 = b"\n\x032.0"
_OPENAPI_V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


async def _openapi_v2(request: web.Request) -> web.Response:
    if "protobuf" in request.headers.get("Accept", ""):
        return web.Response(body=_OPENAPI_V2, headers={"Content-Type": _OPENAPI_V2_MEDIA_TYPE})
    info = {"title": "Kubernetes", "version": discovery.VERSION["gitVersion"]}
    return answer({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})


async def _openapi_index(request: web.Request) -> web.Response:
    return answer(discovery.openapi_index())


async def _openapi(request: web.Request) -> web.Response:
    group, version = _group_version(request.match_info["path"])
    document = discovery.openapi(group, version)
    if document is None:
        raise no_such_path()
    return answer(document)


def _group_version(path: str) -> tuple[str, str]:
    parts = path.strip("/").split("/")
    if len(parts) == 2 and parts[0] == "api":
        return "", parts[1]
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "apis" else ("", "")


class _Front:
    """Everything below /api/ and /apis/."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.lists = Lists(api)
        self.watches = Watches(api)
        # (method, a name is given, a subresource is given)
        self._verbs: dict[tuple[str, bool, bool], Callable[..., Awaitable[web.StreamResponse]]] = {
            ("GET", False, False): self._collection,
            ("GET", True, False): self._get,
            ("GET", True, True): self._part,
            ("POST", False, False): self._create,
            ("POST", True, True): self._posted_verb,
            ("PUT", True, False): self._update,
            ("PUT", True, True): self._update,
            ("PATCH", True, False): self._patch,
            ("PATCH", True, True): self._patch,
            ("DELETE", True, False): self._delete,
            ("DELETE", False, False): self._delete,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        target = parse(request.path)
        if target is None:
            return self._group(request)
        users.check(request, target)
        if target.plural == "bindings" and not target.group:
            return await self._old_binding(request, target)
        if target.row is None:
            return await self._virtual(request, target)
        verb = self._verbs.get((request.method, bool(target.name), bool(target.subresource)))
        if verb is None or (target.namespace and not target.row.namespaced):
            raise plain(405) if verb is None else no_such_path()
        if target.row.namespaced and target.name and not target.namespace:
            raise no_such_path()
        if target.subresource and target.subresource not in target.row.subresources:
            raise no_such_path()
        if target.subresource in _POSTED and request.method != "POST":
            raise plain(405)
        if target.subresource in streams.KUBELET_VERBS:
            return await streams.serve(
                request, self.api, target.namespace, target.name, target.subresource
            )
        return await verb(request, target, target.row)

    async def _old_binding(self, request: web.Request, target: Target) -> web.StreamResponse:
        """POST /api/v1/namespaces/NAMESPACE/bindings, the older way to bind."""
        if request.method != "POST" or target.name or not target.namespace:
            raise plain(405)
        sent = await body(request)
        name = (sent.get("metadata") or {}).get("name", "") if isinstance(sent, dict) else ""
        pod = target._replace(plural="pods", name=str(name), subresource="binding")
        return await writing.posted_verb(request, self.api, pod)

    def _group(self, request: web.Request) -> web.Response:
        parts = [part for part in request.path.split("/") if part]
        if request.method == "GET" and len(parts) == 2 and parts[0] == "apis":
            for name, version in discovery.GROUPS:
                if name == parts[1]:
                    return answer(
                        {"kind": "APIGroup", "apiVersion": "v1"} | discovery.group(name, version)
                    )
        listed = (
            discovery.legacy(*_group_version(request.path)) if request.method == "GET" else None
        )
        return answer(listed) if listed is not None else _nowhere()

    async def _virtual(self, request: web.Request, target: Target) -> web.Response:
        """Resources that are answered and not stored."""
        if target.group == "metrics.k8s.io" and request.method == "GET" and target.plural in KINDS:
            labels = request.query.get("labelSelector", "")
            fields = request.query.get("fieldSelector", "")
            return answer(
                metrics(self.api, target.plural, target.namespace, target.name, labels, fields)
            )
        review = REVIEWS.get(target.plural)
        if review is None or not target.group.startswith("auth"):
            if target.group and (target.group, target.version) not in discovery.GROUPS:
                return _nowhere()
            raise no_such_path()
        if request.method != "POST":
            raise plain(405)
        sent = await body(request)
        return answer(review(sent if isinstance(sent, dict) else {}, request[users.USER]), 201)

    async def _collection(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        query = request.query
        asked = Query(
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            _number(query.get("limit")),
            query.get("continue", ""),
        )
        watching = query.get("watch", "false").lower() not in ("false", "0")
        shape = Shape(
            row,
            writing.form_of(request, of_list=not watching),
            query.get("includeObject", ""),
            self.api.objects.now,
        )
        seconds = float(_number(query.get("timeoutSeconds")))
        if not watching:
            if "sendInitialEvents" in query:
                raise bad_option("ListOptions", _NO_INITIAL_EVENTS)
            await self.api.storage.durable()
            return raw(self.lists.answer(row, target.namespace, asked, shape))
        watch = Watch(
            row,
            target.namespace,
            asked,
            shape,
            query.get("allowWatchBookmarks") in ("true", "1"),
            query.get("sendInitialEvents", ""),
            seconds,
            self.api.matcher(row, asked.labels, asked.fields) or (lambda obj: True),
        )
        return await self.watches.serve(request, watch)

    async def _get(self, request: web.Request, target: Target, row: Resource) -> web.StreamResponse:
        obj = self.api.get(row.key, target.name, target.namespace)
        return await writing.encoded(request, self.api, row, obj, 200)

    async def _part(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        if target.subresource == "log":
            return await logs.serve(request, self.api, target.namespace, target.name)
        obj = self.api.get(row.key, target.name, target.namespace)
        return answer(writing.read_part(row, obj, target.subresource))

    async def _create(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        return await writing.create(request, self.api, target, row)

    async def _posted_verb(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        return await writing.posted_verb(request, self.api, target)

    async def _update(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        return await writing.update(request, self.api, target, row)

    async def _patch(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        return await writing.patch(request, self.api, target, row)

    async def _delete(
        self, request: web.Request, target: Target, row: Resource
    ) -> web.StreamResponse:
        return await writing.delete(request, self.api, target, row)


def _nowhere() -> web.Response:
    """What Go's own server says of a path that no API has."""
    return web.Response(text="404 page not found\n", status=404)


def _number(text: str | None) -> int:
    """A parameter that counts; what is below zero counts as none. ApiError 400."""
    if not text:
        return 0
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 12:
        raise bad_request(f'strconv.ParseInt: parsing "{text[:40]}": invalid syntax')
    return max(int(text), 0)
