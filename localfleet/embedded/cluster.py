"""One embedded cluster as one process: API server, controllers and kubelets in one event loop."""

import asyncio
import json
import logging
import os
import random
import resource
import signal
import ssl
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from localfleet.embedded import kubeconfig
from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.controllers.roster import control_loop
from localfleet.embedded.http import make_app
from localfleet.embedded.kubelet.endpoint import KubeletEndpoint
from localfleet.embedded.kubelet.kubelets import Kubelets
from localfleet.embedded.kubelet.logs import container_log
from localfleet.embedded.kubelet.shapes import node_objects
from localfleet.embedded.kubelet.summary import node_usage, pod_usage
from localfleet.embedded.meta import Object
from localfleet.embedded.metrics_server.scraper import Scraper
from localfleet.embedded.options import Options
from localfleet.embedded.state import State, StateError
from localfleet.embedded.storage import Storage
from localfleet.embedded.tls import Authority
from localfleet.embedded.usage import Usage
from shared.model.names import KUBELET_ACCOUNT

_SHUTDOWN_S = 0.3
_PARENT_POLL_S = 0.5
_MOST_LINE = 64 * 1024  # bytes of a request's first line, which has the command of an exec in it
# enough to bring every node to Ready; what is left goes on while the cluster serves
_FIRST_STEPS = 100_000
_LOG = logging.getLogger(__name__)


class Cluster:
    """The parts of one cluster, put together over one state directory."""

    def __init__(self, options: Options, state: State) -> None:
        self._options = options
        self._state = state
        self._authority = Authority(state.directory)
        self._places, self._api_socket, self._kubelet_sockets = state.open_places(
            options.name, options.nodes, options.port
        )
        self._storage = Storage(state.database)
        rng = random.Random()  # names and UIDs must not repeat after a restart, so no seed
        self.api = Api(clock=time.time, storage=self._storage, random=rng, name=options.name)
        self.kubelets = Kubelets(
            self.api,
            time.time,
            block=self._places.block,
            port=self._places.kubelet_port,
            seed=options.seed,
            pace=options.pace,
        )
        self._controllers = control_loop(self.api, time.time, options.tempo)
        self._endpoint = KubeletEndpoint(
            self.kubelets,
            self._authority.kubelet_context,
            tokens=(state.token, state.account_token(*KUBELET_ACCOUNT.split("/"))),
            port=self._places.kubelet_port,
            clock=time.time,
        )
        self.api.log_source = lambda pod, container, query: container_log(
            pod, container, query, time.time()
        )
        self.api.account_token = state.account_token
        self.api.kubelet_credentials = lambda: self._authority.client_context
        self.api.node_usage = self._node_usage
        self.api.pod_usage = self._pod_usage
        self._scraper = Scraper(
            self.api, self.api.kubelet_credentials, options.metric_resolution_s, time.time
        )

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self._places.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """Where the admin's kubeconfig is written; the reader's is `kubeconfig.of_reader` of it."""
        return (self._options.kubeconfig or self._state.directory / "kubeconfig").absolute()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; prints the line of readiness once the API answers."""
        async with AsyncExitStack() as stack:
            stack.callback(self._storage.close)
            await self._endpoint.start(self._kubelet_sockets)
            stack.push_async_callback(self._endpoint.stop)
            self._populate()
            await self._serve(stack)
            async with asyncio.TaskGroup() as tasks:
                self.kubelets.on_address = lambda address: self._listen_on(tasks, address)
                works = (self.kubelets.run(), self._controllers.run(), self._scraper.run())
                running = [tasks.create_task(work) for work in works]
                await self._announce()
                await stop.wait()
                for task in running:
                    task.cancel()

    def _populate(self) -> None:
        """Register what is missing, and let controllers and kubelets take up what is there."""
        self.kubelets.start()
        for node in node_objects(
            self._options.name, self._options.shapes, self._options.region, self._options.zones
        ):
            self._register(node)
        self.kubelets.catch_up()
        self._show_authority()
        self._controllers.start()
        for _ in range(_FIRST_STEPS):
            if not self._controllers.step():
                break

    def _show_authority(self) -> None:
        """By which authority clients are known; kube-apiserver writes this ConfigMap at its start,
        too.
        """
        shown = {
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {"client-ca-file": self._authority.certificate.decode()},
        }
        with suppress(ApiError):  # it is there from an earlier life, with the same authority
            self.api.create("configmaps", shown, "kube-system")

    def _register(self, node: Object) -> None:
        try:
            self.api.create("nodes", node)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # that one is there from an earlier life
                raise StateError(f"cluster {self._options.name}: {error}") from None

    async def _serve(self, stack: AsyncExitStack) -> None:
        app = make_app(self.api, self._state.token, self._state.reader_token)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=_SHUTDOWN_S, max_line_size=_MOST_LINE
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.SockSite(
            runner, self._api_socket, ssl_context=self._authority.api_context()
        ).start()

    def _listen_on(self, tasks: asyncio.TaskGroup, address: str) -> None:
        tasks.create_task(self._add_address(address))

    async def _add_address(self, address: str) -> None:
        try:
            await self._endpoint.add(address)
        except OSError as error:
            _LOG.error("kubelet address %s:%s: %s", address, self._places.kubelet_port, error)

    async def _announce(self) -> None:
        await self._storage.durable()
        for path, token in (
            (self.kubeconfig, self._state.token),
            (kubeconfig.of_reader(self.kubeconfig), self._state.reader_token),
        ):
            config = kubeconfig.single(
                self._options.name, self.server, self._authority.certificate, token
            )
            kubeconfig.write(path, config)
        trust = ssl.create_default_context(cadata=self._authority.certificate.decode())
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.server}/readyz", ssl=trust) as answer,
        ):
            answer.raise_for_status()
        print(
            json.dumps({"ready": True, "server": self.server, "kubeconfig": str(self.kubeconfig)}),
            flush=True,
        )

    def _node_usage(self, name: str) -> Usage | None:
        node = self.kubelets.nodes.get(name)
        if node is None:
            return self._scraper.points.node(name)
        return None if node.down else node_usage(node, time.time())

    def _pod_usage(self, namespace: str, name: str) -> dict[str, Usage] | None:
        run = self.kubelets.by_name.get((namespace, name))
        if run is None:
            return self._scraper.points.pod((namespace, name))
        node = self.kubelets.nodes.get(run.node) if run.uses else None
        if node is None or node.down:
            return None
        return pod_usage(run, self.api.get("pods", name, namespace), node.load, time.time())


def run(options: Options) -> None:
    """Run one cluster until SIGTERM, SIGINT, SIGHUP or, if asked for, the end of the parent."""
    _allow_sockets()
    logging.basicConfig(
        level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if options.state_dir is not None:
        asyncio.run(_run(options, State(options.state_dir)))
        return
    with tempfile.TemporaryDirectory(prefix=f"embedded-{options.name}-") as directory:
        asyncio.run(_run(options, State(Path(directory))))


def _allow_sockets() -> None:
    # One socket a node, and many clients: the usual soft limit of 1024 is soon reached.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(options: Options, state: State) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watcher = asyncio.create_task(_watch_parent(stop)) if options.exit_with_parent else None
    await Cluster(options, state).run(stop)
    if watcher is not None:
        watcher.cancel()


async def _watch_parent(stop: asyncio.Event) -> None:
    parent = os.getppid()
    while os.getppid() == parent and not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PARENT_POLL_S)
    stop.set()
