"""ExpectedLoad: the formula by hand, its fade, what it makes of nodes without readings, and chance among near-ties."""

import math
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import MEAN_S, START_S
from dispatcher.scheduling.fleet.usual import HIGHEST, LOWEST
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, raw_scores, state_of

NAME = "ExpectedLoad"
POD = pod().cpu(1).memory("1Gi")  # a tenth of the node
_numbers = count()


def one_node(**shares: float) -> FleetState:
    """Half of its CPU and memory requested; read as given."""
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    put(state, pod("t").cpu(5).memory("5Gi").on("n"), "a", "n")
    state.put_reading("a", reading("n", **shares))
    return state


def points(*, cpu: float, memory: float, net: float) -> float:
    """The score of these utilisations."""
    costs = [weight * (u**3 + u / 5) for weight, u in ((2, cpu), (1, memory), (1, net))]
    return 100 * (1 - sum(costs) / (1.2 * 4))


def judged(state: FleetState, asked: Any = POD, **args: Any) -> dict[str, float]:
    return raw_scores(make(NAME, **args), asked, state)


def told(state: FleetState, signal: str = "cpu", asked: Any = POD, **args: Any) -> dict[str, Any]:
    plugin = make(NAME, **args)
    found: dict[str, Any] = plugin.explain(state_of(plugin, asked, state), asked.placed(), view_of(state), 0)[signal]
    return found


@pytest.mark.parametrize(
    ("shares", "want"),
    [
        ({"cpu": 0.2, "memory": 0.3, "net": 0.4}, {"cpu": 0.3, "memory": 0.4, "net": 0.5}),
        ({"cpu": 0.95, "memory": 0.3, "net": 0.4}, {"cpu": 1.0, "memory": 0.4, "net": 0.5}),
        ({"cpu": 0.2}, {"cpu": 0.3, "memory": 0.6, "net": 0.6}),
        ({}, {"cpu": 0.6, "memory": 0.6, "net": 0.6}),
    ],
    ids=["all read", "full with the pod", "cpu alone", "nothing"],
)
def test_the_score_is_what_expected_utilisations_cost(shares: dict[str, float], want: dict[str, float]) -> None:
    assert judged(one_node(**shares)) == {"n": pytest.approx(points(**want), abs=1e-4)}


@pytest.mark.parametrize(
    ("age", "utilisation", "words"),
    [
        (0, 0.3, "fresh"),
        (120, 0.3, "fresh"),
        (210, 0.45, "fading, 50% by readings, rest by requests"),
        (300, 0.6, "stale, by requests"),
        (100_000, 0.6, "stale, by requests"),
    ],
)
def test_readings_fade_to_requests(age: float, utilisation: float, words: str) -> None:
    state = one_node(cpu=0.2)
    state.now += age
    found = told(state, chance=0)
    assert (found["utilisation"], found["judged"], found["age_s"]) == (pytest.approx(utilisation), words, age)
    assert told(one_node())["judged"] == "unknown, by requests"


def test_one_look_counts_less_than_minutes_of_readings() -> None:
    state = one_node(cpu=0.6)
    for _ in range(10):
        state.now += 60
        state.put_reading("a", reading("n", cpu=0.6))
    state.now += 30
    state.put_reading("a", reading("n", cpu=0.0))
    found = told(state)
    assert (found["reading"], found["mean"]) == (0.0, pytest.approx(0.6 * math.exp(-30 / MEAN_S), abs=1e-4))


def test_what_was_placed_counts_by_its_request_until_the_mean_holds_it() -> None:
    state = one_node(cpu=0.2)
    state.now += 1
    state.place(("a", "new"), pod("new").cpu(3).placed(), "a", "n", assumed=True)
    assert told(state)["utilisation"] == pytest.approx(0.2 + 0.3 + 0.1, abs=1e-3)
    state.now += START_S + MEAN_S
    state.put_reading("a", reading("n", cpu=0.2))  # it uses nothing, after all
    assert told(state)["utilisation"] == pytest.approx(0.2 + 0.3 / math.e + 0.1, abs=1e-3)
    state.now += 20 * MEAN_S
    state.put_reading("a", reading("n", cpu=0.2))
    assert told(state)["utilisation"] == pytest.approx(0.2 + 0.1, abs=1e-4)


share = st.one_of(st.just(float("nan")), st.floats(0, 1, width=32))


@given(used=share, age=st.floats(0, 600), requested=st.integers(0, 4000))
def test_the_unknown_is_never_taken_for_idle(used: float, age: float, requested: int) -> None:
    def score(**shares: float) -> float:
        state = fleet(a=["n"])
        put(state, pod("t").cpu(f"{requested}m").on("n"), "a", "n")
        state.put_reading("a", reading("n", **shares))
        state.now += age
        return judged(state, pod())["n"]

    by_requests, found = score(), score(cpu=used, memory=used, net=used)
    assert -1e-9 <= found <= 100
    if math.isnan(used) or age >= 300:
        assert found == by_requests
    if age <= 120 and used == 1.0:
        assert found == pytest.approx(0, abs=1e-4)


@settings(deadline=None)
@given(
    requests=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    use=st.floats(LOWEST, 2.0),
    asked=st.integers(1, 5),
)
def test_a_cluster_without_telemetry_has_neither_edge_nor_penalty(requests: list[int], use: float, asked: int) -> None:
    """Where nodes use what nodes with such requests usually do, being read or not makes no difference."""
    names = [f"n{at}" for at in range(len(requests))]
    state = fleet(**{name: [node(one).cpu(20).memory("20Gi") for one in names] for name in ("told", "silent")})  # type: ignore[arg-type]
    for cluster in ("told", "silent"):
        for name, amount in zip(names, requests, strict=True):
            put(state, pod(f"{cluster}-{name}").cpu(amount).memory(f"{amount}Gi").on(name), cluster, name)
    for name, amount in zip(names, requests, strict=True):
        load = use * amount / 20
        state.put_reading("told", reading(name, cpu=load, memory=load, net=load))
    state.learn_usual()
    found = judged(state, pod().cpu(asked).memory(f"{asked}Gi"))
    within = 0.0 if abs(use - 1.0) > 0.06 else 0.06  # what is within 5 % of what was known is not learnt
    for name in names:
        assert found[f"silent/{name}"] == pytest.approx(found[f"told/{name}"], abs=1e-3 + 100 * within)


def place(state: FleetState, scheduler: Scheduler, one: Any) -> Decision:
    uid = f"{next(_numbers)}"
    result = scheduler.schedule(one.uid(uid).placed("told"), ("told", uid))
    assert isinstance(result, Decision)
    return result


@pytest.mark.parametrize("use", [0.3, 1.0, 1.8])
def test_a_cluster_without_telemetry_gets_its_share_of_pods(use: float) -> None:
    """Two clusters alike, each pod uses `use` of what it requests, one cluster tells of it every 30 s."""
    clusters = ("told", "silent")
    state = fleet(**{name: [node(f"{name}{at}").cpu(50).memory("50Gi") for at in range(5)] for name in clusters})  # type: ignore[arg-type]
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    load: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for _ in range(200):
        state.now += 30
        for at in range(5):
            used = load[f"told{at}"]
            state.put_reading("told", reading(f"told{at}", cpu=used, memory=used, net=used))
        state.learn_usual()
        result = place(state, scheduler, pod().cpu(1).memory("1Gi"))
        load[result.node] += use / 50  # type: ignore[assignment]
        taken[result.cluster] += 1
    assert taken["silent"] == pytest.approx(100, abs=25)


def crowd(seed: int, age: float, chance: float) -> Counter[str]:
    """node -> pods, of 200 tiny pods that come while readings are of one age; loads near to each other."""
    state = fleet(told=[node(f"n{at}").cpu(100).memory("100Gi") for at in range(10)])
    for at in range(10):
        state.put_reading("told", reading(f"n{at}", cpu=0.5 + at / 500, memory=0.5, net=0.5, age=age))
    uses = [use for use in DEFAULT_PROFILE.plugins if use.name != NAME]
    mine = next(use for use in DEFAULT_PROFILE.plugins if use.name == NAME)
    args = {"chance": chance, "seed": seed}
    profile = Profile("global-dispatcher", (*uses, type(mine)(NAME, mine.weight, args)))
    scheduler = Scheduler(profile, build(profile, PluginContext()), state)
    taken: Counter[str] = Counter()
    for at in range(200):
        state.now += at % 2  # two a second
        taken[place(state, scheduler, pod().cpu("1m").memory("1Mi")).node] += 1
    return taken


def test_near_ties_fall_by_seeded_chance_as_readings_age() -> None:
    old, herd = crowd(0, 100.0, 0.1), crowd(0, 100.0, 0.0)
    assert max(herd.values()) > 2 * max(old.values()), "what is old draws no crowd to one node"
    assert crowd(0, 100.0, 0.1) == old, "the same seed decides the same"
    assert crowd(1, 100.0, 0.1) != old
    scores = [judged(one_node(cpu=0.2), seed=seed)["n"] for seed in range(5)]
    assert len(set(scores)) == 1, "what is new is believed"


def test_usual_use_is_bounded() -> None:
    for load, want in ((0.0, LOWEST), (1.0, HIGHEST)):
        state = fleet(a=[node("n").cpu(10).memory("10Gi")])
        put(state, pod("t").cpu(1).memory("1Gi").on("n"), "a", "n")
        state.put_reading("a", reading("n", cpu=load))
        state.learn_usual()
        assert told(state)["used_of_requested"] == pytest.approx(want)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"fresh_s": 60, "stale_s": 60}, "stale_s (60) must be greater than fresh_s (60)"),
        ({"signals": {}}, "must map signals to weights"),
        ({"signals": {"No Name": 1}}, "'No Name' is no signal"),
        ({"signals": {"cpu": 0}}, "must be from 0.01 to 1000"),
        ({"chance": 2}, "chance"),
    ],
)
def test_bad_arguments_are_refused(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make(NAME, **args)
    assert want in str(caught.value)


def test_a_thousand_pods_between_two_readings_do_not_herd() -> None:
    """100 nodes of which 10 are idle: the fullest ends within a fifth of what an even filling would make of it."""
    names = [f"n{at}" for at in range(100)]
    state = fleet(told=[node(one).cpu(100).memory("100Gi").pods(500) for one in names])
    for at, name in enumerate(names):
        load = 0.0 if at < 10 else 0.5
        state.put_reading("told", reading(name, cpu=load, memory=load, net=load))
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    state.now += 1
    pods = [(("told", f"u{at}"), pod().cpu(1).memory("1Gi").uid(f"u{at}").placed("told")) for at in range(1000)]
    taken: Counter[str] = Counter()
    for one in scheduler.schedule_class(pods):
        assert isinstance(one, Decision)
        taken[one.node] += 1
    fullest = max(taken[name] / 100 + (0.0 if at < 10 else 0.5) for at, name in enumerate(names))
    assert fullest < 1.2 * 0.55  # ten to 0.5 with half of the pods, the others on all
