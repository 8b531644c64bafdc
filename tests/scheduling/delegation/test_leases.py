"""Failover mode `lease` at the dispatcher: since when a cluster's leases cannot have been renewed, and what it says."""

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, PeersAcknowledged, Tick
from dispatcher.scheduling.views import explain
from shared.messages import Changes, Peer
from shared.model.leases import LEASE, RATE, RESTART_S, SLACK_S, stopped_after_s
from shared.model.names import SCHEDULER_NAME, proxy_node_name
from shared.model.pod import Claim, Pod
from tests.laws.cores import make_core
from tests.scheduling.delegation.test_proxy_nodes import said, tell

LEASE_S = CoreTiming().delegate_lease_s
WAIT_S = stopped_after_s(LEASE_S, 30)


def core_of_two(*pods: Pod) -> SchedulerCore:
    core = make_core(("east", "west"))
    tell(core, "east", pods=pods)
    tell(core, "west")
    return core


def silent(core: SchedulerCore, now: float) -> None:
    core.handle(ClusterSilent("west", "no answer"), now)


def report(core: SchedulerCore, now: float, *, api_ok: bool) -> None:
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 1, 1, api_ok=api_ok)), now)


def peer(core: SchedulerCore, now: float) -> Peer:
    """What east is told of west."""
    return said(core.handle(Tick(), now))["west"]


@pytest.mark.parametrize("speed", [1 / RATE, 1.0, RATE])
@pytest.mark.parametrize("restarted_after_s", [None, 0.0, LEASE_S - 1.0])
def test_at_the_end_of_the_wait_the_delegate_has_stopped_whatever_the_clocks(
    speed: float, restarted_after_s: float | None
) -> None:
    """`speed`: of the agent's and its kubelet's clocks, by the dispatcher's. An agent may start within its lease."""
    unrenewed_s = LEASE_S if restarted_after_s is None else restarted_after_s + RESTART_S
    assert (unrenewed_s + 30.0) / speed + SLACK_S <= stopped_after_s(LEASE_S, 30.0) + 1e-6


def test_a_ready_cluster_is_renewed() -> None:
    core = core_of_two()
    assert (peer(core, 500.0).api_ok, peer(core, 600.0).unrenewed_s) == (True, 0.0)


def test_of_a_lost_cluster_it_counts_from_the_last_answer_of_its_agent() -> None:
    core = core_of_two()
    silent(core, 10.0)
    core.handle(PeersAcknowledged("west"), 25.0)  # it answered late: the next call would have renewed
    assert peer(core, 100.0) == Peer(
        "west", False, peer(core, 110.0).allocatable, peer(core, 120.0).labels, "west-uid", (), True, 75.0
    )


def test_a_dispatcher_that_starts_counts_from_when_it_missed_the_cluster() -> None:
    core = make_core(("east", "west"))
    tell(core, "east", now=1000.0)
    silent(core, 1020.0)
    assert peer(core, 1100.0) == Peer("west", ready=False, unrenewed_s=80.0)


def test_a_cluster_that_is_back_is_renewed_and_counts_anew() -> None:
    core = core_of_two()
    silent(core, 10.0)
    report(core, 500.0, api_ok=True)
    assert peer(core, 501.0).unrenewed_s == 0.0
    silent(core, 510.0)
    assert peer(core, 550.0).unrenewed_s == 40.0


@pytest.mark.parametrize("api_ok", [True, False])
def test_the_last_report_says_whether_the_api_server_was_well(api_ok: bool) -> None:
    core = core_of_two()
    report(core, 5.0, api_ok=api_ok)
    silent(core, 10.0)
    assert peer(core, 100.0).api_ok is api_ok


def leased(mode: str = LEASE, **more: object) -> Pod:
    fields = {
        "scheduler_name": SCHEDULER_NAME,
        "node": proxy_node_name("west"),
        "claim": Claim("west", "n1", 1),
        "has_finalizer": True,
        "failover": mode,
        **more,
    }
    return Pod("uid-web", "default", "web", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after_s", "api_ok", "says"),
    [
        (20.0, True, None),
        (60.0, True, f"failover waits {WAIT_S - 60:.0f} s more"),
        (WAIT_S + 1, True, "has certainly stopped the pod there"),
        (WAIT_S + 1, False, "failover waits as strict"),
    ],
)
def test_explain_says_until_when_a_pod_waits_and_why(after_s: float, api_ok: bool, says: str | None) -> None:
    core = core_of_two(leased())
    report(core, 10.0, api_ok=api_ok)
    silent(core, 10.0)
    core.handle(Tick(), 10.0 + after_s)
    row = explain(core, "default", "web")
    assert row is not None
    assert (row["waiting"] is None) is (says is None)
    assert (says or "") in (row["waiting"] or "")


@pytest.mark.parametrize("mode", ["", "strict", "asap"])
def test_of_other_modes_time_has_no_say(mode: str) -> None:
    core = core_of_two(leased(mode))
    silent(core, 10.0)
    core.handle(Tick(), 100.0)
    row = explain(core, "default", "web")
    assert row is not None
    assert row["waiting"] is None
