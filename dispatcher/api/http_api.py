"""The read-only HTTP API: health, readiness, metrics, the fleet, explain. Loopback by default, no
state of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
import structlog
from aiohttp import web

from dispatcher.api.forward import forward
from dispatcher.api.login import Login
from dispatcher.api.page import MOST_PODS, render_page
from dispatcher.api.rows import ENCODER, ONE_AT_A_TIME, in_turns, send_rows
from dispatcher.api.shared import Shared
from dispatcher.scheduling.framework.plugin_args import did_you_mean
from dispatcher.scheduling.views import Pieces, Row
from dispatcher.service.fleet_views import FleetViews
from dispatcher.service.gateway.sparing_log import SparingLog, http_logger
from dispatcher.service.leading.leadership import LeaderStatus
from dispatcher.service.service import Service
from dispatcher.service.telemetry import ask_all
from shared.model import names
from shared.model.bounds import Amount
from shared.model.pod import Pod
from shared.version import version

log = structlog.get_logger("http")


class Shown(Protocol):
    """What is shown: the dispatcher of this term, and whether it leads."""

    @property
    def service(self) -> Service:
        """Its service."""
        ...

    @property
    def views(self) -> FleetViews:
        """What it knows."""
        ...

    @property
    def leader_status(self) -> LeaderStatus | None:
        """Whether it leads; None where nobody else could."""
        ...

    @property
    def leader_url(self) -> str:
        """Where the HTTP API of the one that leads is; '' if that is not known."""
        ...


@dataclass(frozen=True)
class OnlyOne:
    """A dispatcher without rivals."""

    service: Service
    views: FleetViews
    leader_status: None = None
    leader_url: str = ""


SHOWN: web.AppKey[Shown] = web.AppKey("shown")
SCRAPE: web.AppKey[Shared[bytes]] = web.AppKey("scrape")
TELEMETRY: web.AppKey[Shared[list[Row]]] = web.AppKey("telemetry")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
_OF_THE_LEADER = frozenset(
    (
        "/",
        "/v1/clusters",
        "/v1/links",
        "/v1/nodes",
        "/v1/usage",
        "/v1/pods",
        "/v1/tenants",
        "/v1/queue",
        "/v1/quota",
        "/v1/rebalancing",
        "/v1/drain",
    )
)
_REQUESTS = msgspec.json.Decoder(dict[str, Amount]).decode
_WHOLE = msgspec.json.Decoder(int).decode
_UNDER = ("/v1/explain/", "/v1/queue/", "/v1/tenants/")
_MOST_REPLICAS = 1_000_000
_LONGEST_NAME = 63


def make_app(shown: Shown, login: Login | None = None, *, loopback: bool = True) -> web.Application:
    """The application. On loopback a foreign Host header is refused, so that no web page can rebind
    a name to us.
    """
    asked = [login.middleware()] if login and login.wanted else []
    app = web.Application(middlewares=[*asked, _errors, *([_local_host] if loopback else [])])
    app[SHOWN], app[ONE_AT_A_TIME] = shown, asyncio.Lock()
    app[SCRAPE], app[TELEMETRY] = Shared(), Shared()
    app.router.add_routes(
        [
            web.get("/", _page),
            web.get("/healthz", _alive),
            web.get("/livez", _alive),
            web.get("/readyz", _ready),
            web.get("/metrics", _metrics),
            web.get("/v1/version", _version),
            web.get("/v1/leader", _leader),
            web.get("/v1/clusters", _clusters),
            web.get("/v1/links", _links),
            web.get("/v1/nodes", _nodes),
            web.get("/v1/usage", _usage),
            web.get("/v1/telemetry", _telemetry),
            web.get("/v1/pods", _pods),
            web.get("/v1/tenants", _tenants),
            web.get("/v1/queue", _queue),
            web.get("/v1/queue/{namespace}/{name}", _place),
            web.get("/v1/tenants/{name}", _tenant),
            web.get("/v1/quota", _quota),
            web.get("/v1/rebalancing", _rebalancing),
            web.get("/v1/drain", _drain),
            web.get("/v1/explain/{namespace}/{name}", _explain),
        ]
    )
    return app


async def serve(shown: Shown, host: str, port: int, login: Login) -> web.AppRunner:
    """Listen; the caller cleans the runner up. OSError when the address is taken."""
    app = make_app(shown, login, loopback=host in _LOOPBACK)
    logger = http_logger(SparingLog())
    runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    log.info("serving", address=f"http://{host}:{port}", login=login.wanted)
    return runner


def _standby(request: web.Request) -> str:
    leader_status = request.app[SHOWN].leader_status
    return leader_status.words if leader_status is not None else ""


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=ENCODER.encode(value), status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json({"error": message}, status)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if request.path in _OF_THE_LEADER or request.path.startswith(_UNDER):
            standby = _standby(request)
            if standby:
                return await forward(request, request.app[SHOWN].leader_url) or _error(503, standby)
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, f"{request.path[:200]}: {error.reason}")
    except Exception:
        log.exception("request failed", path=request.path[:200])
        return _error(500, "internal error: see the dispatcher's log")


@web.middleware
async def _local_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    name = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    if name not in _LOOPBACK:
        return _error(421, f"this server answers to localhost only, not to {name[:80]!r}")
    return await handler(request)


async def _page(request: web.Request) -> web.Response:
    views = request.app[SHOWN].views
    turn = request.app[ONE_AT_A_TIME]
    pods = list[Row]()
    clusters = [row async for piece in in_turns(views.clusters(), turn) for row in piece]
    async for piece in in_turns(views.pods(), turn):
        pods += piece
        if len(pods) >= MOST_PODS:
            break
    text = render_page(clusters, pods[:MOST_PODS], views.count_pods())
    return web.Response(text=text, content_type="text/html")


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _ready(request: web.Request) -> web.Response:
    """Ready: it leads, and every configured cluster was heard of or given up for now, so that
    decisions are taken; or it could lead now: it stands by, and follows all of them.
    """
    service = request.app[SHOWN].service
    standby = _standby(request)
    if standby:
        return web.Response(text=standby, status=200 if service.could_lead else 503)
    if service.ready:
        return web.Response(text="ok")
    waiting = sorted(name for name, view in service.core.clusters.items() if not view.heard)
    return web.Response(text=f"waiting for the first report of: {', '.join(waiting)}", status=503)


async def _metrics(request: web.Request) -> web.Response:
    service = request.app[SHOWN].service
    return web.Response(
        body=await request.app[SCRAPE].get(service, partial(_scrape, service)),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def _scrape(service: Service) -> bytes:
    pieces = service.metrics.pieces()
    return b"".join(
        [text async for text in in_turns(pieces, nullcontext())]
    )  # must not wait for people's lists


async def _version(_request: web.Request) -> web.Response:
    return _json({"version": version()})


async def _leader(request: web.Request) -> web.Response:
    leader_status = request.app[SHOWN].leader_status
    return _json(leader_status.row() if leader_status is not None else {"leads": True})


async def _rows(
    request: web.Request, name: str, pieces: Pieces, keys: Sequence[str] = ()
) -> web.StreamResponse:
    """`{name: [rows]}`."""
    return await send_rows(request, name, pieces, keys) or _json({name: []})


async def _clusters(request: web.Request) -> web.StreamResponse:
    return await _rows(request, "clusters", request.app[SHOWN].views.clusters())


async def _links(request: web.Request) -> web.StreamResponse:
    return await _rows(request, "links", request.app[SHOWN].views.links())


async def _nodes(request: web.Request) -> web.StreamResponse:
    views = request.app[SHOWN].views
    cluster = request.query.get("cluster", "")
    unknown = _unknown_cluster(views, request, ("cluster",))
    return (
        _error(404, unknown)
        if unknown
        else await _rows(request, "nodes", views.nodes(cluster), ("cluster",))
    )


async def _usage(request: web.Request) -> web.StreamResponse:
    return await _rows(request, "usage", request.app[SHOWN].views.usage())


async def _telemetry(request: web.Request) -> web.Response:
    service = request.app[SHOWN].service
    return _json(
        {"telemetry": await request.app[TELEMETRY].get(service, partial(ask_all, service.links))}
    )


async def _pods(request: web.Request) -> web.StreamResponse:
    views = request.app[SHOWN].views
    namespace = request.query.get("namespace", "")
    if unknown := _unknown_cluster(views, request, ("cluster", "source")):
        return _error(404, unknown)
    keys = ("namespace", "cluster", "source", "phase", "controller", "deployment")
    sent = await send_rows(request, "pods", views.pods(namespace), keys)
    if sent is None and namespace and not views.count_pods(namespace):
        return _error(404, f"no pods in namespace {namespace}")
    return sent or _json({"pods": []})


async def _tenants(request: web.Request) -> web.Response:
    return _json({"tenants": request.app[SHOWN].views.tenants()})


async def _queue(request: web.Request) -> web.Response:
    views = request.app[SHOWN].views
    limit = request.query.get("limit", "50")
    if not limit.isdecimal() or len(limit) > 6:
        return _error(400, f"limit: a number of pods, not {limit[:20]!r}")
    return _json({"queue": views.queue(int(limit)), "counts": views.queue_counts()})


async def _place(request: web.Request) -> web.Response:
    return _of_pod(request, request.app[SHOWN].views.place)


async def _tenant(request: web.Request) -> web.Response:
    views = request.app[SHOWN].views
    name = request.match_info["name"]
    found = views.tenant(name)
    if found is None:
        known = list(dict.fromkeys(row["tenant"] for row in views.tenants()))
        return _error(404, f"no tenant {name[:80]}{did_you_mean(name, known)}")
    turn = request.app[ONE_AT_A_TIME]
    victims = [row async for piece in in_turns(views.next_victims(name), turn) for row in piece]
    return _json({**found, "next_victims": victims})


async def _quota(request: web.Request) -> web.Response:
    """Of pods with these `requests` (JSON: resource to internal units), `priority`, in a
    `namespace` of a `cluster`.
    """
    views = request.app[SHOWN].views
    query = request.query
    if unknown := _unknown_cluster(views, request, ("cluster",)):
        return _error(404, unknown)
    try:
        requests = _REQUESTS(query.get("requests", "{}").encode())
        priority = _WHOLE(query.get("priority", "0").encode())
        replicas = _WHOLE(query.get("replicas", "1").encode())
        namespace = query.get("namespace", "")
        if not 0 < len(namespace) <= _LONGEST_NAME or not 0 < replicas <= _MOST_REPLICAS:
            raise ValueError(f"name a namespace, and replicas of 1 to {_MOST_REPLICAS}")
        pod = Pod("", namespace, "", requests=requests, priority=priority)
        return _json(views.quota(query.get("cluster", ""), pod, replicas))
    except ValueError as error:
        return _error(400, str(error))


async def _rebalancing(request: web.Request) -> web.Response:
    rows = request.app[SHOWN].views.rebalancing()
    if rows is None:
        text = (
            "rebalancing is off: `rebalancing: {mode: dry_run}` in dispatcher.yaml says what it "
            "would move"
        )
        return _error(404, text)
    return _json({"rebalancing": rows})


async def _drain(request: web.Request) -> web.StreamResponse:
    views = request.app[SHOWN].views
    cluster = request.query.get("cluster", "")
    if not cluster:
        return _error(400, "name the cluster: /v1/drain?cluster=NAME")
    unknown = _unknown_cluster(views, request, ("cluster",))
    leave = request.query.get("leave") == "true"
    return (
        _error(404, unknown)
        if unknown
        else await _rows(request, "drain", views.drain(cluster, leave=leave))
    )


async def _explain(request: web.Request) -> web.Response:
    return _of_pod(request, request.app[SHOWN].views.explain)


def _of_pod(request: web.Request, told: Callable[[str, str, str], Row | None]) -> web.Response:
    """What is told of the pod in the path, by namespace, name and cluster of submission."""
    views = request.app[SHOWN].views
    namespace = request.match_info["namespace"]
    name = request.match_info["name"]
    found = told(namespace, name, request.query.get("cluster", ""))
    if found is None:
        unknown = _unknown_cluster(views, request, ("cluster",))
        return _error(404, unknown or _not_ours(views, request, namespace, name))
    return _json(found)


def _not_ours(views: FleetViews, request: web.Request, namespace: str, name: str) -> str:
    source = views.source_of(namespace, name)
    if source is not None:
        of = f"{source['namespace']}/{source['name']}"
        home = source["home"]
        return (
            f"pod {namespace}/{name} of cluster {source['cluster']} is the copy of {of}, "
            f"submitted in {home}: "
            f"`global-dispatcher explain {of} --cluster {home}`"
        )
    where = f" submitted in {cluster}" if (cluster := request.query.get("cluster", "")) else ""
    return (
        f"nothing is known of pod {namespace}/{name}{where}: ours are pods with spec.schedulerName "
        f'{names.SCHEDULER_NAME}, which the annotation {names.SCHEDULE}: "true" gives them when '
        "they are made "
        "(see `global-dispatcher pods`)"
    )


def _unknown_cluster(views: FleetViews, request: web.Request, keys: Sequence[str]) -> str:
    """Why nothing can be found, if it is the name of a cluster that does not exist; else ''."""
    wanted = [asked for key in keys if (asked := request.query.get(key, ""))]
    known = views.cluster_names() if wanted else []
    return next(
        (
            f"no cluster {asked}; known: {', '.join(known)}"
            for asked in wanted
            if asked not in known
        ),
        "",
    )
