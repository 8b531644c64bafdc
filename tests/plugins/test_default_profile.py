"""The default profile as a whole: what the plugins promise together, through the real cycle."""

from collections import Counter
from itertools import count

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, fleet, node, pod, reading

CLUSTERS = "abc"
_numbers = count()


def scheduler_of(state: FleetState, *tenants: Tenant) -> Scheduler:
    plugins = build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(tenants)))
    return Scheduler(DEFAULT_PROFILE, plugins, state)


def fleet_of(nodes: int = 4, cpu: int = 10) -> FleetState:
    return fleet(**{name: [node(f"{name}{at}").cpu(cpu).labels(zone=name) for at in range(nodes)] for name in CLUSTERS})  # type: ignore[arg-type]


def decide(scheduler: Scheduler, one: PodBuilder, home: str = "a") -> Decision | Unschedulable:
    uid = f"{next(_numbers)}"
    return scheduler.schedule(one.uid(uid).placed(home), (home, uid))


def share_of(scheduler: Scheduler, pods: int) -> Counter[str]:
    """cluster -> pods, of that many equal pods."""
    results = [decide(scheduler, pod().cpu("200m").memory("100Mi")) for _ in range(pods)]
    return Counter(one.cluster for one in results if isinstance(one, Decision))


def test_two_tenants_under_endless_demand_hold_exactly_their_quota() -> None:
    state = fleet_of()
    tenants = [Tenant(name, (name,), {"cpu": Share(ratio=ratio)}) for name, ratio in (("red", 0.4), ("blue", 0.6))]
    scheduler = scheduler_of(state, *tenants)
    used: Counter[str] = Counter()
    refused: dict[str, str] = {}
    for _ in range(100):
        for name, home in (("red", "a"), ("blue", "b")):
            result = decide(scheduler, pod().namespace(name).cpu(1).memory("10Mi"), home)
            used[name] += isinstance(result, Decision)
            if isinstance(result, Unschedulable):
                refused[name] = result.message
                assert result.reasons == {Reasons.QUOTA}
    assert used == {"red": 48, "blue": 72}
    assert refused["red"] == "tenant quota exceeded: tenant red: cpu asked 1, used 48, limit 48"


def test_quota_and_spread_are_explained() -> None:
    scheduler = scheduler_of(fleet_of(), Tenant("red", ("red",), {"cpu": Share(ratio=0.4)}))
    asking = pod().namespace("red").labels(app="web").cpu(1).spread("zone")
    decide(scheduler, asking)
    result = decide(scheduler, asking)
    assert isinstance(result, Decision)
    extras = result.record()["extras"]
    assert extras["TenantQuota"] == {"tenant": "red", "cpu": {"used_before": "1", "used_after": "2", "limit": "48"}}
    zone = extras["FaultDomainSpread"]["zone"]
    assert (sum(zone["counts"].values()), zone["min"], zone["max_skew"], zone["domain"]) == (1, 0, 1, result.cluster)
    assert extras["ExpectedLoad"]["cpu"]["judged"] == "unknown, by requests"


def test_hard_zone_skew_holds_through_scale_ups_and_a_lost_zone() -> None:
    state = fleet_of()
    scheduler = scheduler_of(state)
    asking = pod().labels(app="web").cpu("100m").spread("zone")
    zones: Counter[str] = Counter(dict.fromkeys(CLUSTERS, 0))
    for _ in range(10):
        result = decide(scheduler, asking)
        assert isinstance(result, Decision)
        zones[result.cluster] += 1
        assert max(zones.values()) - min(zones.values()) <= 1
    state.set_cluster("c", ready=False, synced=True)
    for _ in range(5):
        result = decide(scheduler, asking)
        if isinstance(result, Decision):
            zones[result.cluster] += 1
    assert max(zones.values()) - min(zones.values()) == 1
    last = decide(scheduler, asking)
    assert isinstance(last, Unschedulable)
    spread = "node(s) didn't match pod topology spread constraints"
    lost = "node(s) were in a cluster that is not ready"
    no_help = "4 Preemption is not helpful for scheduling, 8 No preemption victims found for incoming pod"
    assert last.message == (
        f"0/12 nodes are available: 4 {lost}, 8 {spread}. preemption: 0/12 nodes are available: {no_help}."
    )


@pytest.mark.parametrize(("signal", "warm_at"), [("cpu", 0.3), ("net", 0.4)])
def test_hot_clusters_are_avoided_in_proportion(signal: str, warm_at: float) -> None:
    taken = []
    for heat in (0.2, warm_at, 0.9):
        state = fleet_of()
        for name in CLUSTERS:
            for at in range(4):
                load = {"cpu": 0.2, "memory": 0.2, "net": 0.2} | ({signal: heat} if name == "b" else {})
                state.put_reading(name, reading(f"{name}{at}", **load))
        taken.append(share_of(scheduler_of(state), 60)["b"])
    even, warm, hot = taken
    assert even > warm > hot
    assert even == pytest.approx(20, abs=4)  # scores by requests are whole numbers: level to one pod a node


@pytest.mark.parametrize(
    ("age", "words"), [(0.0, "fresh"), (600.0, "stale, by requests")], ids=["fresh", "long out of date"]
)
def test_stale_heat_is_not_believed_and_said_so(age: float, words: str) -> None:
    state = fleet_of()
    for name in CLUSTERS:
        for at in range(4):
            load = 0.95 if name == "b" else 0.1
            state.put_reading(name, reading(f"{name}{at}", cpu=load, memory=load, net=load, age=age))
    scheduler = scheduler_of(state)
    taken = share_of(scheduler, 60)
    assert (taken["b"] == 0) is (words == "fresh")
    if words != "fresh":
        assert taken["b"] == pytest.approx(20, abs=3)
    result = decide(scheduler, pod().cpu("100m"))
    assert isinstance(result, Decision)
    assert result.record()["extras"]["ExpectedLoad"]["cpu"]["judged"] == words


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
def test_an_app_is_spread_over_clusters_zones_and_hosts(batched: bool) -> None:
    zones = [[node(f"{name}{at}").cpu(64).labels(zone=f"{name}-{at % 3}") for at in range(12)] for name in CLUSTERS]
    state = fleet(**dict(zip(CLUSTERS, zones, strict=True)))  # type: ignore[arg-type]
    scheduler, web = scheduler_of(state), pod().labels(app="web").cpu("100m").memory("100Mi")
    items = [(("a", f"{at}"), web.uid(f"{at}").placed("a")) for at in range(60)]
    results = scheduler.schedule_class(items) if batched else [scheduler.schedule(one, at) for at, one in items]
    places = [(one.cluster, one.node) for one in results if isinstance(one, Decision)]
    by_cluster = Counter(cluster for cluster, _ in places)
    by_zone = Counter(f"{cluster}-{int(name[1:]) % 3}" for cluster, name in places)
    assert (len(places), len(by_cluster), len(by_zone)) == (60, 3, 9)
    assert max(by_cluster.values()) - min(by_cluster.values()) <= 5
    assert max(by_zone.values()) - min(by_zone.values()) <= 5
    assert max(Counter(places).values()) <= 3


def test_an_app_stays_together_where_only_one_cluster_has_room_or_headroom() -> None:
    """Soft: it bars nobody, and a hot cluster does not get its share."""
    state = fleet(a=[node("n1").cpu(64)], b=[node("n1").cpu("100m")], c=[node("n1").cpu(64)])
    state.put_reading("c", reading("n1", cpu=0.97, memory=0.5, net=0.5))
    for name in "ab":
        state.put_reading(name, reading("n1", cpu=0.05, memory=0.05, net=0.05))
    scheduler, web = scheduler_of(state), pod().labels(app="web").cpu("200m").memory("100Mi")
    chosen = Counter(one.cluster for one in (decide(scheduler, web) for _ in range(6)) if isinstance(one, Decision))
    assert chosen.total() == 6
    assert chosen["a"] > chosen["c"]
