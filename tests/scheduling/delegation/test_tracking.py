"""A source that a restore took keeps its room while a delegate may run that nobody has shown yet."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.delegation.tracking import Tracked, forget_vanished, place_of
from shared.model.names import CLAIM, proxy_node_name
from shared.model.pod import Claim, Pod, SourceRef
from shared.security.signatures import SignedClaim, sign_claim

TIMING = CoreTiming()
LOCAL = Pod("u1", "default", "web-1", node="e1")
CLAIMED = Pod("u1", "default", "web-1", claim=Claim("west", "w1", 5), has_finalizer=True)
REMOTE = msgspec.structs.replace(CLAIMED, node=proxy_node_name("west"))
DELEGATE = Pod("d1", "default", "web-1-abc", node="w1")


def vanished(source: Pod = REMOTE, *, seen_deleted: bool = False) -> Tracked:
    tracked = Tracked(("east", source.uid))
    tracked.see_source(source)
    tracked.see_source(None, seen_deleted=seen_deleted)
    return tracked


def west(*, silent: bool = False) -> dict[str, ClusterView]:
    view = ClusterView("west")
    view.heard, view.silent, view.synced, view.api_ok, view.ready_since = True, silent, True, True, 0.0
    return {"west": view}


@pytest.mark.parametrize("source", [CLAIMED, REMOTE], ids=["claimed", "bound"])
def test_it_holds_its_room_where_it_was_going(source: Pod) -> None:
    tracked = vanished(source)
    assert not tracked.forgotten
    assert place_of(tracked) == (source, "west", "w1")


def test_one_that_was_deleted_or_is_local_holds_none() -> None:
    for tracked in (vanished(seen_deleted=True), vanished(LOCAL)):
        assert tracked.forgotten
        assert place_of(tracked) is None


def test_one_whose_target_said_that_it_has_no_delegate_holds_none() -> None:
    tracked = Tracked(("east", "u1"), REMOTE)
    tracked.see_delegate("west", None)
    tracked.see_source(None, seen_deleted=False)
    assert tracked.forgotten


def test_a_delegate_that_is_not_bound_yet_changes_nothing() -> None:
    tracked = vanished(CLAIMED)
    tracked.see_delegate("west", msgspec.structs.replace(DELEGATE, node=""))
    assert place_of(tracked) == (CLAIMED, "west", "w1")


def test_once_the_delegate_shows_that_counts_alone() -> None:
    tracked = vanished()
    tracked.see_delegate("west", DELEGATE)
    assert tracked.vanished is None
    tracked.see_delegate("west", None)
    assert tracked.forgotten


@pytest.mark.parametrize("cut", [True, False])
def test_a_delegate_counts_by_the_labels_of_its_source_as_far_as_these_are_told(cut: bool) -> None:
    source = msgspec.structs.replace(REMOTE, labels={"app": "web"}, labels_cut=cut)
    tracked = Tracked(("east", "u1"), source=source, delegates={"west": Pod("d1", "default", "web-1-d", node="w1")})
    place = place_of(tracked)
    assert place is not None
    assert (place[0].labels, place[0].labels_cut) == ({"app": "web"}, cut)


def test_it_is_given_up_when_a_target_that_answers_had_the_time_to_notice_a_silent_watch() -> None:
    tracked, clusters = vanished(), west()
    for now in (1000.0, 999.0 + TIMING.absence_grace_s):
        forget_vanished(tracked, clusters, now, TIMING)
        assert not tracked.forgotten
    forget_vanished(tracked, clusters, 1000.0 + TIMING.absence_grace_s, TIMING)
    assert tracked.forgotten
    assert not tracked.waits_for_time


def test_while_the_target_is_silent_it_is_kept() -> None:
    tracked = vanished()
    for now in (1000.0, 10_000.0, 20_000.0):
        forget_vanished(tracked, west(silent=True), now, TIMING)
    assert place_of(tracked) is not None


def test_a_target_that_was_restored_or_is_not_configured_proves_nothing() -> None:
    restored = west()
    restored["west"].restored = True
    for clusters in (restored, {}):
        tracked = vanished()
        for now in (1000.0, 10_000.0):
            forget_vanished(tracked, clusters, now, TIMING)
        assert place_of(tracked) is not None


def test_nor_does_another_cluster_under_the_name_of_the_target() -> None:
    whose = SourceRef("east", "east-uid", "default", "web-1", "u1", 5)
    claim = sign_claim(Ed25519PrivateKey.generate(), SignedClaim(whose, "west", "another-uid", "w1", b""))
    source = msgspec.structs.replace(REMOTE, annotations={CLAIM: claim})
    tracked, clusters = vanished(source), west()
    clusters["west"].uid = "west-uid"
    for now in (1000.0, 10_000.0):
        forget_vanished(tracked, clusters, now, TIMING)
    assert not tracked.forgotten


@pytest.mark.parametrize("clusters", [west(silent=True), {}], ids=["silent", "not configured"])
def test_where_an_operator_has_fenced_the_target_it_is_given_up_at_once(clusters: dict[str, ClusterView]) -> None:
    tracked = vanished()
    fenced = {"east": ClusterView("east", fenced=frozenset({"west"})), **clusters}
    forget_vanished(tracked, fenced, 1000.0, TIMING)
    assert tracked.forgotten


@pytest.mark.parametrize(
    ("source", "goes"), [(LOCAL, False), (CLAIMED, True), (REMOTE, True)], ids=["at home", "claimed", "bound"]
)
def test_it_goes_where_its_claim_or_its_proxy_node_says(source: Pod, goes: bool) -> None:
    tracked = Tracked(("east", "u1"), source)
    assert tracked.goes_to("west") == goes
    assert not tracked.goes_to("north")
    assert not tracked.goes_to("east")


def test_it_goes_where_its_delegate_shows() -> None:
    tracked = Tracked(("east", "u1"))
    tracked.see_delegate("west", DELEGATE)
    assert tracked.goes_to("west")
