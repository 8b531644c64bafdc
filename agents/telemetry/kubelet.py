"""Readings from each node's own kubelet: GET /stats/summary at its InternalIP. The right
nodes/stats is enough.
"""

import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

import aiohttp
import msgspec

from agents.observer import signals
from agents.observer.loads import Measure, Sample
from agents.observer.owner_uses import PodUse
from agents.observer.seen import NodeTarget
from agents.telemetry.source import MAX_AHEAD_S, SourceError, date_of

SOURCE = "kubelet"
MAX_BODY = 32 * 1024 * 1024
# What is no network of the node itself: loopback, pod ends, bridges and overlays (their bytes pass
# the real one too).
VIRTUAL = (
    "lo",
    "veth",
    "cali",
    "cni",
    "docker",
    "flannel",
    "br-",
    "lxc",
    "cilium",
    "kube-ipvs",
    "nodelocaldns",
    "tunl",
)
Headers = Callable[[], Awaitable[dict[str, str]]]


class Some(msgspec.Struct, gc=False):
    """PSIData: the percentage of time in which some task waited."""

    avg10: float | None = None


class Pressure(msgspec.Struct, gc=False):
    """PSIStats, of kubelets that tell them (Kubernetes 1.34)."""

    some: Some = msgspec.field(default_factory=Some)


class Cpu(msgspec.Struct, gc=False, rename="camel"):
    """CPUStats."""

    time: str = ""
    usage_nano_cores: float | None = None
    usage_core_nano_seconds: float | None = None
    psi: Pressure | None = None


class Memory(msgspec.Struct, gc=False, rename="camel"):
    """MemoryStats."""

    time: str = ""
    working_set_bytes: float | None = None
    psi: Pressure | None = None


class Filesystem(msgspec.Struct, gc=False, rename="camel"):
    """FsStats."""

    time: str = ""
    capacity_bytes: float | None = None
    used_bytes: float | None = None


class Io(msgspec.Struct, gc=False):
    """IOStats."""

    time: str = ""
    psi: Pressure | None = None


class Interface(msgspec.Struct, gc=False, rename="camel"):
    """InterfaceStats."""

    name: str = ""
    rx_bytes: float | None = None
    tx_bytes: float | None = None


class Network(msgspec.Struct, gc=False, rename="camel"):
    """NetworkStats; the fields beside `interfaces` are those of the default interface."""

    time: str = ""
    name: str = ""
    rx_bytes: float | None = None
    tx_bytes: float | None = None
    interfaces: list[Interface] | None = None


class PodReference(msgspec.Struct, gc=False):
    """PodReference."""

    name: str = ""
    namespace: str = ""


class PodStats(msgspec.Struct, gc=False, rename="camel"):
    """PodStats: what all containers of a pod use together."""

    pod_ref: PodReference = msgspec.field(default_factory=PodReference)
    cpu: Cpu | None = None
    memory: Memory | None = None


class NodeStats(msgspec.Struct, gc=False):
    """NodeStats."""

    cpu: Cpu = msgspec.field(default_factory=Cpu)
    memory: Memory = msgspec.field(default_factory=Memory)
    network: Network = msgspec.field(default_factory=Network)
    fs: Filesystem | None = None
    io: Io | None = None


class Summary(msgspec.Struct, gc=False):
    """stats/v1alpha1 Summary."""

    node: NodeStats
    pods: list[PodStats] | None = None


_SUMMARY = msgspec.json.Decoder(Summary)


def read_summary(body: bytes, answered_at: float = 0.0) -> Sample:
    """A summary as a sample; SourceError if it is none. `answered_at`: the kubelet's own clock, 0
    unknown.
    """
    try:
        summary = _SUMMARY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"the summary cannot be read: {error}") from None
    node = summary.node
    memory = Measure(node.memory.working_set_bytes, seconds(node.memory.time))
    measures = {
        signals.CPU: _cpu(node.cpu),
        signals.MEMORY: memory,
        **_network(node.network),
        **_more(node),
    }
    aged = {name: _aged(measure, answered_at) for name, measure in measures.items()}
    return Sample(SOURCE, aged, [_pod_use(one) for one in summary.pods or ()])


def _pod_use(pod: PodStats) -> PodUse:
    cores = _scaled(pod.cpu.usage_nano_cores) if pod.cpu is not None else None
    memory = pod.memory.working_set_bytes if pod.memory is not None else None
    return PodUse(
        pod.pod_ref.namespace,
        pod.pod_ref.name,
        cores,
        memory,
        seconds(pod.cpu.time) if pod.cpu else 0.0,
    )


def _aged(measure: Measure, answered_at: float) -> Measure:
    """With its age by the kubelet's clock; without a value if it was taken in that clock's future."""
    if not answered_at or not measure.time:
        return measure
    value = None if measure.time > answered_at + MAX_AHEAD_S else measure.value
    return replace(measure, value=value, age=max(0.0, answered_at - measure.time))


def _cpu(cpu: Cpu) -> Measure:
    """Cores in use, or where a runtime does not say that, the seconds used so far."""
    cores = _scaled(cpu.usage_nano_cores)
    at = seconds(cpu.time)
    return (
        Measure(cores, at)
        if cores is not None
        else Measure(_scaled(cpu.usage_core_nano_seconds), at, counter=True)
    )


def _network(network: Network) -> dict[str, Measure]:
    interfaces = _own_interfaces(network)
    at = seconds(network.time)
    parts = tuple(sorted(one.name for one in interfaces))
    receive = _total([one.rx_bytes for one in interfaces])
    transmit = _total([one.tx_bytes for one in interfaces])
    return {
        signals.RECEIVE: Measure(receive, at, counter=True, parts=parts),
        signals.TRANSMIT: Measure(transmit, at, counter=True, parts=parts),
    }


def _more(node: NodeStats) -> dict[str, Measure]:
    """Shares that count only where a signal is configured to be made of them: disk space, and time
    spent waiting.
    """
    pressures = {
        signals.PRESSURE_CPU: (node.cpu.psi, node.cpu.time),
        signals.PRESSURE_MEMORY: (node.memory.psi, node.memory.time),
        signals.PRESSURE_IO: (node.io.psi, node.io.time) if node.io is not None else (None, ""),
    }
    found = {
        name: Measure(psi.some.avg10 / 100, seconds(time))
        for name, (psi, time) in pressures.items()
        if psi is not None and psi.some.avg10 is not None
    }
    if node.fs is not None and node.fs.capacity_bytes and node.fs.used_bytes is not None:
        found[signals.DISK] = Measure(
            node.fs.used_bytes / node.fs.capacity_bytes, seconds(node.fs.time)
        )
    return found


def seconds(timestamp: str) -> float:
    """RFC 3339 as seconds of that clock, 0 if unreadable."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _own_interfaces(network: Network) -> list[Interface]:
    listed = network.interfaces or [Interface(network.name, network.rx_bytes, network.tx_bytes)]
    return [one for one in listed if not one.name.startswith(VIRTUAL)]


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _scaled(nano: float | None) -> float | None:
    return nano / 1e9 if nano is not None else None


def no_address(target: NodeTarget) -> SourceError:
    """Why a node cannot be asked at all."""
    return SourceError(f"node {target.name} has no InternalIP")


def host_of(target: NodeTarget) -> str:
    """A node's InternalIP as the host of a URL; SourceError without a usable one."""
    try:
        address = ipaddress.ip_address(target.address)
    except ValueError:
        raise no_address(target) from None
    return f"[{address}]" if address.version == 6 else str(address)


def url_of(target: NodeTarget, path: str) -> str:
    """Where a node's kubelet answers; SourceError without a usable InternalIP."""
    return f"https://{host_of(target)}:{target.port}{path}"


def summary_url(target: NodeTarget) -> str:
    """Of its summary; SourceError as of `url_of`."""
    return url_of(target, "/stats/summary?only_cpu_and_memory=false")


class Kubelets:
    """Asks kubelets over one pool. The token goes to a kubelet only after its certificate was
    verified.
    """

    def __init__(self, tls: ssl.SSLContext, headers: Headers, timeout_s: float) -> None:
        self._headers = headers
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=60),
            headers={"User-Agent": "global-dispatcher-agent"},
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def sample(self, target: NodeTarget) -> Sample:
        """One node's sample; SourceError says why there is none."""
        body, date = await self._ask(target, summary_url(target))
        return read_summary(body, date_of(date))

    async def page(self, target: NodeTarget, path: str) -> bytes:
        """What the kubelet answers there; SourceError says why there is nothing."""
        return (await self._ask(target, url_of(target, path)))[0]

    async def _ask(self, target: NodeTarget, url: str) -> tuple[bytes, str | None]:
        """Body and date of an answer."""
        try:
            headers = await self._headers()
            async with self._http.get(
                url, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as answer:
                body = await _bounded(answer)
        except TimeoutError:
            raise SourceError(
                f"kubelet of {target.name}: no answer within {self._timeout.total:g} s"
            ) from None
        except SourceError:
            raise
        except (aiohttp.ClientError, OSError, RuntimeError, ValueError) as error:
            raise SourceError(
                f"kubelet of {target.name}: {type(error).__name__}: {error}"[:300]
            ) from None
        if answer.status != 200:
            said = body[:100].decode("utf-8", "replace").strip()
            raise SourceError(f"kubelet of {target.name} answers {answer.status}: {said}")
        return body, answer.headers.get("Date")

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            answer.close()
            raise ValueError("the answer is too large")
    return bytes(body)
