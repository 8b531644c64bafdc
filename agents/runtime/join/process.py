"""The agent of a cluster as a process of its own: `global-dispatcher agent --config FILE`.

With `gateway` it dials out (`dial_out`). With `ray` it starts a Ray node that offers the cluster's resource, joins it
to the fleet's Ray head, makes the cluster's actor on it with the settings of this file, and stays as long as node, head
and actor are there. What Ray does may hang for minutes when the head is gone, so it happens in a thread that the main
thread only watches.
"""

import signal
import sys
import threading
from pathlib import Path

import structlog

from agents.runtime.join.dial_out import dial_out
from agents.runtime.join.health import Beat, serving
from agents.runtime.join.membership import Membership
from agents.runtime.join.node import head_answers, node_options, prepare_environment, ray_node
from agents.runtime.join.settings import JoinSettings, WrongConfiguration, read_settings
from shared.process.logs import configure_logging

LOG = structlog.get_logger("join")
STOPPED = 0
LOST = 1
WRONG = 2


def join(file: Path, node_ip: str = "", role: str = "") -> int:
    """Join with the settings of a file and stay; the exit code. `node_ip` and `role` take the place of those there.

    0 stopped by a signal, 1 lost (to be started again), 2 wrong configuration. Main thread only.
    """
    try:
        return _join(file, node_ip, role)
    except WrongConfiguration as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return WRONG


def _join(file: Path, node_ip: str, role: str) -> int:
    settings = read_settings(file, {"role": role} if role else {})
    if settings.ray:
        prepare_environment(settings.ray.address, node_ip or settings.ray.node_ip)
    if node_ip and settings.ray:
        settings = settings.model_copy(update={"ray": settings.ray.model_copy(update={"node_ip": node_ip})})
    if settings.relay and not settings.relay.address:
        settings = settings.model_copy(update={"relay": settings.relay.model_copy(update={"address": node_ip})})
    configure_logging(settings.log_level)
    stop = threading.Event()
    listen_to_signals(stop)
    with structlog.contextvars.bound_contextvars(cluster=settings.cluster):
        return stay(settings, stop) if settings.ray else dial_out(settings, stop)


def stay(settings: JoinSettings, stop: threading.Event) -> int:
    """Join, and stay until `stop` or until something is lost; returns the exit code."""
    membership = Membership(settings)
    beat = Beat()
    with serving(membership.unwell, settings.health, beat):
        if head_answers(settings.node, stop, beat):
            return _be_member(settings, membership, stop, beat)
    return STOPPED if stop.is_set() else LOST


def _be_member(settings: JoinSettings, membership: Membership, stop: threading.Event, beat: Beat) -> int:
    handlers = False
    if not settings.agent.orders.verified:
        LOG.warning("orders are not verified", problem="whoever runs code in this Ray is obeyed: set orders.authority")
    with ray_node(node_options(settings)) as node:
        membership.start()
        while not stop.wait(0.5):
            beat()
            ended = node.poll()
            why = f"the Ray node ended with {ended}" if ended is not None else membership.overdue()
            if why:
                LOG.error("leaving", problem=why)
                return LOST
            if membership.joined and not handlers:
                handlers = listen_to_signals(stop)  # Ray has put its own in their place
        LOG.info("stopping")
        membership.leave()
    return STOPPED


def listen_to_signals(stop: threading.Event) -> bool:
    """SIGINT and SIGTERM set `stop`; main thread only."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return True
