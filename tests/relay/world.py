"""Two clusters and a gateway between them: pod default/web of east has its delegate in west."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor.context.local import Local
from agents.executor.context.view import ClusterView
from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.intents.delegate import delegate_name
from agents.observer.seen import NodeTarget
from agents.runtime.executor_loop import read_pod
from agents.runtime.outbound.answering import answers_of
from agents.runtime.outbound.dialling import Dialler
from agents.runtime.outbound.settings import GatewaySettings
from agents.runtime.relay.callers import Callers
from agents.runtime.relay.endpoint import Endpoint
from agents.runtime.relay.far_end import FarEnd
from agents.runtime.relay.near_end import NearEnd, OpenStreams
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.relay.tokens import Tokens
from agents.runtime.relay.usage_far import DelegateUsage
from agents.runtime.relay.usage_near import ProxyMetrics
from agents.telemetry.source import SourceError
from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from shared.kube.client import KubeClient
from shared.kube.session import Access
from shared.model import names
from shared.model.node import Node
from shared.model.pod import Pod, SourceRef
from shared.security.keys import OwnKeys
from shared.security.signatures import SignedClaim
from tests.relay.fake_api import FakeApi
from tests.service.fakes import FakeAgent

WAIT_S = 10.0
CALLER = "kube-apiserver-kubelet-client"
HOME, TARGET, THIRD = "east", "west", "north"
SOURCE = SourceRef(HOME, "uid-east", "default", "web", "uid-web", 1)
DELEGATE = delegate_name(SOURCE)


class View:
    """What is asked of a cluster's view."""

    def __init__(self) -> None:
        self.pods = {("default", "web"): Pod("uid-web", "default", "web", node=names.proxy_node_name(TARGET))}

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        return self.pods.get((namespace, name))

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def node(self, name: str) -> Node | None:
        cluster = name.removeprefix(names.PROXY_NODE_PREFIX)
        return Node(name, name, proxy_for=cluster) if cluster != name else None

    def nodes(self) -> list[Node]:
        return [Node(name, name) for name in sorted({pod.node for pod in self.pods.values()})]


@dataclass
class Member:
    """One cluster: its API server, its agent's two ends, and its way to the gateway. `pages`: its kubelets' metrics."""

    name: str
    api: FakeApi = field(default_factory=FakeApi)
    view: View = field(default_factory=View)
    pages: dict[str, str] = field(default_factory=dict)
    kubelets_asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys = OwnKeys([Ed25519PrivateKey.generate()])
        self.local = Local(cast(ClusterView, self.view), self.name, read_pod, keys, f"uid-{self.name}")
        self.allow("all")

    def allow(self, relay: Any) -> None:
        """What other clusters may ask."""
        self.local.policy = ExecutorPolicy(relay=relay)

    async def kubelet(self, target: NodeTarget, path: str) -> bytes:
        """What a kubelet answers."""
        self.kubelets_asked.append(f"{target.name}{path}")
        if target.name not in self.pages:
            raise SourceError(f"kubelet of {target.name}: away")
        return self.pages[target.name].encode()

    def knows(self, other: "Member") -> None:
        """By its keys."""
        assert not self.local.trusted.trust(other.name, other.local.cluster_uid, other.local.keys.endorsed_keys())


@dataclass
class World:
    """All of it. `port` is the kubelet endpoint's, in east; `now`: the clock of what it remembers of callers."""

    folder: Path
    members: dict[str, Member]
    gateway: Gateway
    authority: trustme.CA
    diallers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    streams: dict[str, OpenStreams] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    now: float = 0.0

    @property
    def home(self) -> Member:
        return self.members[HOME]

    @property
    def target(self) -> Member:
        return self.members[TARGET]

    def trust(self, name: str | None = CALLER, authority: trustme.CA | None = None) -> ssl.SSLContext:
        """What the API server connects with; None: without a certificate."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if name is not None:
            (authority or self.authority).issue_cert("api.test", common_name=name).configure_cert(context)
        return context

    async def open(self, context: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the kubelet endpoint."""
        assert self.endpoint is not None
        return await asyncio.open_connection(
            "127.0.0.1", self.endpoint.port, ssl=context or self.trust(), server_hostname="localhost"
        )

    async def ask(self, target: str, *, method: str = "GET", upgrade: str = "", extra: str = "") -> "Answer":
        """Send a request, and read the head of its answer."""
        reader, writer = await self.open()
        return await ask(reader, writer, target, method=method, upgrade=upgrade, extra=extra)


@dataclass
class Answer:
    """The head of an answer, and what follows."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """All that follows. IncompleteReadError, ConnectionError: it was cut."""
        if self.headers.get("transfer-encoding") != "chunked":
            return await self.reader.read()
        whole = b""
        while piece := await self.chunk():
            whole += piece
        return whole

    async def chunk(self) -> bytes:
        """The next chunk."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, *, method: str, upgrade: str, extra: str
) -> Answer:
    """Over a connection that is open."""
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: node",
        *([f"Connection: Upgrade\r\nUpgrade: {upgrade}"] if upgrade else []),
    ]
    writer.write(("\r\n".join([*lines, *([extra] if extra else [])]) + "\r\n\r\n").encode())
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)).decode().rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    return Answer(int(head[0].split(" ")[1]), headers, reader, writer)


@contextlib.asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Everything up and connected."""
    ensure(folder, ["localhost"], [HOME, TARGET, THIRD])
    authority = trustme.CA()
    section = GatewaySection(
        port=0,
        cert_file=str(folder / "gateway.crt"),
        key_file=str(folder / "gateway.key"),
        client_ca_file=str(folder / "ca.crt"),
    )
    gateway = Gateway(section, [HOME, TARGET, THIRD])
    between = {(HOME, TARGET, "uid-web"), (TARGET, HOME, "uid-web")}
    gateway.objection = lambda home, target, pod: "" if (home, target, pod) in between else "unknown"
    members = {name: Member(name) for name in (HOME, TARGET, THIRD)}
    made = World(folder, members, gateway, authority)
    _introduce(made)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(gateway.serving())
        for member in members.values():
            await _connect(made, member, stack)
        yield made


def _introduce(made: World) -> None:
    members = made.members.values()
    for one in members:
        for other in members:
            if one is not other:
                one.knows(other)
    claim = made.home.local.keys.sign_claim(SignedClaim(SOURCE, TARGET, "uid-west", "n1", b"digest"))
    made.target.api.pods[f"default/{DELEGATE}"] = delegate(claim, made.target)
    made.home.api.client_ca = made.authority.cert_pem.bytes().decode()
    made.home.api.allowed.add(CALLER)


def delegate(claim: str, member: Member) -> Any:
    """A delegate as the target's API server shows it."""
    proof = member.local.keys.sign_proof("uid-delegate", claim)
    annotations = {names.CLAIM: claim, names.DELEGATE_PROOF: proof}
    metadata = {"name": DELEGATE, "namespace": "default", "uid": "uid-delegate", "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": names.DELEGATE_SCHEDULER, "nodeName": "n1"}}


async def _connect(made: World, member: Member, stack: AsyncExitStack) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.authority.issue_cert("127.0.0.1").configure_cert(tls)
    port = await stack.enter_async_context(member.api.listening(tls))
    client = KubeClient(Access(str(_kubeconfig(made, member.name, port))))
    stack.push_async_callback(client.close)
    far = FarEnd(member.local, client)
    targets = {name: NodeTarget(name) for name in ("n1", "n2")}
    far.usage = DelegateUsage(member.local, targets, member.kubelet).tell
    dialler = Dialler(_settings(made, member.name), member.name, answers_of(FakeAgent(member.name)), far.serve)
    made.streams[member.name] = dialler.open_streams
    made.diallers[member.name] = _task(dialler.run(), stack)
    if member.name == HOME:
        settings = RelaySettings(address="127.0.0.1", host="127.0.0.1", port=0)
        callers = Callers(client, settings, lambda: made.now)
        near = NearEnd(member.local, dialler.open_streams, callers.check, lambda: "")
        metrics = ProxyMetrics(member.local, near.read, callers.may, Tokens(client, lambda: made.now), lambda: "")
        made.endpoint = Endpoint(settings, callers.authorities, near.serve)
        near.serve_metrics, metrics.admitted = metrics.serve, made.endpoint.admitted
        listening = asyncio.Event()
        _task(made.endpoint.run(lambda port: listening.set()), stack)
        await asyncio.wait_for(listening.wait(), WAIT_S)
    async with asyncio.timeout(WAIT_S):
        while not dialler.connected:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


def _task(work: Any, stack: AsyncExitStack) -> "asyncio.Task[None]":
    task: asyncio.Task[None] = asyncio.create_task(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
    return task


def _settings(made: World, cluster: str) -> GatewaySettings:
    return GatewaySettings(
        urls=(f"wss://localhost:{made.gateway.port}",),
        ca_file=str(made.folder / "ca.crt"),
        cert_file=str(made.folder / f"cluster-{cluster}.crt"),
        key_file=str(made.folder / f"cluster-{cluster}.key"),
        longest_pause_s=1,
    )


def _kubeconfig(made: World, name: str, port: int) -> Path:
    file, authority = made.folder / f"{name}.kubeconfig", made.folder / "api.crt"
    made.authority.cert_pem.write_to_path(str(authority))
    told = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "u", "user": {"token": f"{name}-token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(told))
    return file
