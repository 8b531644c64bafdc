"""Gateway actors on Ray: detached, so that they and the agents' connections outlive the dispatcher; found by name.

Only bytes cross. The gateway has a thread and an event loop of its own, so that it listens as soon as Ray has started
its process again, whether or not a dispatcher is there to call it. The one place of this package that imports Ray.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

import ray
import structlog
from ray.exceptions import RayError
from ray.util import list_named_actors

from dispatcher.config.sections import GatewaySection
from dispatcher.service.beside import beside
from dispatcher.service.gateway.actor_settings import (
    ActorSettings,
    NamedSettings,
    beyond,
    decoded,
    digest_of,
    settings_of,
)
from dispatcher.service.gateway.exchange import Exchange
from dispatcher.service.gateway.remote import SILENT_S, Actor
from dispatcher.service.gateway.serving import Serving
from dispatcher.service.gateway.sparing_log import LastingLog
from dispatcher.service.link import AgentDied, AgentTimeout, within
from dispatcher.service.ray_caller import first_line, in_thread, only_bytes
from dispatcher.service.ray_runtime import GATEWAY_RESOURCE, NAMESPACE
from shared.model.backoff import Backoff
from shared.process.event_loop import run
from shared.process.limits import allow_open_files, collect_less_often
from shared.process.logs import configure_logging, log_path
from shared.version import version

T = TypeVar("T")
log = structlog.get_logger("gateway")

MAX_CONCURRENCY = 64  # calls of dispatchers under way at once
_OPEN_S = 30.0  # to find or make an actor
_STARTING_S = 10.0
_MISMATCHED_POLL_S = 1.0  # a long poll of an actor with other settings: it is replaced soon after this dispatcher leads
_REPLACING = Backoff(2.0, 60.0)  # so that two that lead, with different configurations, do not end it all the time
_HANGS = 4  # calls without an answer, some of which wait 15 s: its agents find another within 30 s
_GONE_S = 0.02  # between two looks whether an actor that was killed is gone
SURPLUS_S = 2.0  # between two looks for actors beyond the configured number


class GatewayActor:
    """Holds agents' connections in a thread of its own."""

    def __init__(self, settings: bytes) -> None:
        """What of it cannot be used is told to callers: with an exception here Ray would make it again and again."""
        self._encoded = settings
        allow_open_files()
        collect_less_often()
        try:
            self._serving: Serving | str = _serving(*decoded(settings))
        except ValueError as error:
            self._serving = str(error)
            log.error("the gateway actor cannot serve", problem=self._serving, version=version())
        else:
            threading.Thread(target=run, args=(self._serving.run(),), name="gateway", daemon=True).start()

    async def digest(self) -> str:
        """Of its settings."""
        return digest_of(self._encoded)

    async def send(self, session: str, batch: bytes) -> None:
        """As of Exchange."""
        await self._call(lambda exchange: exchange.send(session, batch))

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        """As of Exchange."""
        return await self._call(lambda exchange: exchange.collect(since, wait_s))

    async def relayed(self, passed: bytes) -> bool:
        """As of Peers.take, from another actor."""
        return await self._call(lambda exchange: exchange.peers.take(passed))

    async def _call(self, call: Callable[[Exchange], Coroutine[Any, Any, T]]) -> T:
        if isinstance(self._serving, str):
            raise RuntimeError(self._serving)
        return await self._serving.call(call)


def _serving(settings: ActorSettings, unknown: tuple[str, ...]) -> Serving:
    """With a log of its own from here on. ValueError: the settings cannot be used."""
    configure_logging(settings.known_level, str(log_path(settings.name)))
    log.info("gateway actor begins", actor=settings.name, pid=os.getpid(), version=version(), made_by=settings.build)
    return Serving(settings, OtherActors().pass_on, unknown)


class OtherActors:
    """The way from one actor to the others, found by name."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}

    async def pass_on(self, name: str, passed: bytes) -> bool:
        """As of PassOn. Raises what Ray raises."""
        if name not in self._handles:
            self._handles[name] = await in_thread(lambda: ray.get_actor(name, namespace=NAMESPACE), f"find {name}")
        try:
            known: bool = await self._handles[name].relayed.remote(passed)
        except RayError:
            self._handles.pop(name, None)
            raise
        return known


class RayActor:
    """An actor behind Ray. While this dispatcher leads, one that is gone for good is made anew, and one with other
    settings replaced; a standby takes what is there. Where there is no gateway actor at all a standby makes its own:
    the leader may have none in its configuration, and without them a rolling upgrade to some would wait for ever.
    """

    def __init__(self, settings: NamedSettings, leads: Callable[[], bool]) -> None:
        self._settings = settings
        self._leads = leads
        self._wanted = digest_of(settings.encoded())
        self._handle: Any = None
        self._opening: asyncio.Future[Any] | None = None
        self._mismatched = ""  # the digest of its settings, where those are not ours
        # how often we have, and when we may again
        self._replaced = 0
        self._not_before = 0.0
        self._unanswered = 0  # calls in a row

    async def send(self, session: str, batch: bytes) -> None:
        """As of Actor."""
        await self._call("send", session, batch)

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        """As of Actor."""
        answer = await self._call("collect", since, wait_s=wait_s)
        return only_bytes(answer, self._settings.name, "collect")

    async def _call(self, method: str, *args: object, wait_s: float | None = None) -> Any:
        """`wait_s`, of calls that wait: how long the actor may at most, which is the last argument."""
        name = self._settings.name
        handle = None
        asked = "its look-up"
        try:
            handle = await self._actor()
            asked = method
            if wait_s is not None:
                wait_s = min(wait_s, _MISMATCHED_POLL_S) if self._mismatched else wait_s  # known once it is found
                args = (*args, wait_s)
            answer = await within(getattr(handle, method).remote(*args), (wait_s or 0.0) + SILENT_S, name, method)
        except AgentTimeout:
            if handle is not None:
                self._end_if_it_hangs(handle)
            raise AgentDied(f"no answer to {asked}") from None
        except ray.exceptions.ActorUnavailableError:
            raise AgentDied("it is restarting") from None
        except ray.exceptions.ActorDiedError as error:
            if self._handle is handle:
                self._handle = None
            raise AgentDied(f"it died: {first_line(error)}") from None
        except (RayError, ValueError, RuntimeError) as error:
            raise AgentDied(first_line(error)) from None
        self._unanswered = 0
        return answer

    def _end_if_it_hangs(self, handle: Any) -> None:
        """A call has had no answer: after some in a row, who leads ends its process, and Ray begins another."""
        self._unanswered += 1
        if self._unanswered >= _HANGS and self._leads():
            self._unanswered = 0
            log.warning("a gateway actor that does not answer is begun anew", actor=self._settings.name)
            in_thread(lambda: ray.kill(handle, no_restart=False), f"begin {self._settings.name} anew")

    async def _actor(self) -> Any:
        if self._handle is None or (self._mismatched and self._may_replace()):
            if self._opening is None or self._opening.done():
                self._opening = in_thread(self._open, f"open {self._settings.name}")
            self._handle = await within(asyncio.shield(self._opening), _OPEN_S, self._settings.name, "its look-up")
        return self._handle

    def _may_replace(self) -> bool:
        return self._leads() and time.monotonic() >= self._not_before

    def _open(self) -> Any:
        """May block. Compares its settings with ours each time, as another dispatcher may have made it meanwhile."""
        actor, digest = self._found()
        if digest != self._wanted and self._may_replace():
            self._replaced += 1
            self._not_before = time.monotonic() + _REPLACING.after(self._replaced)
            log.warning("a gateway actor with other settings than ours is replaced", actor=self._settings.name)
            ray.kill(actor)
            _wait_until_gone(actor, self._settings.name)
            actor, digest = self._found()
        mismatched = "" if digest == self._wanted else digest
        if mismatched and mismatched != self._mismatched:
            log.warning(
                "a gateway actor was made by a dispatcher with other settings or of another version: it is used as it"
                " is until this dispatcher leads and may replace it",
                actor=self._settings.name,
            )
        self._mismatched = mismatched
        return actor

    def _found(self) -> tuple[Any, str]:
        """The actor, and the digest of its settings. One that has not started is looked up anew by the next call, every
        12 s: another dispatcher may have replaced it meanwhile.
        """
        if self._leads() or not beyond(0, list_named_actors()):
            actor = make_actor(self._settings)
        else:
            try:
                actor = ray.get_actor(self._settings.name, namespace=NAMESPACE)
            except ValueError:
                raise ValueError("it is not there yet: the dispatcher that leads makes it") from None
        answer = actor.digest.remote()
        try:
            digest: str = ray.get(answer, timeout=_STARTING_S)
        except ray.exceptions.GetTimeoutError:  # as where other actors have taken all of the resource
            ray.cancel(answer)  # Ray keeps calls to it until it starts: 29 MB a day were measured
            raise ValueError(
                f"it has not started: is there a node with a free `{GATEWAY_RESOURCE}` resource?"
            ) from None
        return actor, digest


def make_actor(settings: NamedSettings) -> Any:
    """Found by name, else made on a node that offers `gateway`. It restarts for ever; Ray tries no call again."""
    _require_room()
    options = ray.remote(GatewayActor).options(
        name=settings.name,
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=0,
        resources={GATEWAY_RESOURCE: 1},
        scheduling_strategy="SPREAD",
        max_concurrency=MAX_CONCURRENCY,
    )
    return options.remote(settings.encoded())


def open_actors(
    section: GatewaySection, clusters: tuple[str, ...], log_level: str, leads: Callable[[], bool] = lambda: True
) -> dict[str, Actor]:
    """A way to each actor that the configuration asks for, by name. Only who `leads` makes and replaces them, so that
    dispatchers that differ in their configuration do not end each other's; it is called from any thread.
    """
    return {one.name: RayActor(one, leads) for one in settings_of(section, clusters, log_level)}


def ending_surplus(number: int, leads: Callable[[], bool]) -> AbstractAsyncContextManager[None]:
    """Within, while this dispatcher leads, actors beyond this number are ended: it asks nothing of them, so agents
    connected to one would stay unheard.
    """
    return beside(Surplus(number, leads).run, "surplus gateway actors are ended")


class Surplus:
    """Actors beyond the configured `number`. Another that leads, or is of an older version, may make them again: each
    is ended again 2 s later at first, up to 60 s later on.
    """

    def __init__(self, number: int, leads: Callable[[], bool]) -> None:
        self._number = number
        self._leads = leads
        self._ended: dict[str, tuple[int, float]] = {}  # how often, and when it may be again
        self._problems: dict[str, LastingLog] = {}  # of those that could not be ended

    async def run(self) -> None:
        """Look again and again."""
        while True:
            if self._leads():
                with suppress(Exception):  # where Ray is away, calls to actors tell of it
                    for name in beyond(self._number, await in_thread(list_named_actors, "list actors")):
                        await self._end(name)
            await asyncio.sleep(SURPLUS_S)

    async def _end(self, name: str) -> None:
        times, not_before = self._ended.get(name, (0, 0.0))
        if not self._leads() or time.monotonic() < not_before:
            return
        try:
            await in_thread(lambda: ray.kill(ray.get_actor(name, namespace=NAMESPACE)), f"end {name}")
        except ValueError:  # another has ended it
            return
        except Exception as error:  # the others end all the same
            lasting = LastingLog("a surplus gateway actor cannot be ended", actor=name)
            self._problems.setdefault(name, lasting).tell(first_line(error))
            return
        self._problems.pop(name, None)
        self._ended[name] = times + 1, time.monotonic() + _REPLACING.after(times + 1)
        log.warning("a gateway actor beyond the configured number was ended", actor=name, actors=self._number)


def _wait_until_gone(actor: Any, name: str) -> None:
    """Until nobody has its name, or another actor does."""
    until = time.monotonic() + _STARTING_S
    while time.monotonic() < until:
        try:
            if ray.get_actor(name, namespace=NAMESPACE) != actor:
                return
        except ValueError:
            return
        time.sleep(_GONE_S)


def _require_room() -> None:
    """ValueError unless a living node offers the resource; without one an actor would wait for ever."""
    if not any(node["Alive"] and node["Resources"].get(GATEWAY_RESOURCE) for node in ray.nodes()):
        raise ValueError(
            f"no Ray node offers {GATEWAY_RESOURCE!r}: start one with --resources='{{\"{GATEWAY_RESOURCE}\": 1}}' "
            "for each gateway actor that it may run"
        )
