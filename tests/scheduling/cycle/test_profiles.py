"""Several profiles over one fleet, told apart by spec.schedulerName."""

from dataclasses import dataclass

import pytest

from dispatcher.plugins.data_locality import DataLocality
from dispatcher.plugins.registry import PluginContext, build, shared_queue_sort
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.equivalence.cache import ClassCounts
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import SKIP, FleetView, Plugin, PluginUse, PodInfo, Profile, refuse
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model import names
from shared.model.reasons import Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, pod
from tests.compiled import compiled  # noqa: F401 - a fixture
from tests.scheduling.tiny_plugins import Fit, Quota, Ready

PACKING = "global-dispatcher-packing"


def profiles(state: FleetState, **plugins: list[Plugin]) -> Profiles:
    return Profiles(
        [
            Scheduler(Profile(name.replace("_", "-"), tuple(PluginUse(one.name) for one in made)), made, state)
            for name, made in plugins.items()
        ]
    )


def decided(all_of_them: Profiles, one: PodBuilder) -> object:
    placed = one.placed()
    return all_of_them.schedule_class([(("a", placed.pod.uid), placed)])[0]


def test_a_pod_is_decided_by_the_profile_that_it_names() -> None:
    state = fleet(a=[node("n1").cpu(1)])
    both = profiles(state, global_dispatcher=[Ready(), Fit()], global_dispatcher_packing=[Ready()])
    assert not isinstance(decided(both, pod("big").cpu(3)), Decision)
    result = decided(both, pod("unjudged").cpu(3).set(scheduler_name=PACKING))
    assert isinstance(result, Decision)
    assert result.context.profile == PACKING


def test_the_profiles_share_one_fleet_and_give_back_what_each_booked() -> None:
    state, quota = fleet(a=[node("n1").cpu(4)]), Quota()
    both = profiles(state, global_dispatcher=[Fit()], global_dispatcher_packing=[Fit(), quota])
    decided(both, pod("a").cpu(1))
    result = decided(both, pod("b").cpu(2).set(scheduler_name=PACKING))
    assert isinstance(result, Decision)
    assert state.requested[0].tolist() == [3000]
    both.forget(result.pod_id)
    assert (state.requested[0].tolist(), quota.used) == ([1000], {})


def test_a_name_without_a_profile_is_refused_with_the_names_there_are() -> None:
    both = profiles(fleet(a=["n1"]), global_dispatcher=[Fit()], global_dispatcher_packing=[Fit()])
    why = both.unknown(pod().set(scheduler_name="global-dispatcher-x").build())
    assert why is not None
    assert why.reason is Reasons.NO_PROFILE
    assert why.text.endswith("known: global-dispatcher, global-dispatcher-packing")
    assert both.unknown(pod().build()) is None


def test_classes_of_two_profiles_are_never_one() -> None:
    both = profiles(fleet(a=["n1"]), global_dispatcher=[Fit()], global_dispatcher_packing=[Fit()])
    assert both.classify(pod().placed()) != both.classify(pod().set(scheduler_name=PACKING).placed())


def test_classes_are_counted_by_profile_as_they_are_kept_and_make_room_for_others() -> None:
    state, made = fleet(a=["n1"]), [Ready(), Fit()]
    first, second = (Profile(name, tuple(PluginUse(one.name) for one in made)) for name in ("first", "second"))
    both = Profiles([Scheduler(first, made, state, class_bytes=2 * 18), Scheduler(second, made, state)])
    for at, cpu in enumerate((1, 2, 3, 3, 1)):  # room for two classes: that of the last pod comes again
        decided(both, pod(f"pod-{at}").cpu(cpu).set(scheduler_name="first"))
    assert both.class_counts == {"first": ClassCounts(kept=2, dropped=2), "second": ClassCounts()}


def test_decisions_on_pods_of_classes_that_are_not_kept_are_counted(compiled: None) -> None:  # noqa: F811
    state = fleet(a=[node("n1").cpu(64), node("n2").cpu(64)])
    plugins = build(DEFAULT_PROFILE, PluginContext())
    one = Scheduler(DEFAULT_PROFILE, plugins, state)
    for at in range(5):  # a class that is met for the fourth time is kept
        placed = pod(f"pod-{at}").cpu(1).placed("a")
        assert isinstance(one.schedule(placed, ("a", placed.pod.uid)), Decision)
    assert one.class_counts == ClassCounts(kept=1, passes=3)


def test_two_profiles_of_one_name_are_an_error() -> None:
    state = fleet(a=["n1"])
    one = Scheduler(Profile("global-dispatcher", ()), [], state)
    with pytest.raises(ValueError, match="each its own schedulerName"):
        Profiles([one, one])


class OtherSort(Plugin):
    name = "OtherSort"

    def class_key(self, placed: object) -> None:
        return None

    def sort_key(self, placed: object, queued_at: float) -> tuple[float]:
        return (queued_at,)


def test_one_queue_has_one_order_and_who_differs_is_named() -> None:
    first, second = (Profile(name, (PluginUse("PrioritySort"),)) for name in ("global-dispatcher", PACKING))
    built = [(one, build(one, PluginContext())) for one in (first, second)]
    assert shared_queue_sort(built).sort_key(pod().priority(3).placed(), 7.0) == (-3, 7.0)
    with pytest.raises(ValueError, match="profile global-dispatcher-packing sorts the queue by another plugin"):
        shared_queue_sort([built[0], (second, [OtherSort()])])


def test_a_profile_that_does_not_look_for_required_data_decides_no_pod_that_asks_for_it() -> None:
    both = profiles(fleet(a=["n1"]), global_dispatcher=[Fit()], global_dispatcher_packing=[DataLocality((), 20.0)])
    asks = pod().annotation(names.REQUIRE_DATA, "genomes")
    why = both.gate(asks.placed())
    assert why is not None
    assert why.reason is Reasons.INVALID
    assert "profile global-dispatcher, which has no plugin DataLocality" in why.text
    assert both.gate(asks.set(scheduler_name=PACKING).placed()) is None
    assert both.gate(pod().placed()) is None


def test_a_plugin_that_cannot_be_hashed_is_asked_for_hints_as_others_are() -> None:
    @dataclass
    class Told(Fit):
        helps: bool

        REASONS = (Reasons.INSUFFICIENT,)

        def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
            return self.helps

    for helps in (True, False):
        one = profiles(fleet(a=["n1"]), global_dispatcher=[Told(helps)])
        event, full = ClusterEvent(WakeEvent.NODE_ADDED), frozenset((Reasons.INSUFFICIENT,))
        assert one.worth(event, pod().placed(), full) is helps


def test_quota_refuses_by_class_unless_a_gate_is_asked_of_each_pod() -> None:
    class Each(Plugin):
        name = "Each"

        def class_key(self, pod_info: PodInfo) -> None:
            return None

        def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
            return refuse(Reasons.QUOTA, "mine") if pod_info.pod.name == "p" else SKIP

    both = profiles(fleet(a=["n1"]), global_dispatcher=[Fit()], global_dispatcher_packing=[Fit(), Each()])
    assert both.quota_alike(pod().placed())
    assert not both.quota_alike(pod().set(scheduler_name=PACKING).placed())
