"""`global-dispatcher run`: the dispatcher for the clusters of a configuration, its agents as Ray
actors beside it.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import structlog
from aiohttp import web

from dispatcher.config import ConfigError, DispatcherConfig, load_config, plugin_registry
from dispatcher.config.agents import relays_of
from dispatcher.config.gateway import here
from dispatcher.config.sections import LoginSection
from dispatcher.plugins.registry import PluginSpec
from dispatcher.service.agents_on_ray.ray_runtime import RayOptions, RayRuntime
from dispatcher.service.agents_on_ray.started_agents import StartedAgents, agent_with_log
from dispatcher.service.collectors import ReloadCollector
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.files.cluster_profiles import publishing
from dispatcher.service.files.logs import configure_logging
from dispatcher.service.files.reload import Reloader
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.interrupts import interruptible, uninterrupted
from dispatcher.service.leading.leader_client import access_of, candidate
from dispatcher.service.leading.leadership import Leadership
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.links.link import AgentLink
from dispatcher.service.links.signing import Sealer, sealer_of
from dispatcher.service.warm_up import collect_less_often, compile_when_large
from shared.process.event_loop import run
from shared.process.logs import log_path

log = structlog.get_logger("run")

Configured = tuple[DispatcherConfig, Mapping[str, PluginSpec]]  # and the plugins that are installed
# Serves the HTTP API on a host and a port, to those who may read it.
Listen = Callable[[TermRunner, str, int, LoginSection], Awaitable[web.AppRunner]]

_LOOK_S = 1.0


def run_dispatcher(file: Path, level: str | None, listen: Listen) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code. CommandError when it cannot start.

    `listen` is handed in (`dispatcher/api/listen.py`), as the HTTP API is built on this package.
    """
    config, registry = read_config(file, reach=True)
    configure_logging(level or config.log.level, config.log.format)
    for note in config.notes:
        log.warning("a note on the configuration", detail=str(note))
    try:
        with interruptible(), ExitStack() as cleanup:
            ray = _start_ray(config, cleanup) if here(config.clusters) else None
            return run(_serve(config, registry, ray, listen))
    except (KeyboardInterrupt, SystemExit):
        return int(ExitCode.OK)


def read_config(file: Path | None, *, reach: bool = False) -> Configured:
    """A configuration and the plugins that are installed; CommandError with the first problem.
    None: the defaults.

    `reach`: its clusters are to be reached from here (see `load_config`). An expired certificate
    stops nothing: agents that dial in wait for a new one, which is read while we run, and all
    others are served.
    """
    try:
        registry = plugin_registry()
        return load_config(file, registry=registry, reach=reach, expired_too=True), registry
    except ConfigError as error:
        raise CommandError(_all_problems(file, error)) from None


def _start_ray(config: DispatcherConfig, cleanup: ExitStack) -> RayRuntime:
    options = RayOptions(
        config.ray.address, object_store_bytes=config.ray.object_store_mib * 1024 * 1024
    )
    if config.ray.address:
        log.warning(
            "who runs code in this Ray can run it in this process, and read its signing key",
            address=config.ray.address,
            fix="share it with nobody, or let agents dial in from processes of their own: `via: "
            "gateway`",
        )
    with uninterrupted():
        ray = RayRuntime.start([cluster.name for cluster in here(config.clusters)], options)
        cleanup.callback(ray.stop)
    return ray


async def _serve(
    config: DispatcherConfig,
    registry: Mapping[str, PluginSpec],
    ray: RayRuntime | None,
    listen: Listen,
) -> int:
    if ray is not None:
        log.info("agents write their own logs", files=str(log_path("*")))
    async with AsyncExitStack() as stack:
        sealer = _sealer(config)
        gateway = Gateway(config.gateway, _dialling(config), sealer)
        gateways = [gateway]
        links: dict[str, AgentLink] = {name: gateway.link(name) for name in _dialling(config)}
        if ray is not None:
            clusters = here(config.clusters)
            started = StartedAgents(
                [agent_with_log(cluster) for cluster in clusters],
                ray.host,
                stack.enter_context,
                sealer,
                relays_of(clusters),
                port=config.ray.port,
            )
            gateway.beside = started.gateway
            started.gateway.beside = gateway
            gateways.append(started.gateway)
            await stack.enter_async_context(started.serving())
            links |= {cluster.name: started.link(cluster.name) for cluster in clusters}
        if _dialling(config):
            await stack.enter_async_context(gateway.serving())
        in_order = [links[cluster.name] for cluster in config.clusters]
        one = await stack.enter_async_context(
            candidate(config.leader_election, here(config.clusters))
        )
        leadership = Leadership(one, in_order)
        terms = TermRunner(in_order, config, leadership)
        for each in gateways:
            each.objection = terms.relay_objection
        access = access_of(config.leader_election, here(config.clusters))
        await stack.enter_async_context(
            publishing(config.cluster_profiles, access, terms.loads_led)
        )
        reloader = Reloader(config, registry, terms.take_policies)
        terms.watch(ReloadCollector(reloader))
        serve_http = partial(listen, terms, config.http.host, config.http.port, config.http.login)
        return await serve_until_signal(
            terms, serve_http, ray.ended if ray else lambda: "", reloader
        )


def _sealer(config: DispatcherConfig) -> Sealer:
    try:
        return sealer_of(config.signing)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"signing: {error}") from None


def _dialling(config: DispatcherConfig) -> tuple[str, ...]:
    return tuple(
        cluster.name for cluster in config.clusters if cluster not in here(config.clusters)
    )


async def serve_until_signal(
    terms: TermRunner,
    serve_http: Callable[[], Awaitable[web.AppRunner]],
    ray_ended: Callable[[], str],
    reloader: Reloader,
) -> int:
    """All terms and the HTTP API until SIGINT or SIGTERM, or until its Ray has ended: then
    CommandError.
    """
    stop = asyncio.Event()
    collect_less_often()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = await serve_http()
    service = asyncio.create_task(terms.run())
    stopped = asyncio.create_task(stop.wait())
    rayless = asyncio.create_task(_wait_for_end(ray_ended))
    reloads = asyncio.create_task(reloader.run())
    kernels = asyncio.create_task(
        compile_when_large(
            lambda: sum(len(one.nodes) for one in terms.service.core.clusters.values())
        )
    )
    try:
        await asyncio.wait({service, stopped, rayless}, return_when=asyncio.FIRST_COMPLETED)
        if service.done():
            service.result()
        if rayless.done():
            raise CommandError(
                f"Ray has lost its {rayless.result()}, and all agents with it: start again"
            )
    finally:
        log.info("stopping")
        service.cancel()
        stopped.cancel()
        rayless.cancel()
        reloads.cancel()
        kernels.cancel()
        await asyncio.gather(service, stopped, rayless, reloads, kernels, return_exceptions=True)
        await runner.cleanup()
    return int(ExitCode.OK)


async def _wait_for_end(ray_ended: Callable[[], str]) -> str:
    while True:
        if name := ray_ended():
            return name
        await asyncio.sleep(_LOOK_S)


def _all_problems(file: Path | None, error: ConfigError) -> str:
    first = error.problems[0]
    more = len(error.problems) - 1
    rest = f" (and {more} more: global-dispatcher config check {file})" if more and file else ""
    return f"{first}{rest}"
