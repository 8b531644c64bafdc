"""A cluster is the UID of its kube-system namespace, whatever it is called in a configuration."""

from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import (
    Answered,
    ClusterChanged,
    ClusterSilent,
    Effect,
    OperatorWarning,
    SendIntents,
    SendPeers,
    Tick,
)
from dispatcher.scheduling.views import clusters_view, whole
from dispatcher.service.assembly import assemble
from dispatcher.service.links.link import LocalLink
from shared.messages import DONE, Bind, Changes, ConfirmNoDelegate, FinishSource, Intent, Outcome
from shared.model.names import CLAIM, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim, Pod, SourceRef
from shared.security.keys import OwnKeys
from shared.security.signatures import SignedClaim, from_pinned, public_key, sign_claim, sign_key
from tests.laws.cores import make_core
from tests.service.fakes import FakeAgent

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})


def pod(name: str, **more: object) -> Pod:
    fields = {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod(f"uid-{name}", "default", name, **fields)  # type: ignore[arg-type]


def report(core: SchedulerCore, cluster: str, uid: str, *pods: Pod, now: float = 1.0) -> Sequence[Effect]:
    life = f"{cluster}-{uid}"
    return core.handle(ClusterChanged(Changes(cluster, uid, life, 0, 1, full=True, nodes=(NODE,), pods=pods)), now)


def problem_of(core: SchedulerCore, cluster: str) -> str:
    (row,) = [row for row in whole(clusters_view(core)) if row["name"] == cluster]
    return "" if row["ready"] else str(row["problem"])


def troubles(effects: Sequence[Effect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, OperatorWarning)]


def rows(core: SchedulerCore) -> list[tuple[str, str]]:
    return [core.fleet.name_of(row) for row in range(core.fleet.n) if core.fleet.live[row]]


def test_a_second_name_of_a_cluster_is_refused_and_counts_nothing_twice() -> None:
    core = make_core(("north", "north2"))
    report(core, "north", "n", pod("a"))
    effects = report(core, "north2", "n", pod("a"))
    assert problem_of(core, "north2") == '"north2" is the same cluster as "north" (kube-system n): list it once'
    assert troubles(effects) == [f"cluster {problem_of(core, 'north2')}"]
    assert (rows(core), list(core.tracked)) == ([("north", "n1")], [("north", "uid-a")])


def test_decisions_for_the_others_go_on_beside_a_cluster_that_is_listed_twice() -> None:
    core = make_core(("north", "north2"))
    report(core, "north", "n", pod("a"))
    report(core, "north2", "n", pod("a"))
    sent = [one for one in core.handle(Tick(), 1.0) if isinstance(one, SendIntents)]
    assert [(one.cluster, [type(intent) for intent in one.intents]) for one in sent] == [("north", [Bind])]


def test_another_cluster_under_a_known_name_is_refused_and_takes_nothing_away() -> None:
    core = make_core(("north",))
    bound = pod("a", node="n1", claim=Claim("west", "w1", 1), has_finalizer=True)
    report(core, "north", "n", bound)
    effects = report(core, "north", "other", now=2.0)
    assert "another cluster now (kube-system other, was n)" in problem_of(core, "north")
    assert troubles(effects)
    assert core.tracked["north", "uid-a"].source == bound
    assert core.clusters["north"].uid == "n"


def test_a_cluster_that_is_not_the_pinned_one_is_kept_out_with_both_uids_and_the_fix() -> None:
    core = make_core(("north", "west"))
    core.pin("north", "n")
    effects = report(core, "north", "other", pod("a"))
    report(core, "west", "w")
    problem = problem_of(core, "north")
    assert all(part in problem for part in ('"north"', "uid: n,", "says other", "kubectl get ns kube-system"))
    assert troubles(effects) == [f"cluster {problem}"]
    assert (rows(core), list(core.tracked)) == ([("west", "n1")], [])
    report(core, "north", "n", pod("a"), now=2.0)
    assert problem_of(core, "north") == ""


def test_a_dispatcher_pins_what_its_configuration_says() -> None:
    config = DispatcherConfig(
        clusters=(ClusterSection(name="north", uid="n", key=OLD_KEY), ClusterSection(name="west"))
    )
    links = [LocalLink(name, FakeAgent(name)) for name in ("north", "west")]
    clusters = assemble(links, config).service.core.clusters
    pins = [(name, view.pinned_uid, view.pinned_key) for name, view in clusters.items()]
    assert pins == [("north", "n", OLD_KEY), ("west", "", "")]


def test_whoever_claims_the_uid_of_a_pinned_cluster_first_does_not_keep_that_one_out() -> None:
    core = make_core(("north", "liar"))
    core.pin("north", "n")
    report(core, "liar", "n", pod("a"))
    assert problem_of(core, "liar") == (
        '"liar" says it is the cluster n (kube-system), which `uid` of "north" pins: list it once'
    )
    report(core, "north", "n", pod("a"))
    assert problem_of(core, "north") == ""
    assert rows(core) == [("north", "n1")]


def test_the_right_cluster_under_its_name_is_taken_in_again() -> None:
    core = make_core(("north",))
    report(core, "north", "n", pod("a"))
    report(core, "north", "other", now=2.0)
    report(core, "north", "n", pod("a"), pod("b"), now=3.0)
    assert problem_of(core, "north") == ""
    assert set(core.tracked) == {("north", "uid-a"), ("north", "uid-b")}


def test_a_report_that_does_not_know_its_cluster_yet_changes_nothing_about_who_it_is() -> None:
    core = make_core(("north",))
    report(core, "north", "n", pod("a"))
    view = core.clusters["north"]
    core.handle(ClusterChanged(Changes("north", "", view.incarnation, 1, 1, synced=False)), 2.0)
    assert (view.uid, view.ready) == ("n", False)


def test_two_clusters_with_one_key_are_told_to_the_operator_and_shown_with_the_fix() -> None:
    core = make_core(("north", "south", "west"))
    for cluster, keys in (("north", ("K1",)), ("south", ("K2 sig", "K1")), ("west", ("K3",))):
        core.handle(ClusterChanged(Changes(cluster, f"{cluster}-uid", "life", 0, 1, full=True, keys=keys)), 1.0)
    (told,) = troubles(core.handle(Tick(), 2.0))
    shown = {row["name"]: row["problem"] for row in whole(clusters_view(core))}
    assert told.startswith('clusters "north" and "south" have the same key')
    assert "a key of its own" in told
    assert shown == {"north": told, "south": told, "west": ""}
    assert troubles(core.handle(Tick(), 3.0)) == []


def gone_to_west(**more: object) -> Pod:
    """A pod of north whose delegate runs in the cluster west with the UID w."""
    source = SourceRef("north", "n", "default", "a", "uid-a", 1)
    mark = sign_claim(Ed25519PrivateKey.generate(), SignedClaim(source, "west", "w", "n1", b"x" * 32))
    return pod("a", claim=Claim("west", "n1", 1), has_finalizer=True, annotations={CLAIM: mark}, **more)


REMOTE = {"node": proxy_node_name("west"), "phase": "Running"}


@pytest.mark.parametrize(("uid", "asked"), [("w", [ConfirmNoDelegate]), ("other", [])])
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(gone_to_west(**REMOTE), id="bound"),
        pytest.param(gone_to_west(**REMOTE, terminating=True), id="ending"),
        pytest.param(gone_to_west(), id="claimed"),
    ],
)
def test_only_the_cluster_that_a_claim_names_is_asked_for_its_delegate(
    source: Pod, uid: str, asked: list[type]
) -> None:
    core = make_core(("north", "west"))
    effects = [*report(core, "north", "n", source), *report(core, "west", uid)]
    for now in range(2, 120):
        effects += core.handle(Tick(), float(now))
    sent = [intent for one in effects if isinstance(one, SendIntents) for intent in one.intents]
    assert [type(one) for one in sent if not hasattr(one, "message")] == asked


@pytest.mark.parametrize("uid", ["w", "other"])
@pytest.mark.parametrize("terminating", [False, True])
def test_a_source_that_lost_its_claim_is_let_go_by_the_identity_of_the_cluster_without_a_delegate(
    uid: str, terminating: bool
) -> None:
    core = make_core(("north", "west"))  # it has just begun: nothing but the node's name says where the pod went
    stripped = pod("a", has_finalizer=True, terminating=terminating, **REMOTE)
    effects = [*report(core, "north", "n", stripped), *report(core, "west", uid)]
    sent: list[Intent] = []
    for now in range(2, 20):
        effects += core.handle(Tick(), float(now))
        new = [intent for one in effects if isinstance(one, SendIntents) for intent in one.intents]
        effects = []
        sent.extend(new)
        for intent in new:
            if isinstance(intent, ConfirmNoDelegate):
                done = Outcome(intent.id, intent.pod.uid, intent.epoch, DONE)
                effects += core.handle(Answered("west", (done,)), float(now))
    assert [one.target_uid for one in sent if isinstance(one, FinishSource)] == [uid]


OLD, NEW, EVIL = (Ed25519PrivateKey.generate() for _ in range(3))
OLD_KEY, NEW_KEY, EVIL_KEY = map(public_key, (OLD, NEW, EVIL))
ROTATED = (f"{NEW_KEY} {sign_key(OLD, NEW_KEY)}", OLD_KEY)


def told_keys(core: SchedulerCore, *keys: str) -> list[Effect]:
    """What comes of a report of north with these keys."""
    told = Changes("north", "n", "life", 0, 1, full=True, nodes=(NODE,), keys=keys)
    return list(core.handle(ClusterChanged(told), 1.0))


def passed_on(core: SchedulerCore) -> tuple[str, ...]:
    """The keys of north of which the other clusters are told."""
    told = [one for one in core.handle(Tick(), 2.0) if isinstance(one, SendPeers) and one.cluster == "west"]
    return next((peer.keys for one in told for peer in one.peers if peer.cluster == "north"), ())


@pytest.mark.parametrize(
    ("keys", "passes"),
    [
        pytest.param((OLD_KEY,), (OLD_KEY,), id="the pinned one"),
        pytest.param(ROTATED, ROTATED, id="one that the pinned one vouches for"),
        pytest.param(
            (f"{OLD_KEY} {sign_key(EVIL, OLD_KEY)}", EVIL_KEY), (OLD_KEY,), id="not one that is said to be older"
        ),
        pytest.param((EVIL_KEY,), (), id="not another"),
        pytest.param((f"{EVIL_KEY} {sign_key(EVIL, EVIL_KEY)}", OLD_KEY), (), id="nor one that vouches for itself"),
        pytest.param((EVIL_KEY, OLD_KEY), (), id="nor one without a word for it"),
        pytest.param(
            (f"{EVIL_KEY} {sign_key(OLD, EVIL_KEY)[:-4]}AAA=", OLD_KEY), (), id="nor one whose signature was changed"
        ),
    ],
)
def test_of_a_cluster_whose_key_is_pinned_others_are_told_keys_that_follow_from_it(
    keys: tuple[str, ...], passes: tuple[str, ...]
) -> None:
    core = make_core(("north", "west"))
    core.pin("north", "n", OLD_KEY)
    report(core, "west", "w")
    told_keys(core, *keys)
    assert passed_on(core) == passes


def test_a_cluster_with_another_key_than_the_pinned_one_is_kept_out_with_both_keys_and_the_fix() -> None:
    core = make_core(("north", "west"))
    core.pin("north", "n", OLD_KEY)
    report(core, "west", "w")
    effects = told_keys(core, EVIL_KEY)
    problem = problem_of(core, "north")
    assert all(part in problem for part in ('"north"', f"key: {OLD_KEY},", f"signs with {EVIL_KEY},", "set key to"))
    assert troubles(effects) == [f"cluster {problem}"[:500]]
    assert rows(core) == [("west", "n1")]
    told_keys(core, OLD_KEY)
    assert problem_of(core, "north") == ""


def test_an_agent_whose_executor_is_away_tells_no_keys_and_is_not_kept_out() -> None:
    core = make_core(("north", "west"))
    core.pin("north", "n", OLD_KEY)
    report(core, "west", "w")
    told_keys(core)
    assert (problem_of(core, "north"), passed_on(core)) == ("", ())


def test_a_standby_that_takes_over_keeps_the_pinned_key() -> None:
    core = make_core(("north", "west"))
    core.pin("north", "n", OLD_KEY)
    core.follow()
    report(core, "west", "w")
    told_keys(core, OLD_KEY)
    core.take_over(10)
    report(core, "west", "w", now=2.0)
    core.handle(ClusterSilent("north", "away"), 2.0)
    assert core.clusters["north"].pinned_key == OLD_KEY


@pytest.mark.parametrize(("number", "passes"), [(16, True), (17, False)])
def test_the_pinned_key_is_looked_for_among_the_sixteen_newest(number: int, passes: bool) -> None:
    newest_first = [Ed25519PrivateKey.generate() for _ in range(number)]
    keys = OwnKeys(newest_first)
    assert bool(from_pinned(keys.public[-1], keys.endorsed_keys())) is passes


def test_of_the_keys_of_a_cluster_without_a_pinned_one_the_sixteen_newest_are_believed() -> None:
    newest_first = [Ed25519PrivateKey.generate() for _ in range(18)]
    core, keys = make_core(("north", "west")), OwnKeys(newest_first)
    report(core, "west", "w")
    told_keys(core, *keys.endorsed_keys())
    assert passed_on(core) == keys.endorsed_keys()[:16]
    assert core.clusters["north"].keys == keys.endorsed_keys()[:16]
