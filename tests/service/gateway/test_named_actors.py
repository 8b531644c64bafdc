"""How the dispatcher finds gateway actors by name, and which of them it ends; Ray's calls are played."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from structlog.testing import capture_logs

from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway import actor
from dispatcher.service.gateway.actor import ending_surplus, open_actors
from dispatcher.service.gateway.actor_settings import ActorSettings, digest_of
from dispatcher.service.link import AgentDied
from shared.model.backoff import Backoff
from tests.service.gateway.test_gateway import eventually


@dataclass
class PlayedRay:
    """Names, and which actor has each."""

    held: dict[str, object]
    killed: list[object] = field(default_factory=list)

    def get_actor(self, name: str, namespace: str) -> object:
        if name not in self.held:
            raise ValueError(f"no actor {name}")
        return self.held[name]

    def kill(self, one: object) -> None:
        self.killed.append(one)
        self.held = {name: other for name, other in self.held.items() if other != one}


@contextmanager
def played(*names: str) -> Iterator[PlayedRay]:
    """A Ray with actors of these names, each known by its name."""
    with pytest.MonkeyPatch.context() as patch:
        one = PlayedRay({name: name for name in names})
        for call in (one.get_actor, one.kill):
            patch.setattr(ray, call.__name__, call)
        patch.setattr(actor, "list_named_actors", lambda: list(one.held))
        patch.setattr(actor, "SURPLUS_S", 0.01)
        patch.setattr(actor, "_REPLACING", Backoff(0.02, 0.64))
        yield one


FLEET = ("gateway-0", "gateway-1", "gateway-2", "gateway-4", "gateway-10", "agent:gateway-7", "gateway-x")
KEPT = {"gateway-0", "gateway-1", "agent:gateway-7", "gateway-x"}


def test_who_starts_beside_a_leader_with_more_actors_ends_none_of_them() -> None:
    with played(*FLEET) as one:
        assert list(open_actors(GatewaySection(actors=2), ("east",), "info")) == ["gateway-0", "gateway-1"]
        assert one.killed == []


async def test_actors_beyond_the_configured_number_end_once_this_dispatcher_leads() -> None:
    leads = False
    with played(*FLEET) as one:
        async with ending_surplus(2, lambda: leads):
            await asyncio.sleep(0.05)
            assert one.killed == []
            leads = True
            await eventually(lambda: set(one.held) == KEPT)


async def test_an_actor_that_a_standby_makes_again_ends_again() -> None:
    with played(*FLEET) as one:
        async with ending_surplus(2, lambda: True):
            await eventually(lambda: set(one.held) == KEPT)
            one.held["gateway-2"] = "gateway-2"
            await eventually(lambda: set(one.held) == KEPT)
    assert one.killed.count("gateway-2") == 2


async def test_an_actor_that_comes_again_and_again_is_ended_later_and_later() -> None:
    with played("gateway-5") as one, capture_logs() as lines:
        begun, pauses = time.monotonic(), actor._REPLACING
        async with ending_surplus(2, lambda: True):
            for _ in range(100):
                one.held["gateway-5"] = "gateway-5"
                await asyncio.sleep(0.01)
            await eventually(lambda: 1 < len(one.killed) == len(lines))  # it is logged after it has ended
        lasted = time.monotonic() - begun
    # again after 0.02, 0.06, 0.14, 0.3, 0.62 s at the earliest, and so on
    assert sum(map(pauses.after, range(1, len(one.killed)))) <= lasted


async def test_one_that_another_has_ended_meanwhile_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with played("gateway-5", "gateway-6") as one, capture_logs() as lines:
        monkeypatch.setattr(actor, "list_named_actors", lambda: ["gateway-4", *one.held])
        async with ending_surplus(2, lambda: True):
            await eventually(lambda: not one.held and len(lines) == 2)  # it is logged after it has ended
            await asyncio.sleep(0.05)
    assert {line["actor"] for line in lines} == {"gateway-5", "gateway-6"}


async def test_one_that_cannot_be_ended_is_tried_again_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    def hangs(_: object) -> None:
        nonlocal tried
        tried += 1
        raise RuntimeError("Ray is busy")

    with played("gateway-5"), capture_logs() as lines:
        monkeypatch.setattr(ray, "kill", hangs)
        async with ending_surplus(2, lambda: True):
            await eventually(lambda: tried > 3)
    assert [(line["actor"], line["problem"]) for line in lines] == [("gateway-5", "Ray is busy")]


async def test_who_leads_no_more_once_the_actors_are_listed_ends_none() -> None:
    answers = iter([True])
    with played("gateway-5") as one:
        async with ending_surplus(2, lambda: next(answers, False)):
            await asyncio.sleep(0.1)
        assert (one.killed, next(answers, None)) == ([], None)


async def test_one_that_cannot_be_ended_keeps_no_other_and_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with played(*FLEET) as one, capture_logs() as lines:
        tries: list[object] = []

        def stays(name: object) -> None:
            if name == "gateway-2":
                tries.append(name)
                raise ray.exceptions.RaySystemError("it does not go")
            one.kill(name)

        monkeypatch.setattr(ray, "kill", stays)
        async with ending_surplus(2, lambda: True):
            await eventually(lambda: set(one.held) == KEPT | {"gateway-2"} and len(tries) > 2)
    told = [line for line in lines if line["event"] == "a surplus gateway actor cannot be ended"]
    assert [(line["actor"], "it does not go" in line["problem"]) for line in told] == [("gateway-2", True)]


@pytest.mark.parametrize("odd", [RuntimeError, OSError, ray.exceptions.RaySystemError])
async def test_a_ray_that_cannot_be_asked_is_asked_again(odd: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []

    def away() -> list[str]:
        asked.append(None)
        raise odd("Ray is away")

    with played(*FLEET):
        monkeypatch.setattr(actor, "list_named_actors", away)
        async with ending_surplus(2, lambda: True):
            await eventually(lambda: len(asked) > 1)


@pytest.mark.parametrize("after", [{}, {"gateway-0": "another"}])
def test_an_actor_is_gone_when_nobody_or_another_has_its_name(after: dict[str, object]) -> None:
    with played("gateway-0") as one:
        one.held = after
        begun = time.monotonic()
        actor._wait_until_gone("gateway-0", "gateway-0")
        assert time.monotonic() - begun < actor._STARTING_S / 2


def test_an_actor_that_still_has_its_name_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "_STARTING_S", 0.1)
    with played("gateway-0"):
        begun = time.monotonic()
        actor._wait_until_gone("gateway-0", "gateway-0")
        assert time.monotonic() - begun >= 0.1


# --- who makes and replaces them -------------------------------------------------------------------------------------


class MadeActor:
    """An actor, by what it was made with."""

    def __init__(self, settings: ActorSettings) -> None:
        self.clusters, self.polls, self.ended = settings.clusters, list[float](), False
        digest = digest_of(settings.encoded())
        self.digest = SimpleNamespace(remote=lambda: digest)
        self.collect = SimpleNamespace(remote=self._collect)

    async def _collect(self, since: bytes, wait_s: float) -> bytes:
        if self.ended:
            raise ray.exceptions.ActorDiedError
        self.polls.append(wait_s)
        return " ".join(self.clusters).encode()


@dataclass
class PlayedFleet(PlayedRay):
    """Which makes actors, too."""

    made: list[MadeActor] = field(default_factory=list)

    def make_actor(self, settings: ActorSettings) -> Any:
        if settings.name not in self.held:
            self.made.append(MadeActor(settings))
            self.held[settings.name] = self.made[-1]
        return self.held[settings.name]

    def kill(self, one: object) -> None:
        super().kill(one)
        if isinstance(one, MadeActor):
            one.ended = True


@pytest.fixture
def rays(monkeypatch: pytest.MonkeyPatch) -> PlayedFleet:
    one = PlayedFleet({})
    for call in (one.get_actor, one.kill):
        monkeypatch.setattr(ray, call.__name__, call)
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer)
    monkeypatch.setattr(actor, "make_actor", one.make_actor)
    monkeypatch.setattr(actor, "list_named_actors", lambda: list(one.held))
    return one


Poll = Callable[[], Any]


def dispatcher(*clusters: str, leads: Callable[[], bool]) -> Poll:
    """A poll of gateway-0 by a dispatcher with these clusters; which clusters the actor was made with."""
    opened = open_actors(GatewaySection(actors=1), clusters, "info", leads)["gateway-0"]

    async def poll() -> str:
        return (await opened.collect(b"", 10.0)).decode()

    return poll


def always() -> bool:
    return True


def never() -> bool:
    return False


def made_with(rays: PlayedFleet) -> list[str]:
    return [" ".join(one.clusters) for one in rays.made]


def used_as_it_is(lines: list[Any]) -> list[Any]:
    return [line for line in lines if "it is used as it is" in line["event"]]


async def test_a_standby_takes_an_actor_with_other_settings_as_it_is_and_says_so_once(rays: PlayedFleet) -> None:
    leader, standby = dispatcher("east", "west", leads=always), dispatcher("east", leads=never)
    assert await leader() == "east west"
    with capture_logs() as lines:
        assert [await standby() for _ in range(3)] == ["east west"] * 3
        assert (rays.killed, made_with(rays)) == ([], ["east west"])
        rays.kill(rays.made[0])
        for poll in (leader, standby):
            with pytest.raises(AgentDied):
                await poll()
        assert [await leader(), await standby()] == ["east west"] * 2
    assert [line["actor"] for line in used_as_it_is(lines)] == ["gateway-0"]


async def test_a_standby_whose_leader_has_no_actors_makes_its_own(rays: PlayedFleet) -> None:
    rays.held["agent:east"] = "of a cluster with `via: ray`"
    assert (await dispatcher("east", leads=never)(), made_with(rays)) == ("east", ["east"])


async def test_a_standby_makes_no_actor_and_finds_the_one_that_the_leader_makes(rays: PlayedFleet) -> None:
    leader, standby = dispatcher("east", leads=always), dispatcher("east", leads=never)
    rays.held["gateway-1"] = "of the leader"
    with pytest.raises(AgentDied, match="it is not there yet: the dispatcher that leads makes it"):
        await standby()
    assert (made_with(rays), await leader(), await standby()) == ([], "east", "east")


async def test_a_standby_that_leads_later_replaces_the_actor_with_other_settings_within_a_second_or_two(
    rays: PlayedFleet,
) -> None:
    leads = False
    before, after = dispatcher("east", leads=always), dispatcher("east", "west", leads=lambda: leads)
    assert [await before(), await after()] == ["east", "east"]
    assert rays.made[0].polls[1] <= 2.0  # what is asked of it lasts no longer
    leads = True
    assert await after() == "east west"
    assert [one.clusters for one in rays.killed if isinstance(one, MadeActor)] == [("east",)]
    assert await after() == "east west"
    assert rays.made[1].polls == [10.0, 10.0]


async def test_an_actor_that_another_dispatcher_has_replaced_is_replaced_again(rays: PlayedFleet) -> None:
    leader, other = dispatcher("east", "west", leads=always), dispatcher("east", leads=always)
    assert [await leader(), await other()] == ["east west", "east"]
    with pytest.raises(AgentDied, match="it died"):
        await leader()
    assert await leader() == "east west"


async def test_two_that_lead_with_different_settings_replace_the_actor_later_and_later(
    rays: PlayedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(actor, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    leaders = [dispatcher("east", "west", leads=always), dispatcher("east", leads=always)]
    begun = []
    for _ in range(3000):
        before = len(rays.made)
        for poll in leaders:
            try:
                await poll()
            except AgentDied:
                continue
        begun += [now] * (len(rays.made) - before)
        now += 0.1
    replacing = Backoff(2.0, 60.0)
    most = 1 + 2 * sum(1 for times in range(1, 100) if sum(map(replacing.after, range(1, times))) <= 300)
    assert 4 < len(begun) <= most
    assert sum(1 for at in begun if at >= 1240) <= 2


async def test_the_end_of_an_actor_that_was_replaced_meanwhile_does_not_lose_the_new_one(rays: PlayedFleet) -> None:
    opened = open_actors(GatewaySection(actors=1), ("east",), "info")["gateway-0"]
    await opened.collect(b"", 10.0)
    first, held = rays.made[0], asyncio.Event()

    async def hangs(since: bytes, wait_s: float) -> bytes:
        await held.wait()
        raise ray.exceptions.ActorDiedError

    first.collect.remote = hangs
    long_poll = asyncio.create_task(opened.collect(b"", 10.0))
    await asyncio.sleep(0)
    rays.kill(first)
    first.collect.remote = first._collect
    with pytest.raises(AgentDied):
        await opened.collect(b"", 10.0)
    await opened.collect(b"", 10.0)
    looked_up: list[str] = []
    rays.held["gateway-0"].digest.remote = lambda: looked_up.append("again")  # type: ignore[attr-defined]
    held.set()
    with pytest.raises(AgentDied):
        await long_poll
    await opened.collect(b"", 10.0)
    assert looked_up == []


@pytest.mark.parametrize("leads", [True, False])
async def test_an_actor_that_hangs_is_begun_anew_by_who_leads(
    leads: bool, rays: PlayedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll, begun = dispatcher("east", leads=always if leads else never), list[tuple[object, bool]]()
    await poll()
    hung = rays.made[0]
    monkeypatch.setattr(ray, "kill", lambda one, no_restart: begun.append((one, no_restart)))
    monkeypatch.setattr(actor, "SILENT_S", -10.0)  # beyond the poll itself
    hung.collect.remote = lambda since, wait_s: asyncio.sleep(60)
    for _ in range(actor._HANGS):
        assert begun == []
        with pytest.raises(AgentDied, match="no answer to collect"):
            await poll()
    await asyncio.sleep(0.05)
    assert begun == ([(hung, False)] if leads else [])


async def test_one_late_answer_is_no_hanging(rays: PlayedFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    poll, begun = dispatcher("east", leads=always), list[object]()
    await poll()
    monkeypatch.setattr(ray, "kill", lambda one, no_restart: begun.append(one))
    for _ in range(actor._HANGS):
        with monkeypatch.context() as patch:
            patch.setattr(actor, "SILENT_S", -10.0)
            patch.setattr(rays.made[0].collect, "remote", lambda since, wait_s: asyncio.sleep(60))
            with pytest.raises(AgentDied):
                await poll()
        await poll()
    await asyncio.sleep(0.05)
    assert begun == []


async def test_an_actor_that_never_starts_is_missing_with_what_to_look_at_and_no_call_waits_for_it(
    rays: PlayedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls to an actor that is pending stay with Ray until it starts, unless they are cancelled."""
    waiting: list[object] = []

    def waits(answer: object, timeout: float) -> object:
        waiting.append(answer)
        raise ray.exceptions.GetTimeoutError("Get timed out: some object(s) not ready.")

    monkeypatch.setattr(ray, "get", waits)
    monkeypatch.setattr(ray, "cancel", waiting.remove)
    poll = dispatcher("east", leads=always)
    for _ in range(3):
        with pytest.raises(AgentDied, match="it has not started: is there a node with a free `gateway` resource"):
            await poll()
    assert (waiting, len(rays.made)) == ([], 1)
