"""Faults of our own and of plugins, about one pod or a batch: they are told, and stop and lose no pod."""

import contextlib
from collections.abc import Sequence

import msgspec
import pytest

from dispatcher.scheduling.core.deciding import Deciding
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.delegation.step_cache import Key, StepCache
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import OperatorWarning, Tick
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.points import PluginError
from shared.messages import Bind
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import NODE, intents, pod, report


def test_a_fault_about_one_pod_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core(("east",))
    key_of = StepCache.key_of

    def faulty(self: StepCache, tracked: Tracked, now: float) -> Key | None:
        if tracked.pod_id[1] == "uid-cursed":
            raise ZeroDivisionError("cursed")
        return key_of(self, tracked, now)

    monkeypatch.setattr(StepCache, "key_of", faulty)
    effects = report(core, pod("cursed"), pod("good"))
    assert any(isinstance(effect, OperatorWarning) and "uid-cursed" in effect.text for effect in effects)
    assert [bind.pod.name for bind in intents(core.handle(Tick(), 1.0), Bind)] == ["good"]  # type: ignore[attr-defined]


class ByTier:
    """A QueueSort whose keys cannot all be compared."""

    def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[object, ...]:
        return (pod_info.pod.labels.get("tier"),)


def test_new_pods_whose_sort_keys_cannot_be_compared_are_told_of_counted_and_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = make_core(("east",))
    monkeypatch.setattr(core.queue, "_sort", ByTier())
    tiers: list[dict[str, str]] = [{}, {"tier": "a"}, {}]
    effects = report(core, *(pod(f"p{at}", labels=labels) for at, labels in enumerate(tiers)))
    assert ["TypeError" in one.text for one in effects if isinstance(one, OperatorWarning)] == [True]
    assert core.queue.counts()["active"] == len(tiers)
    assert sum(core.queue.incoming.values()) == len(tiers)
    bound_to = {one.pod.name for at in range(1, 60) for one in intents(core.handle(Tick(), float(at)), Bind)}  # type: ignore[attr-defined]
    assert (bound_to, core.queue.counts()["active"]) == ({"p0", "p1", "p2"}, 0)


def test_pods_on_whose_batch_the_cycle_fails_are_decided_later(monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core(("east",))
    report(core, pod("a"), pod("b"))

    def fails(profiles: Profiles, items: Sequence[tuple[tuple[str, str], PodInfo]], **how: object) -> None:
        decide(profiles, items[:1])
        raise IndexError("a fault of the cycle")

    decide = Profiles.schedule_class
    monkeypatch.setattr(Profiles, "schedule_class", fails)
    with pytest.raises(IndexError):
        core.handle(Tick(), 1.0)
    assert core.queue.counts()["backoff"] == 2
    assert all(core.fleet.occupant(("east", f"uid-{name}")) is None for name in "ab")
    monkeypatch.setattr(Profiles, "schedule_class", decide)
    assert [bind.pod.name for bind in intents(core.handle(Tick(), 100.0), Bind)] == ["a", "b"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("named", [True, False], ids=["a plugin's", "our own"])
@pytest.mark.parametrize("step", ["_decided", "_park"])
def test_pods_of_a_batch_whose_results_cannot_be_followed_are_decided_later_and_those_before_are_bound_once(
    step: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_core(("east",))
    small = msgspec.structs.replace(NODE, allocatable={"cpu": 200, "memory": 2**33, "pods": 20})
    report(core, *(pod(name) for name in "abc"), nodes=(small,))  # c fits nowhere
    follow, calls = getattr(Deciding, step), 0

    def fails(deciding: Deciding, *about: object) -> None:
        nonlocal calls
        calls += 1
        if (step, calls) != ("_decided", 1):
            raise PluginError("Odd", "boom") if named else IndexError("a fault of the core")
        follow(deciding, *about)

    monkeypatch.setattr(Deciding, step, fails)
    with contextlib.nullcontext() if named else pytest.raises(IndexError):
        warned = [one.text for one in core.handle(Tick(), 1.0) if isinstance(one, OperatorWarning)]
        assert warned == ["plugin Odd: boom"]
    waits = ["b", "c"] if step == "_decided" else ["c"]
    assert core.queue.counts()["backoff"] == len(waits)
    assert [name for name in "abc" if core.fleet.occupant(("east", f"uid-{name}")) is None] == waits
    monkeypatch.setattr(Deciding, step, follow)
    again = intents(core.handle(Tick(), 100.0), Bind)
    assert {bind.pod.name for bind in again} == ({"a", "b"} if not named else set(waits) - {"c"})  # type: ignore[attr-defined]
    assert core.queue.counts()["unschedulable"] == 1
