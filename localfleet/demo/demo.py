"""The demo: a fleet of clusters, Ray, agents and the dispatcher on this machine, and pods to watch.

Everything is submitted in the first cluster. Nodes that tell load are kept busy there: load and
spread push pods out.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings, ExecutorOptions
from dispatcher.api.http_api import OnlyOne
from dispatcher.api.listen import check_port, listen
from dispatcher.cli.output import Output
from dispatcher.service.agents_on_ray.ray_runtime import RayRuntime
from dispatcher.service.agents_on_ray.started_agents import StartedAgents
from dispatcher.service.assembly import Dispatcher, assemble
from dispatcher.service.collectors import ReloadCollector
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.files.logs import configure_logging
from dispatcher.service.files.reload import Reloader
from dispatcher.service.interrupts import interruptible, uninterrupted
from dispatcher.service.run import Configured, read_config
from localfleet.demo.clusters import Clusters, EmbeddedClusters, Running
from localfleet.demo.show import DemoShow
from localfleet.demo.submit import Submitter
from localfleet.demo.trace import deal_nodes, trace_pods
from localfleet.demo.workloads import Submission, sample
from localfleet.embedded.fleet import ClusterSpec, FleetError

_NAMES = ("east", "west", "north", "south")
_HOST = "127.0.0.1"
_READY_S = 60.0
# The first cluster is as good as busy before the demo begins: shares of each node's capacity.
_BUSY = {
    "embedded.global-dispatcher.io/background-cpu": "0.55",
    "embedded.global-dispatcher.io/background-net": "0.3",
}


@dataclass(frozen=True)
class DemoOptions:
    """What the command line said; None is 'as fits'."""

    real: bool = False
    clusters: int = 3
    nodes: int | None = None
    pods: int | None = None
    once: bool = False
    keep: bool = False
    keep_state: bool = False
    trace: Path | None = None
    config: Path | None = None
    port: int = 7480
    timeout_s: float = 120.0
    output: Output = Output.TABLE

    @property
    def names(self) -> list[str]:
        """The clusters' names; pods are submitted in the first."""
        return [
            _NAMES[number] if number < len(_NAMES) else f"cluster-{number + 1}"
            for number in range(self.clusters)
        ]

    def kind(self) -> Clusters:
        """What the clusters are."""
        if not self.real:
            return EmbeddedClusters()
        from localfleet.demo.real import RealClusters

        return RealClusters()

    def busy(self, kind: Clusters) -> bool:
        """Whether the first cluster's nodes are made busy before pods come."""
        return kind.live_load and self.trace is None

    def note(self, kind: Clusters) -> str:
        """What to know of loads and scores."""
        if self.busy(kind) and self.clusters > 1:
            return (
                f"The nodes of {self.names[0]} were made busy (CPU 55%, network 30%) before the "
                "pods came."
            )
        return kind.note

    def submissions(self) -> Iterator[Submission]:
        """What is submitted."""
        if self.trace is not None:
            return trace_pods(self.trace, self.pods or 1000)
        return sample(self.pods or max(5, self.clusters * (self.nodes or 10) * 4 // 3))


def run_demo(options: DemoOptions, log_level: str) -> int:
    """The whole demo; returns the exit code. Nothing that it started is left when it returns."""
    configured = read_config(options.config)
    configure_logging(log_level)
    started = perf_counter()
    try:
        with interruptible(), ExitStack() as cleanup:
            return _run(options, configured, started, cleanup)
    except (KeyboardInterrupt, SystemExit):  # Ray turns an early SIGTERM into the latter
        return int(ExitCode.FAILED if options.once else ExitCode.OK)


def _run(options: DemoOptions, configured: Configured, started: float, cleanup: ExitStack) -> int:
    config, registry = configured
    check_port(_HOST, options.port)
    state = Path(tempfile.mkdtemp(prefix="global-dispatcher-"))
    if not options.keep_state:
        cleanup.callback(shutil.rmtree, state, ignore_errors=True)
    kind = options.kind()
    submissions = list(options.submissions())
    show = DemoShow(
        options.names[0], sum(one.pods for one in submissions), started, options.note(kind)
    )
    cleanup.enter_context(show)
    kind.prepare(options.clusters, show.say)
    fleet = _start(options, kind, state, show, cleanup)
    agents = _agents(options, kind, fleet.kubeconfig, cleanup)
    dispatcher = assemble([agents.link(name) for name in options.names], config)
    agents.gateway.objection = dispatcher.views.relay_objection
    reloader = Reloader(config, registry, dispatcher.take_policies)
    dispatcher.service.metrics.watch(ReloadCollector(reloader))
    stage = Stage(options, dispatcher, agents, kind, fleet, show, reloader)
    return asyncio.run(_serve(stage, submissions))


def _start(
    options: DemoOptions, kind: Clusters, state: Path, show: DemoShow, cleanup: ExitStack
) -> Running:
    """Start the clusters and Ray at the same time; what came up is registered for clean-up even if
    the other fails.
    """
    specs = list(_specs(options, state))
    show.say(f"starting {kind.announce(len(specs))} and Ray ...")
    with uninterrupted(), ThreadPoolExecutor(1) as pool:
        starting = pool.submit(kind.start, specs, state)
        try:
            ray = RayRuntime.start(options.names)
            cleanup.callback(ray.stop)
        finally:
            error = starting.exception()
            if error is None:
                cleanup.callback(starting.result().stop)
        if isinstance(error, FleetError):
            print(error, file=sys.stderr)
            raise CommandError("a cluster did not start: see its log above")
        return starting.result()


def _agents(
    options: DemoOptions, kind: Clusters, kubeconfig: Path, cleanup: ExitStack
) -> StartedAgents:
    """Each of them serves logs and exec of its cluster's pods that run elsewhere."""
    settings = [
        AgentSettings(
            cluster=name,
            kubeconfig=str(kubeconfig),
            context=name,
            kubelet=kind.kubelet,
            executor=ExecutorOptions(relay="all"),
        )
        for name in options.names
    ]
    relay = RelaySettings(address=_HOST, host=_HOST, port=0)
    return StartedAgents(
        settings, _HOST, cleanup.enter_context, relays=dict.fromkeys(options.names, relay)
    )


def _specs(options: DemoOptions, state: Path) -> Iterator[ClusterSpec]:
    names = options.names
    tables = {} if options.trace is None else deal_nodes(options.trace, names, options.nodes, state)
    for seed, name in enumerate(names):
        zones = tuple(f"{name}-{letter}" for letter in "abc")
        nodes = 0 if tables else options.nodes or 10
        yield ClusterSpec(
            name,
            nodes=nodes,
            cpu="4",
            memory="16Gi",
            region=name,
            zones=zones,
            nodes_csv=tables.get(name),
            seed=seed,
        )


@dataclass(frozen=True)
class Stage:
    """All that plays a part once everything is up."""

    options: DemoOptions
    dispatcher: Dispatcher
    agents: StartedAgents
    kind: Clusters
    fleet: Running
    show: DemoShow
    reloader: Reloader


async def _serve(stage: Stage, submissions: list[Submission]) -> int:
    """Run the agents, the dispatcher and its HTTP API while the demo goes on."""
    async with stage.agents.serving():
        return await _serve_until_end(stage, submissions)


async def _serve_until_end(stage: Stage, submissions: list[Submission]) -> int:
    options = stage.options
    dispatcher = stage.dispatcher
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = await listen(OnlyOne(dispatcher.service, dispatcher.views), _HOST, options.port)
    service = asyncio.create_task(dispatcher.service.run())
    port = runner.addresses[0][1]
    play = asyncio.create_task(_play(stage, submissions, port))
    stopped = asyncio.create_task(stop.wait())
    reloads = asyncio.create_task(stage.reloader.run())
    try:
        done, _ = await asyncio.wait({service, play, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if play in done and options.keep:
            play.result()
            stage.show.invite(stage.fleet, options.names, port)
            done, _ = await asyncio.wait({service, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if service in done:
            service.result()
        if play in done:
            return play.result()
        return int(ExitCode.FAILED if options.once else ExitCode.OK)
    finally:
        stage.show.say("stopping ...")
        for task in (play, stopped, reloads):
            task.cancel()
        dispatcher.service.stop()
        await asyncio.gather(service, play, stopped, reloads, return_exceptions=True)
        await runner.cleanup()


async def _play(stage: Stage, submissions: list[Submission], port: int) -> int:
    """Wait for the fleet, submit, watch until all runs, and report; returns the exit code."""
    options = stage.options
    dispatcher = stage.dispatcher
    show = stage.show
    submitter = Submitter(stage.fleet.kubeconfig, options.names[0])
    try:
        if options.busy(stage.kind):
            await submitter.annotate_nodes(_BUSY)
        await show.wait_for_nodes(dispatcher, _READY_S, read=stage.kind.live_load)
        submitting = asyncio.create_task(submitter.submit(submissions))
        await show.watch(
            dispatcher,
            options.timeout_s,
            lenient=options.trace is not None or options.pods is not None,
        )
        await submitting
        if not (options.once or options.keep):
            await show.watch_on(dispatcher, port)
    finally:
        await submitter.close()
    return show.report(dispatcher, options.output)
