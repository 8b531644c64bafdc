from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plugins.registry import REGISTRY, PluginContext
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import CycleState, PodInfo, Refuse
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import refused

FLEET = fleet(a=[node("n1").cpu(40)], b=[node("n1").cpu(60)])


def quota(*tenants: Tenant) -> Any:
    return REGISTRY["TenantQuota"].make({}, PluginContext(quota=QuotaLedger(tenants)))


def team(**nominal: Share) -> Tenant:
    return Tenant("team-a", ("team-a",), nominal)


def ours(name: str = "p1") -> PodBuilder:
    return pod(name).namespace("team-a")


def test_quota_refuses_with_tenant_resource_asked_used_and_limit() -> None:
    plugin = quota(team(cpu=Share(ratio=0.4)))
    assert plugin.reserve(CycleState(), ours("big").cpu("39500m").placed(), 0, view_of(FLEET)) is None
    assert refused(plugin, ours().cpu("500m"), FLEET) == ""
    text = "tenant quota exceeded: tenant team-a: cpu asked 600m, used 39500m, limit 40"
    assert refused(plugin, ours().cpu("600m"), FLEET) == text


def test_quota_reserves_nothing_beyond_the_limit() -> None:
    plugin = quota(team(pods=Share(absolute=1)))
    assert plugin.reserve(CycleState(), ours("one").placed(), 0, view_of(FLEET)) is None
    second = plugin.reserve(CycleState(), ours("two").placed(), 0, view_of(FLEET))
    assert isinstance(second, Refuse)
    assert second.why.reason is Reasons.QUOTA
    assert plugin.ledger.usage("team-a") == {"pods": 1}


def test_quota_comes_back_when_the_place_is_given_back() -> None:
    plugin = quota(team(cpu=Share(absolute=1000)))
    first, second = ours("one").cpu(1).placed(), ours("two").cpu(1).placed()
    assert plugin.reserve(CycleState(), first, 0, view_of(FLEET)) is None
    assert refused(plugin, second, FLEET)
    plugin.unreserve(first, 0, view_of(FLEET))
    assert refused(plugin, second, FLEET) == ""
    assert plugin.ledger.usage("team-a") == {}


def test_quota_charges_a_pod_found_running_whatever_the_limit_and_once() -> None:
    plugin = quota(team(cpu=Share(absolute=1000)))
    source = ours("one").cpu(3).placed("a")
    delegate = ours("one-x").uid("other").cpu(3).delegate_of("a", "uid-one").placed("a")
    plugin.restore(source, 0, view_of(FLEET))
    plugin.restore(delegate, -1, view_of(FLEET))
    assert plugin.ledger.usage("team-a") == {"cpu": 3000, "pods": 1}


def test_quota_follows_what_ready_clusters_can_allocate() -> None:
    plugin, state = quota(team(cpu=Share(ratio=0.5))), fleet(a=[node("n1").cpu(2)], b=[node("n1").cpu(2)])
    assert refused(plugin, ours().cpu(2), state) == ""
    state.set_cluster("b", ready=False, synced=True)
    assert "limit 1" in refused(plugin, ours().cpu(2), state)


def test_quota_lets_none_of_many_pass_while_nobody_knows_what_a_cluster_charges() -> None:
    plugin, state = quota(team(cpu=Share(absolute=100_000))), fleet(a=[node("n1").cpu(64)])
    pods = [ours(f"p{at}").cpu(1).placed() for at in range(8)]
    state.set_cluster("b", ready=False, synced=False)
    assert plugin.fits(None, pods, view_of(state)) == 0
    state.set_cluster("b", ready=True, synced=True)
    assert plugin.fits(None, pods, view_of(state)) == len(pods)


def test_quota_leaves_namespaces_of_no_tenant_alone() -> None:
    plugin, stranger = quota(team(cpu=Share(absolute=0))), pod().cpu(1000).placed()
    assert refused(plugin, stranger, FLEET) == ""
    assert plugin.reserve(CycleState(), stranger, 0, view_of(FLEET)) is None
    assert plugin.explain(None, stranger, view_of(FLEET), 0) == {}


def test_quota_explains_usage_before_and_after() -> None:
    plugin = quota(team(cpu=Share(ratio=0.4), memory=Share(absolute=2**30)))
    plugin.reserve(CycleState(), ours("there").cpu(1).placed(), 0, view_of(FLEET))
    asking = ours().cpu("500m").memory("1Gi").placed()
    want = {
        "tenant": "team-a",
        "cpu": {"used_before": "1", "used_after": "1500m", "limit": "40"},
        "memory": {"used_before": "0", "used_after": "1Gi", "limit": "1Gi"},
    }
    assert plugin.explain(None, asking, view_of(FLEET), 0) == want
    plugin.reserve(CycleState(), asking, 0, view_of(FLEET))
    assert plugin.explain(None, asking, view_of(FLEET), 0) == want


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ours("a").cpu(1), ours("b").cpu(1), True),
        (ours("a").cpu(1), ours("b").cpu(2), False),
        (pod("a").cpu(1), pod("b").cpu(2), True),
        (ours("a"), pod("b"), False),
    ],
    ids=["same charge", "other charge", "nobody is charged", "tenant and nobody"],
)
def test_quota_class_is_the_charge(one: PodBuilder, other: PodBuilder, same: bool) -> None:
    plugin = quota(team())
    assert (plugin.class_key(one.placed()) == plugin.class_key(other.placed())) is same


@pytest.mark.parametrize(
    ("share", "before", "after", "want"),
    [
        pytest.param(Share(ratio=0.4), None, node().cpu(4), True, id="a new node"),
        pytest.param(Share(ratio=0.4), node().cpu(3), node().cpu(4), True, id="a larger node"),
        pytest.param(Share(ratio=0.4), node().cpu(4), node().cpu(4).images({"web": 1}), False, id="a pulled image"),
        pytest.param(Share(ratio=0.4), node().cpu(4), node().cpu(3), False, id="a smaller node"),
        pytest.param(Share(absolute=1000), None, node().cpu(4), False, id="a limit that no node moves"),
    ],
)
def test_quota_is_worth_a_try_for_a_node_that_makes_the_share_larger(
    share: Share, before: Any, after: Any, want: bool
) -> None:
    event = ClusterEvent(WakeEvent.NODE_CHANGED, "a", before and before.build(), after.build())
    plugin = quota(team(cpu=share))
    key = plugin.hint_key(ours().cpu(1).placed())
    assert plugin.hint_any(event, key) is want
    assert plugin.hint_any(ClusterEvent(WakeEvent.CLUSTER_CHANGED), key)


TEAMS = st.builds(
    lambda limits: tuple(
        Tenant(name, (name,), {one: Share(absolute=most) for one, most in each.items()})
        for name, each in limits.items()
    ),
    st.fixed_dictionaries(
        {
            name: st.dictionaries(st.sampled_from(("pods", "cpu", "memory", "example.com/gpu")), st.integers(0, 8000))
            for name in ("team-a", "team-b")
        }
    ),
)


@given(
    teams=TEAMS,
    of=st.lists(st.sampled_from(("team-a", "team-b")), min_size=1, max_size=12),
    homes=st.sampled_from(("a", "ab")),
    cpu=st.integers(0, 2500),
    known=st.integers(-1, 11),
)
def test_quota_lets_pass_and_books_many_as_one_after_the_other(
    teams: tuple[Tenant, ...], of: list[str], homes: str, cpu: int, known: int
) -> None:
    pods = [
        pod(f"p{at}").namespace(name).cpu(f"{cpu}m").memory("64Mi").placed(homes[at % len(homes)])
        for at, name in enumerate(of)
    ]
    alone, together, fleet = quota(*teams), quota(*teams), view_of(FLEET)
    for plugin in (alone, together) if 0 <= known < len(pods) else ():
        plugin.restore(pods[known], 0, fleet)
    passed = list[PodInfo]()
    for at, one in enumerate(pods):
        if at == known or alone.reserve(CycleState(), one, 0, fleet) is not None:
            break
        passed.append(one)
    assert together.fits(None, pods, fleet) == len(passed)
    if passed:
        told = together.explain_rows(None, passed[0], fleet, np.arange(3)).values(3)
        assert told == [together.explain(None, passed[0], fleet, 0)] * 3
        together.reserve_all(None, passed, (), fleet)
        assert [together.ledger.usage(one.name) for one in teams] == [alone.ledger.usage(one.name) for one in teams]
        charged = [[one.ledger.charged((at.home, at.pod.uid)) for at in pods] for one in (together, alone)]
        assert charged[0] == charged[1]
