"""Whatever happens to a fleet: the fast path decides what a naive scheduler would, legally, and the same every time."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.framework import Plugin, PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.labels import IN, NOT_IN
from shared.model.node import NO_SCHEDULE, PREFER_NO_SCHEDULE
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, node, pod
from tests.laws import rules
from tests.laws.examples import examples
from tests.laws.grain import Record, as_in_batches, recorded
from tests.laws.pairs import CLUSTERS, Pair
from tests.scheduling.tiny_plugins import Crowd, Fit, Live, Quota, Ready, Rooms, Selector, Spread, profile

TINY = profile(Ready=1, Selector=2, Fit=1, Live=1.5, Spread=3, Rooms=1.3, Crowd=0.7, Quota=1)
BY_PARTS = profile(Ready=1, Selector=2, Fit=1, Rooms=1.3)
TENANTS = (Tenant("team", ("other",), {"cpu": Share(absolute=1500)}),)

clusters = st.sampled_from(CLUSTERS)
node_names = st.sampled_from(("n1", "n2", "n3"))


def tiny() -> Callable[[], list[Plugin]]:
    quota = Quota(6000)
    return lambda: [Ready(), Selector(), Fit(), Live(), Spread(), Rooms(), Crowd(), quota]


def by_parts(*, normalizes: bool) -> Callable[[], Callable[[], list[Plugin]]]:
    return lambda: lambda: [Ready(), Selector(), Fit(), Rooms(normalizes)]


def real() -> Callable[[], list[Plugin]]:
    ledger = QuotaLedger(TENANTS)
    return lambda: build(DEFAULT_PROFILE, PluginContext(quota=ledger))


@st.composite
def node_events(draw: st.DrawFn) -> tuple[Any, ...]:
    built = (
        node(draw(node_names))
        .cpu(draw(st.sampled_from(("500m", "1", "2"))))
        .memory(draw(st.sampled_from(("1Gi", "2Gi"))))
        .pods(draw(st.sampled_from((1, 3, 110))))
        .ready(draw(st.sampled_from((True, True, True, False))))
    )
    for key, values in {"zone": ("", "x", "y"), "soft": ("", "1", "5")}.items():
        value = draw(st.sampled_from(values))
        built = built.labels(**{key: value}) if value else built
    effect = draw(st.sampled_from((None, None, NO_SCHEDULE, PREFER_NO_SCHEDULE)))
    built = built.taint("dedicated", "x", effect) if effect else built
    built = built.cordoned() if draw(st.integers(0, 9)) == 0 else built
    return ("node", draw(clusters), built.build())


KINDS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "plain": lambda one: one,
    "zone": lambda one: one.spread("zone"),
    "cluster": lambda one: one.spread("cluster", 2),
    "soft": lambda one: one.spread("host", hard=False),
    "both": lambda one: one.spread("zone", 2).spread("cluster", hard=False),
    "selector": lambda one: one.node_selector({"zone": "x"}),
    "affinity": lambda one: one.requires("zone", NOT_IN, "x").prefers(5, "soft", IN, "5"),
    "tolerant": lambda one: one.tolerates("dedicated", operator="Exists"),
    "port": lambda one: one.port(80),
    "crowd": lambda one: one.annotation("crowd", "yes"),
    "rooms": lambda one: one.annotation("rooms", "zone:3,host:1"),
    "emptier rooms": lambda one: one.annotation("rooms", "zone:soft,host:soft,cluster:4"),
    "emptiest zone": lambda one: one.annotation("rooms", "zone:soft"),
    "memory": lambda one: one.memory("300Mi"),
    "gpu": lambda one: one.request("example.com/gpu", 1),
}


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one: PodBuilder = pod("p").namespace(draw(st.sampled_from(("default", "other"))))
    one = one.labels(app=draw(st.sampled_from("uv"))).cpu(draw(st.sampled_from(("100m", "250m", "400m"))))
    kind = draw(st.sampled_from(("plain", *KINDS)))
    counts_as = draw(st.sampled_from((None, None, (50, 2**30), (1500, 2**20))))
    return msgspec.structs.replace(KINDS[kind](one).placed(draw(clusters)), counts_as=counts_as)


events = st.one_of(
    node_events(),
    st.tuples(st.just("gone"), clusters, node_names),
    st.tuples(st.just("cluster"), clusters, st.booleans()),
    st.tuples(st.just("reading"), clusters, node_names, st.floats(0, 1), st.floats(0, 90)),
    st.tuples(st.just("later"), st.floats(0, 30)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 12)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 12)),
    st.tuples(st.just("end"), st.integers(0, 30)),
)
scripts = st.lists(events, max_size=25)


def begin(pair: Pair) -> Pair:
    for name in CLUSTERS:
        pair.node(name, node("n1").cpu("2").labels(zone="x" if name == "a" else "y").build())
    return pair


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(60), deadline=None)
@given(script=scripts)
def test_the_fast_path_decides_what_the_oracle_decides(batched: bool, script: list[tuple[Any, ...]]) -> None:
    pair = begin(Pair(TINY, tiny, batched=batched))
    for event in script:
        pair.apply(event)


@pytest.mark.parametrize("normalizes", [True, False], ids=["normalised", "as they are"])
@settings(max_examples=examples(60), deadline=None)
@given(script=scripts)
def test_answers_by_domain_decide_what_answers_by_row_decide(normalizes: bool, script: list[tuple[Any, ...]]) -> None:
    pair = begin(Pair(BY_PARTS, by_parts(normalizes=normalizes), batched=True))
    for event in script:
        pair.apply(event)


class Lawful(Pair):
    """Also holds every decision against the rules in plain words."""

    def expect(self, pod_info: PodInfo, pod_id: tuple[str, str]) -> tuple[str, str] | None:
        legal = {where for where in self.world.nodes if rules.allowed(self.world, pod_info, where)}
        found = super().expect(pod_info, pod_id)
        assert found in legal if found else (not legal or pod_info.pod.namespace == "other")
        used = sum(
            seat.pod_info.pod.requests["cpu"]
            for seat in self.world.seats.values()
            if seat.pod_info.pod.namespace == "other"
        )
        assert used <= 1500
        return found


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
def test_the_default_profile_keeps_every_rule_and_decides_what_the_oracle_decides(
    compiled: None, batched: bool, script: list[tuple[Any, ...]]
) -> None:
    pair = begin(Lawful(DEFAULT_PROFILE, real, batched=batched))
    for event in script:
        pair.apply(event)


def records(script: list[tuple[Any, ...]], *, batched: bool) -> tuple[list[Record], bytes]:
    pair = begin(Pair(DEFAULT_PROFILE, real, batched=batched))
    for event in script:
        pair.apply(event)
    return recorded(pair.results), pair.fleet.requested.tobytes() + pair.fleet.recent.tobytes()


@settings(max_examples=examples(25), deadline=None)
@given(script=scripts)
def test_the_same_inputs_give_the_same_records_byte_for_byte(script: list[tuple[Any, ...]]) -> None:
    assert records(script, batched=True) == records(script, batched=True)


@settings(max_examples=examples(25), deadline=None)
@given(script=scripts)
def test_a_batch_records_the_very_reasons_that_one_by_one_records(script: list[tuple[Any, ...]]) -> None:
    """But for counts, which are those at the beginning of the batch (see `as_in_batches`)."""
    together, taken = records(script, batched=True)
    alone, also_taken = records(script, batched=False)
    assert as_in_batches(alone, together) == together
    assert also_taken == taken
