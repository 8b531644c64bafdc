"""How agents are followed: one by one, each from where its last report ended, and none that hangs holds up another."""

import asyncio
import dataclasses
import itertools
import time
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, Event
from dispatcher.service.links import poller
from dispatcher.service.links.link import AgentDied, AgentTimeout, LocalLink
from dispatcher.service.links.poller import LONGEST_REPORT_S
from shared.messages import Changes, Hello
from tests.service.fakes import FAST, FakeAgent, FakeCore, ScriptedLink, running, service


async def test_reports_reach_the_core_and_polls_continue_where_they_ended() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: len(core.of(ClusterChanged)) >= 2)
    first, second = core.of(ClusterChanged)[:2]
    assert first.changes.full
    assert not second.changes.full
    assert agent.asked[:2] == [("", 0), ("one", 1)]


async def test_a_silent_agent_becomes_silent_and_delays_nobody() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    mute = FakeAgent("west")
    mute.gate.clear()
    async with running(service(core, LocalLink("east", agent), LocalLink("west", mute))):
        await core.until(lambda: bool(core.of(ClusterSilent)))
        heard = len(core.of(ClusterChanged))
        await core.until(lambda: len(core.of(ClusterChanged)) > heard)
    assert {event.cluster for event in core.of(ClusterSilent)} == {"west"}
    assert {event.changes.cluster for event in core.of(ClusterChanged)} == {"east"}


async def test_an_agent_that_was_silent_is_followed_again_when_it_answers() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    agent.gate.clear()
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: bool(core.of(ClusterSilent)))
        agent.gate.set()
        await core.until(lambda: bool(core.of(ClusterChanged)))


async def test_a_cluster_that_never_syncs_is_given_up_for_now_so_that_others_start() -> None:
    changes = Changes("west", "", "one", 0, 0, full=True, synced=False, api_ok=False, problem="connection refused")
    link = ScriptedLink("west", hello=lambda: Hello("west", "", "one"), changes=lambda *_: changes)
    core = FakeCore()
    async with running(service(core, link)):
        await core.until(lambda: bool(core.of(ClusterSilent)))
    assert core.of(ClusterSilent)[0].problem == "connection refused"


async def test_a_report_that_the_core_cannot_fold_is_asked_for_in_full() -> None:
    failed: list[Event] = []

    def fails_once(event: Event) -> bool:
        if isinstance(event, ClusterChanged) and not failed:
            failed.append(event)
            return True
        return False

    core, agent = FakeCore(fails_on=fails_once), FakeAgent("east")
    subject = service(core, LocalLink("east", agent))
    async with running(subject):
        await core.until(lambda: bool(core.of(ClusterChanged)))
    assert agent.asked[:2] == [("", 0), ("", 0)]
    assert b'global_dispatcher_core_errors_total{event="ClusterChanged"} 1.0' in subject.metrics.render()


async def test_a_report_that_does_not_continue_what_is_known_is_asked_for_in_full_and_is_no_error() -> None:
    def forgot_it_once(event: Event) -> bool:
        if isinstance(event, ClusterChanged) and len(core.of(ClusterChanged)) == 1:
            core.events.append(event)
            raise GapError("cluster east: report from one/1 does not continue /0")
        return False

    core, agent = FakeCore(fails_on=forgot_it_once), FakeAgent("east")
    subject = service(core, LocalLink("east", agent))
    with capture_logs() as logs:
        async with running(subject):
            await core.until(lambda: len(core.of(ClusterChanged)) >= 3)
    assert agent.asked[:3] == [("", 0), ("one", 1), ("", 0)]
    assert b'global_dispatcher_core_errors_total{event="ClusterChanged"} 0.0' in subject.metrics.render()
    assert [one["event"] for one in logs if "exc_info" in one] == []
    assert "a report is not taken in; a full one is asked for" in {one["event"] for one in logs}


async def test_a_gap_between_reports_leads_to_a_full_one() -> None:
    asked: list[tuple[str, int]] = []

    def answer(incarnation: str, since: int) -> Changes:
        asked.append((incarnation, since))
        if incarnation:
            return Changes("east", "uid", "one", since + 5, since + 6)
        return Changes("east", "uid", "one", 0, 10, full=True)

    core = FakeCore()
    link = ScriptedLink("east", hello=lambda: Hello("east", "uid", "one"), changes=answer)
    async with running(service(core, link)):
        await core.until(lambda: len(core.of(ClusterChanged)) >= 2)
    assert asked[:3] == [("", 0), ("one", 10), ("", 0)]
    assert all(event.changes.full for event in core.of(ClusterChanged))


async def test_what_an_agent_says_of_its_build_and_clock_is_kept_for_those_who_look_for_faults() -> None:
    core, report = FakeCore(), Changes("east", "uid", "one", 0, 1, full=True)
    told = Hello("east", "uid", "one", agent_version="0.0.1", now=time.time() + 3600)
    subject = service(core, ScriptedLink("east", hello=lambda: told, changes=lambda *_: report))
    async with running(subject):
        await core.until(lambda: bool(core.of(ClusterChanged)))
    greeting = subject.pollers["east"].greeting
    assert greeting.agent_version == "0.0.1"
    assert greeting.clock_ahead_s == pytest.approx(3600, abs=60)


async def test_large_reports_are_read_for_a_few_clusters_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are small as bytes and large once they are read: so each is read when others have been taken in. So are
    those of clusters that are followed already, as these may tell all anew.
    """
    monkeypatch.setattr(poller, "_LARGE", 0)
    core, names, read, most = FakeCore(), [f"c{at}" for at in range(20)], 0, 0
    followed, all_followed = set[str](), asyncio.Event()

    class Together(FakeAgent):
        """Once all are followed, all tell something at once."""

        async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
            told = await super().changes(incarnation, since, wait_s)
            if incarnation:
                followed.add(self.cluster)
                if len(followed) == len(names):
                    all_followed.set()
                await all_followed.wait()
            return told

    class Counted(LocalLink):
        async def changes(self, *asked: Any, **more: Any) -> Changes:
            nonlocal read, most
            told = await super().changes(*asked, **more)
            read += 1
            most = max(most, read - len(core.of(ClusterChanged)))
            return told

    async with running(service(core, *(Counted(name, Together(name)) for name in names))):
        await core.until(lambda: len(core.of(ClusterChanged)) > 5 * len(names))
    assert 1 < most <= FAST.full_reports


async def test_slow_ways_do_not_add_up() -> None:
    """No agent answers before all of them are asked."""
    core, names, asked, all_asked = FakeCore(), [f"c{at}" for at in range(20)], set[str](), asyncio.Event()

    class Slow(FakeAgent):
        async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
            asked.add(self.cluster)
            if len(asked) == len(names):
                all_asked.set()
            await all_asked.wait()
            return await super().changes(incarnation, since, wait_s)

    links = [LocalLink(name, Slow(name)) for name in names]
    async with running(service(core, *links, timing=dataclasses.replace(FAST, silent_s=600.0))):
        await core.until(lambda: {one.changes.cluster for one in core.of(ClusterChanged)} == set(names))
    assert not core.of(ClusterSilent)


class FarLink(ScriptedLink):
    """Its reports take `needs_s` on their way; `given` are the seconds that each had."""

    def __init__(self, needs_s: float) -> None:
        self.needs_s, self.given = needs_s, list[float]()
        report = Changes("far", "uid", "one", 0, 1, full=True)
        super().__init__("far", hello=lambda: Hello("far", "uid", "one"), changes=lambda *_: report)

    async def changes(self, *asked: Any, timeout_s: float, **more: Any) -> Changes:
        self.given.append(timeout_s)
        if timeout_s < self.needs_s:
            raise AgentTimeout(f"agent of cluster far did not answer changes within {timeout_s:g} s")
        return await super().changes(*asked, timeout_s=timeout_s, **more)


async def test_a_report_that_takes_longer_than_a_cluster_may_be_silent_arrives_once_nobody_waits_for_it() -> None:
    core, link = FakeCore(), FarLink(needs_s=100.0)
    async with running(service(core, link)):
        await core.until(lambda: bool(core.of(ClusterChanged)))
        link.needs_s = 0.0
        await core.until(lambda: len(core.of(ClusterChanged)) > 1)
        asked_on_time = link.given[-1]
    silent = core.of(ClusterSilent)
    assert silent, "others wait for it for first_sync_s alone"
    assert asked_on_time == FAST.silent_s, "of a cluster that is heard no report may be late"


async def test_an_agent_that_never_answers_is_given_longer_and_longer_up_to_a_bound() -> None:
    core, link = FakeCore(), FarLink(needs_s=float("inf"))
    async with running(service(core, link)):
        await core.until(lambda: LONGEST_REPORT_S in link.given)
    assert sorted(link.given) == link.given
    assert max(link.given) == LONGEST_REPORT_S


async def test_agents_that_hang_do_not_keep_others_from_being_asked() -> None:
    core, hung = FakeCore(), [FakeAgent(f"a{at}") for at in range(6)]
    for agent in hung:
        agent.gate.clear()
    links = [LocalLink(one.cluster, one) for one in [*hung, FakeAgent("z")]]
    async with running(service(core, *links, timing=FAST.__class__(silent_s=4.0, tick_s=0.005))):
        await core.until(lambda: any(one.changes.cluster == "z" for one in core.of(ClusterChanged)))
        given_up = core.of(ClusterSilent)
    assert not given_up


async def test_a_cluster_that_tells_everything_anew_each_time_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "_REPORT", 0)
    monkeypatch.setattr(poller, "_AT_ONCE", 25)
    monkeypatch.setattr(poller, "_PER_S", 0.001)
    told = Changes("west", "west-uid", "one", 0, 1, full=True, pods_gone=("p",) * 10)
    flood = ScriptedLink("west", hello=lambda: Hello("west", "west-uid", "one"), changes=lambda *_: told)
    core = FakeCore()
    with capture_logs() as lines:
        async with running(service(core, flood, LocalLink("east", FakeAgent("east")))):
            await core.until(
                lambda: len([one for one in core.of(ClusterChanged) if one.changes.cluster == "east"]) > 20
            )
    assert flood.called["changes"] == 3
    assert [one["cluster"] for one in lines if "asked less often" in one["event"]] == ["west"]


async def test_a_cluster_that_answers_at_once_with_nothing_to_tell_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "_AT_ONCE", 2 * poller._REPORT)
    monkeypatch.setattr(poller, "_PER_S", 0.001)
    greeting = Hello("west", "west-uid", "one")
    flood = ScriptedLink(
        "west",
        hello=lambda: greeting,
        changes=lambda incarnation, since: Changes("west", "west-uid", "one", since, since, full=not incarnation),
    )
    core = FakeCore()
    with capture_logs() as lines:
        async with running(service(core, flood)):
            await core.until(
                lambda: flood.called["changes"] > 100 or any("less often" in one["event"] for one in lines)
            )
    assert flood.called["changes"] == 3


@pytest.mark.parametrize("fails", [False, True], ids=["tells everything each time", "answers and fails in turn"])
async def test_an_agent_that_begins_anew_all_the_time_does_not_fill_the_log(*, fails: bool) -> None:
    told = Changes("west", "west-uid", "one", 0, 1, full=True)
    answers = itertools.cycle([told, AgentDied("agent of cluster west is restarting")] if fails else [told])
    link = ScriptedLink("west", hello=lambda: Hello("west", "west-uid", "one"), changes=lambda *_: next(answers))
    core, most = FakeCore(), 20
    with capture_logs() as lines:
        async with running(service(core, link)):
            await core.until(lambda: link.called["changes"] > 6 * most)
    kinds = Counter(line["event"] for line in lines)
    assert kinds.pop("cluster answers") == most
    assert kinds == ({"cluster is silent": most} if fails else {})


async def test_a_cluster_that_is_asked_less_often_keeps_no_other_from_being_asked_for_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "_AT_ONCE", 5)
    monkeypatch.setattr(poller, "_PER_S", 0.001)
    monkeypatch.setattr(poller, "_LONGEST_PAUSE_S", 600.0)
    told = Changes("west", "west-uid", "one", 0, 1, full=True, pods_gone=("p",) * 10)
    flood = ScriptedLink("west", hello=lambda: Hello("west", "west-uid", "one"), changes=lambda *_: told)
    greeting = Hello("east", "east-uid", "one")
    other = ScriptedLink(
        "east",
        hello=lambda: greeting if flood.called["changes"] else AgentDied("agent of cluster east is starting"),
        changes=lambda *_: Changes("east", "east-uid", "one", 0, 1, full=True),
    )
    one_at_a_time = dataclasses.replace(FAST, full_reports=1, silent_s=600.0)
    core = FakeCore()
    async with running(service(core, flood, other, timing=one_at_a_time)):
        await core.until(lambda: {one.changes.cluster for one in core.of(ClusterChanged)} == {"east", "west"})
    assert flood.called["changes"] == 1


async def test_a_restarting_agent_is_followed_from_its_new_life() -> None:
    agent = FakeAgent("east", "one")
    lives = iter([AgentDied("agent of cluster east is restarting")])

    class Restarting(LocalLink):
        async def changes(self, incarnation: str, since: int, *asked: Any, **more: Any) -> Changes:
            if since and (death := next(lives, None)):
                agent.incarnation, agent.revision = "two", 7
                raise death
            return await super().changes(incarnation, since, *asked, **more)

    core = FakeCore(clusters={"east": ClusterView("east")})
    async with running(service(core, Restarting("east", agent))):
        await core.until(lambda: any(e.changes.incarnation == "two" for e in core.of(ClusterChanged)))
    assert [type(event) for event in core.events[:3]] == [ClusterChanged, ClusterSilent, ClusterChanged]
    assert core.events[2].changes.full  # type: ignore[union-attr]
