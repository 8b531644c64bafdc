"""The agent of a cluster as a process of its own: `global-dispatcher agent --config FILE`."""

import ipaddress
import signal
import sys
import threading
from pathlib import Path

import structlog
from pydantic import BaseModel

from agents.runtime.join.dial_out import dial_out
from agents.runtime.join.settings import JoinSettings, WrongConfiguration, read_settings
from shared.process.logs import configure_logging

WRONG = 2


def join(file: Path, node_ip: str = "", role: str = "") -> int:
    """Be the agent with the settings of a file, and stay; the exit code. `node_ip` is taken for an
    empty `relay.address` and `links.pod_address`, `role` for the one there.

    0 stopped by a signal, 2 wrong configuration. Main thread only.
    """
    try:
        return _join(file, node_ip, role)
    except WrongConfiguration as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return WRONG


def _join(file: Path, node_ip: str, role: str) -> int:
    settings = read_settings(file, {"role": role} if role else {})
    settings = _at(settings, node_ip)
    configure_logging(settings.log_level)
    stop = threading.Event()
    listen_to_signals(stop)
    with structlog.contextvars.bound_contextvars(cluster=settings.cluster):
        return dial_out(settings, stop)


def _at(settings: JoinSettings, node_ip: str) -> JoinSettings:
    """With the address of this process, where the file does not say another."""
    update: dict[str, BaseModel] = {}
    if settings.relay and not settings.relay.address:
        update["relay"] = settings.relay.model_copy(update={"address": node_ip})
    if not settings.links.pod_address and _is_ip(node_ip):
        update["links"] = settings.links.model_copy(update={"pod_address": node_ip})
    return settings.model_copy(update=update)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def listen_to_signals(stop: threading.Event) -> None:
    """SIGINT and SIGTERM set `stop`; main thread only."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
