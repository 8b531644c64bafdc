"""Failover mode `lease` at the target: when its lease lapses, and which delegates are stopped then."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.duties import lease_expiry
from agents.executor.trust.renewals import Renewals
from shared.messages import BOUND, CLAIMED, STALE, UNKNOWN, Claim, CreateDelegate, PodRef
from shared.model import names
from shared.model.leases import LEASE, RESTART_S
from shared.security.signatures import read_claim
from tests.agents.executor.world import NOW, World, keys_of, order_for, pod_object, run

LEASE_S = 120.0
SOURCE = PodRef("default", "web", "source-uid")
Life = Callable[[Renewals], object]


def told(lease: Renewals, at: float) -> str:
    """The dispatcher speaks for the first time; the word that it has from then on."""
    lease.lapsed(at)
    return lease.token(at, at)


def renewed(said_at: float) -> Renewals:
    """A lease that was renewed with the word of this time."""
    lease = Renewals()
    assert lease.renew(told(lease, said_at), LEASE_S)
    return lease


@pytest.mark.parametrize(("age", "lapses"), [(0.0, False), (LEASE_S - 0.1, False), (LEASE_S, True), (10_000.0, True)])
def test_a_lease_lapses_when_the_last_word_that_was_echoed_is_as_old(age: float, lapses: bool) -> None:
    assert bool(renewed(1000.0).lapsed(1000.0 + age)) is lapses


def test_an_echo_counts_from_when_its_word_was_said_however_late_it_arrives() -> None:
    lease = Renewals()
    word = told(lease, 1000.0)
    assert lease.renew(word, LEASE_S)  # an hour later: nothing asks for the time
    assert lease.lapsed(1000.0 + 3600)


@pytest.mark.parametrize(("age", "lapses"), [(0.0, False), (RESTART_S - 0.1, False), (RESTART_S, True)])
def test_an_agent_that_starts_and_is_not_renewed_goes_on_for_a_short_time(age: float, lapses: bool) -> None:
    lease = Renewals()
    told(lease, 1000.0)
    assert bool(lease.lapsed(1000.0 + age)) is lapses


@pytest.mark.parametrize("echo", ["", "1 1000.0 1000.0", "nonsense"], ids=["none", "of another life", "nobody's"])
def test_what_is_no_word_of_this_life_renews_nothing(echo: str) -> None:
    lease = Renewals()
    told(lease, 2000.0)
    assert not lease.renew(echo, LEASE_S)
    assert lease.lapsed(2000.0 + RESTART_S)


def test_a_call_that_a_later_one_overtook_renews_nothing() -> None:
    lease = renewed(1000.0)
    older, newer = lease.token(1005.0, 0.0), lease.token(1010.0, 0.0)
    assert lease.renew(newer, LEASE_S)
    assert not lease.renew(older, 10.0)
    assert not lease.lapsed(1010.0 + LEASE_S - 0.1)
    assert lease.lapsed(1010.0 + LEASE_S)


def test_a_lease_that_has_lapsed_is_renewed_by_a_new_word_alone() -> None:
    lease = renewed(1000.0)
    old, new = lease.token(1005.0, 0.0), lease.token(2000.0, 0.0)
    assert lease.renew(old, LEASE_S)
    assert lease.lapsed(2000.0)
    assert lease.renew(new, LEASE_S)
    assert not lease.lapsed(2000.0)


def leased(mode: str = LEASE, epoch: int = 1, ref: PodRef = SOURCE) -> CreateDelegate:
    """The order to make a delegate in b, with a claim of this mode."""
    order = order_for(ref, epoch, "n1", msgspec.json.encode(pod_object(ref.name)))
    signed = read_claim(order.record)
    assert signed is not None
    mark = keys_of("a").sign_claim(msgspec.structs.replace(signed, failover=mode))
    return msgspec.structs.replace(order, record=mark)


class Target:
    """Cluster b with one delegate."""

    def __init__(self, mode: str = LEASE) -> None:
        self.world = World(cluster="b")
        assert self.world.do(leased(mode)).verdict == BOUND
        self.world.sync()

    @property
    def delegate(self) -> dict[str, Any]:
        (pod,) = self.world.api.pods()
        return pod

    def tend(self, seconds: float) -> None:
        """Look at what is due after so many seconds."""
        now = NOW._replace(mono=NOW.mono + seconds)
        for duty in lease_expiry.reconcile_tasks(self.world.local, now):
            assert run(duty.procedure, self.world.api.answer) == ""

    @property
    def going(self) -> bool:
        return "deletionTimestamp" in self.delegate["metadata"]

    def said(self) -> list[str]:
        found = [msgspec.json.decode(one.body) for one in self.world.local.events]
        return [one["note"] for one in found if one["reason"] == "LeaseLapsed"]


@pytest.mark.parametrize(("mode", "goes"), [(LEASE, True), ("", False), ("asap", False), ("Lease", False)])
def test_at_the_lapse_delegates_of_this_mode_are_deleted_with_their_own_grace_period(mode: str, goes: bool) -> None:
    it = Target(mode)
    it.tend(0)
    it.tend(RESTART_S - 1)  # nothing has renewed it since the start
    assert not it.going
    it.tend(RESTART_S)
    assert it.going is goes
    assert it.delegate["metadata"].get("deletionGracePeriodSeconds") == (30 if goes else None)


def test_a_delegate_is_stopped_once_and_told_why() -> None:
    it = Target()
    it.tend(0)
    it.tend(RESTART_S)
    it.tend(RESTART_S + 1)  # the view has not caught up
    assert it.world.api.count("delete") == 1
    assert it.said() == [
        "no dispatcher has renewed its lease in the 60 s since the agent started: this pod is stopped, since the "
        "cluster of its source may replace it now"
    ]


@pytest.mark.parametrize("written", [None, "strict", "asap"])
def test_what_users_write_onto_a_delegate_does_not_keep_it(written: str | None) -> None:
    it = Target()
    annotations = it.delegate["metadata"]["annotations"]
    annotations.pop(names.FAILOVER, None)
    if written:
        annotations[names.FAILOVER] = written
    it.world.sync()
    it.tend(0)
    it.tend(RESTART_S)
    assert it.going


def test_what_users_write_onto_a_delegate_of_another_mode_does_not_stop_it() -> None:
    it = Target("")
    it.delegate["metadata"]["annotations"][names.FAILOVER] = LEASE
    it.world.sync()
    it.tend(0)
    it.tend(RESTART_S)
    assert not it.going


def test_pods_of_this_cluster_and_copies_that_ended_stay() -> None:
    it = Target()
    it.delegate["status"]["phase"] = "Succeeded"
    own = pod_object("own", nodeName="n1")
    own["metadata"]["annotations"] = {names.FAILOVER: LEASE}
    it.world.submit(own)
    it.tend(0)
    it.tend(RESTART_S)
    assert it.world.api.count("delete") == 0


def test_while_the_lease_has_lapsed_no_delegate_of_this_mode_is_made_and_nothing_is_concluded() -> None:
    it = Target()
    it.tend(0)
    late = NOW._replace(mono=NOW.mono + RESTART_S)
    other = PodRef("default", "db", "other-uid")
    assert it.world.do(leased(ref=other), late).verdict == UNKNOWN
    assert it.world.do(leased("", ref=other), late).verdict == BOUND


@pytest.mark.parametrize(("first", "second"), [("", LEASE), (LEASE, "")])
def test_an_order_of_another_mode_than_the_delegate_that_is_there_is_stale(first: str, second: str) -> None:
    it = Target(first)
    outcome = it.world.do(leased(second, epoch=2))
    assert outcome.verdict == STALE
    assert names.FAILOVER in outcome.message
    assert it.world.do(leased(first, epoch=3)).verdict == BOUND


class Source:
    """Cluster a with one pod that says `mode`."""

    def __init__(self, mode: str) -> None:
        self.world = World(cluster="a", peers=("b",))
        pod = pod_object()
        pod["metadata"]["annotations"] = {names.FAILOVER: mode} if mode else {}
        self.ref = self.world.submit(pod)

    def claim(self, epoch: int) -> str:
        """The mode of the claim that this makes."""
        outcome = self.world.do(Claim("i", self.ref, epoch, "b", "n1", "b-cluster-uid"))
        signed = read_claim(outcome.record)
        assert (outcome.verdict, signed is not None) == (CLAIMED, True)
        self.world.sync()
        return signed.failover if signed is not None else ""

    def say(self, mode: str) -> None:
        found = self.world.api.pod("web")
        assert found is not None
        found["metadata"]["annotations"][names.FAILOVER] = mode
        self.world.sync()

    @property
    def effective(self) -> str:
        pod = self.world.cache.pod(self.ref.uid)
        assert pod is not None
        return pod.failover


@pytest.mark.parametrize(("mode", "claimed"), [(LEASE, LEASE), ("strict", ""), ("asap", ""), ("", "")])
def test_the_claim_says_whether_the_delegate_stops_by_itself(mode: str, claimed: str) -> None:
    assert Source(mode).claim(1) == claimed


@pytest.mark.parametrize(("at_first", "later"), [(LEASE, "strict"), ("strict", LEASE)])
def test_a_later_attempt_for_the_same_place_keeps_what_the_first_has_said(at_first: str, later: str) -> None:
    source = Source(at_first)
    first = source.claim(1)
    source.say(later)
    assert source.claim(2) == first


@pytest.mark.parametrize(
    ("at_first", "later", "effective"),
    [
        (LEASE, LEASE, LEASE),
        (LEASE, "strict", "strict"),
        (LEASE, "asap", "asap"),
        ("strict", LEASE, ""),
        ("asap", LEASE, ""),
    ],
)
def test_a_pod_is_of_this_mode_only_where_its_claim_and_its_owner_say_so(
    at_first: str, later: str, effective: str
) -> None:
    source = Source(at_first)
    source.claim(1)
    source.say(later)
    assert source.effective == effective


def test_a_claim_that_its_cluster_has_not_signed_makes_no_pod_of_this_mode() -> None:
    source = Source(LEASE)
    source.claim(1)
    found = source.world.api.pod("web")
    assert found is not None
    found["metadata"]["annotations"][names.CLAIM] = leased(ref=source.ref).record + "x"
    source.world.sync()
    assert source.effective == ""
