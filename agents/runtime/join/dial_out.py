"""The agent in this process: it dials out, and does its local duties with gateways and without."""

import asyncio
import threading

import structlog

from agents.runtime.agent import Agent
from agents.runtime.executor_identity import lasting_identity
from agents.runtime.join.health import Beat, serving
from agents.runtime.join.settings import JoinSettings
from agents.runtime.outbound.answering import answers_of, serve_none
from agents.runtime.outbound.dialling import Dialler
from shared.process.event_loop import run
from shared.process.keyfile import KeyFileError
from shared.process.limits import allow_open_files, collect_less_often, keep_freed_memory
from shared.streams.calls import OBSERVER

LOG = structlog.get_logger("join")
_LOOK_S = 0.2
_BEAT_S = 1.0
STARTING = "starts"
STOPPED = 0
WRONG = 2


class Outbound:
    """What /readyz asks. `problem` is '' while at least one dispatcher reaches the agent."""

    def __init__(self) -> None:
        self.dialler: Dialler | None = None

    def unwell(self) -> str:
        """What is wrong now."""
        if self.dialler is None:
            return STARTING
        return "" if self.dialler.connected else "; ".join(self.dialler.problems.values())


def dial_out(settings: JoinSettings, stop: threading.Event) -> int:
    """Be the agent until `stop`; returns the exit code. No cut, however long, ends it."""
    allow_open_files()
    collect_less_often()
    keep_freed_memory()
    outbound = Outbound()
    beat = Beat()
    try:
        with serving(outbound.unwell, settings.health, beat):
            run(_work(settings, outbound, stop, beat))
    except KeyFileError as error:
        LOG.error("leaving", problem=str(error))
        return WRONG
    return STOPPED


async def _work(
    settings: JoinSettings, outbound: Outbound, stop: threading.Event, beat: Beat
) -> None:
    beating = asyncio.create_task(
        _beats(beat), name="beats"
    )  # also while the API server does not answer at the start
    try:
        await be_agent(settings, outbound, stop)
    finally:
        beating.cancel()


async def _beats(beat: Beat) -> None:
    while True:
        beat()
        await asyncio.sleep(_BEAT_S)


async def be_agent(
    settings: JoinSettings, outbound: Outbound, stop: threading.Event, *, shared: bool = True
) -> None:
    """Until `stop`. `shared`: the gateway may be dialled by other executors of the cluster, too, of
    which the one that holds the Lease keeps its place.
    """
    identity = "" if settings.role == OBSERVER else lasting_identity(settings.cluster)
    agent = Agent(settings.agent, identity)
    await agent.start()
    role = settings.role
    serve = serve_none if role == OBSERVER else agent.far_end.serve
    answers = answers_of(agent, role, agent.gate)
    lease = agent.lease if shared else None
    dialler = Dialler(settings.gateway, settings.cluster, answers, serve, role, lease)
    outbound.dialler = dialler
    if role != OBSERVER:
        agent.fetch_over(dialler.open_streams)
    dialling = asyncio.create_task(dialler.run(), name="dialler")
    if settings.relay is not None and settings.relay.address and role != OBSERVER:
        agent.serve_kubelet_endpoint(settings.relay, dialler.open_streams)
    try:
        while not stop.is_set() and not dialling.done():
            await asyncio.wait(
                {dialling}, timeout=_LOOK_S
            )  # signals come by a flag of the main thread
        if dialling.done():
            dialling.result()
    finally:
        LOG.info("stopping")
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
        await agent.stop()
