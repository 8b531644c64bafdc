"""Two listeners of one process cannot have one port."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pydantic import ValidationError

from agents.runtime.join.settings import JoinSettings
from dispatcher.config.agents import relay_settings
from dispatcher.config.document import Document
from dispatcher.config.gateway import here
from dispatcher.config.problems import Path, Problem, dotted
from dispatcher.config.sections import ConfigFile
from shared.streams.calls import EXECUTOR, OBSERVER

_EVERY = ("", "0.0.0.0", "::")  # noqa: S104 - to compare with
_LOOPBACK = {"localhost": "127.0.0.1"}


class Listener(NamedTuple):
    """Where something listens, and the key that says so. Port 0 is any free one."""

    key: Path
    host: str
    port: int


def listener_problems(config: ConfigFile, document: Document) -> list[Problem]:
    """Of the dispatcher's process, and of agents beside it."""
    return _port_problems([*_of_dispatcher(config)], document)


def agent_listener_problems(settings: JoinSettings, document: Document) -> list[Problem]:
    """Of an agent's process."""
    return _port_problems([*_of_agent(settings)], document)


def _of_dispatcher(config: ConfigFile) -> Iterator[Listener]:
    yield Listener(("http", "port"), config.http.host, config.http.port)
    if len(here(config.clusters)) < len(config.clusters):
        yield Listener(("gateway", "port"), config.gateway.host, config.gateway.port)
    if here(config.clusters):
        yield Listener(("ray", "port"), "", config.ray.port)
    for at, cluster in enumerate(config.clusters if not config.ray.address else ()):
        with suppress(ValidationError):  # told by `agent_problems`
            relay = relay_settings(cluster)
            if relay is not None:
                yield Listener(("clusters", at, "agent", "relay", "port"), relay.host, relay.port)


def _of_agent(settings: JoinSettings) -> Iterator[Listener]:
    yield Listener(("health", "port"), settings.health.host, settings.health.port)
    if settings.metrics.enabled:
        yield Listener(("metrics", "port"), settings.metrics.host, settings.metrics.port)
    if settings.relay is not None and settings.role != OBSERVER:
        yield Listener(("relay", "port"), settings.relay.host, settings.relay.port)
    host, _, port = settings.links.listen.rpartition(":")
    if port.isdecimal():
        yield Listener(("links", "listen"), host.strip("[]"), int(port))
    if settings.links.pod_port and settings.role != EXECUTOR:
        yield Listener(("links", "pod_port"), settings.links.pod_address, settings.links.pod_port)


def _port_problems(listeners: Sequence[Listener], document: Document) -> list[Problem]:
    """Each that has the port of an earlier one."""
    return [
        document.problem(
            one.key,
            f"port {one.port} is that of {dotted(other.key)}, too: give each a port of its own",
        )
        for at, one in enumerate(listeners)
        if (other := next((other for other in listeners[:at] if _meet(one, other)), None))
    ]


def _meet(one: Listener, other: Listener) -> bool:
    hosts = [_LOOPBACK.get(host, host) for host in (one.host, other.host)]
    return one.port == other.port != 0 and (
        hosts[0] == hosts[1] or any(host in _EVERY for host in hosts)
    )
