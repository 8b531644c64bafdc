"""Files of a delegate follow the labels and annotations of its source."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.crossing.manifest import sanitise
from agents.executor.crossing.policy import ExecutorPolicy, ForeignBytes
from agents.executor.intents.procedures import carry_out
from agents.kube.convert import pod_seen
from agents.runtime.executor_loop import read_pod
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    CLAIMED,
    DONE,
    REFUSED,
    STALE,
    UNKNOWN,
    Bind,
    Claim,
    Outcome,
    Peer,
    PodRef,
    SignManifest,
    UpdateDelegate,
)
from shared.model import names
from shared.security.signatures import SignedClaim, digest_of, read_claim
from tests.agents.executor.test_downward import in_files, reading
from tests.agents.executor.test_target_needs import SETTINGS
from tests.agents.executor.world import (
    NOW,
    World,
    delegate_of,
    keys_of,
    lost_reply,
    node_object,
    order_for,
    pod_object,
    run,
    source_of,
)

Object = dict[str, Any]
PROXY = names.proxy_node_name("b")
TIER = "metadata.labels['tier']"


class Fleet:
    """A pod of cluster a that runs in b, whose files show its label `tier`."""

    def __init__(self, policy: ExecutorPolicy | None = None, reads: str = TIER, zone: str = "", **labels: str) -> None:
        node = node_object()
        node["metadata"]["labels"] |= {names.ZONE: zone} if zone else {}
        self.home, self.away = World(cluster="a", peers=("b",)), World(node, cluster="b", policy=policy)
        pod = reading(reads, labels={"app": "web", "tier": "one", **labels})
        self.ref = self.home.submit(pod)
        claimed = self.home.do(Claim("c", self.ref, 1, "b", "n1", "b-cluster-uid"))
        assert claimed.verdict == CLAIMED
        made = self.away.do(order_for(self.ref, 1, "n1", claimed.manifest))
        assert made.verdict == BOUND, made.message
        self.home.sync()
        assert self.home.do(Bind("p", self.ref, 1, PROXY, proxy=True)).verdict == BOUND

    @property
    def source(self) -> Object:
        found = self.home.api.pod(self.ref.name)
        assert found is not None
        return found

    @property
    def delegate(self) -> Object:
        found = self.away.api.pod(delegate_of(self.ref))
        assert found is not None
        return found

    def relabel(self, tier: str) -> None:
        self.source["metadata"]["labels"]["tier"] = tier

    def sign(self) -> Outcome:
        return self.home.do(SignManifest("s", self.ref, 2))

    def update(self, manifest: bytes, record: str, now: Moment = NOW, epoch: int = 2) -> Outcome:
        self.away.sync()
        order = UpdateDelegate("u", self.ref, epoch, source_of(self.ref, 1), "n1", manifest, record)
        return self.away.do(order, now)

    def follow(self, now: Moment = NOW) -> Outcome:
        signed = self.sign()
        assert signed.verdict == DONE
        return self.update(signed.manifest, signed.record, now)

    def told(self) -> tuple[str, str]:
        """The digests of files that both agents tell."""
        found = [pod_seen(msgspec.json.encode(pod)) for pod in (self.source, self.delegate)]
        source, delegate = (one.pod.files for one in found if one is not None and one.pod is not None)
        return source, delegate


def forged(fleet: Fleet, manifest: bytes, **claim: Any) -> str:
    """A claim for this manifest as `a` would sign it, but for what is said."""
    signed = SignedClaim(source_of(fleet.ref, 1), "b", "b-cluster-uid", "n1", digest_of(manifest))
    return keys_of("a").sign_claim(msgspec.structs.replace(signed, **claim))


def ours_of(pod: Object) -> tuple[Object, Object]:
    """Its spec, and what agents wrote on it, but for what follows."""
    said = pod["metadata"]["annotations"].items()
    return pod["spec"], {key: text for key, text in said if key.startswith(names.PREFIX) and key != names.CARRIES}


def test_a_file_shows_a_label_as_it_is_at_home_by_now() -> None:
    fleet = Fleet()
    assert in_files(fleet.delegate) == {"one"}
    fleet.relabel("two")
    assert fleet.follow().verdict == DONE
    assert in_files(fleet.delegate) == {"two"}


def test_a_map_of_labels_shows_the_zone_where_the_pod_runs_as_long_as_it_runs() -> None:
    fleet = Fleet(reads="metadata.labels", zone="b-1")
    zone = f'{names.ZONE}="b-1"'
    assert in_files(fleet.delegate) == {f'app="web"\ntier="one"\n{zone}'}
    fleet.source["metadata"]["labels"][names.ZONE] = "of-the-proxy-node"  # as API servers do at the binding
    assert fleet.told()[0] == fleet.told()[1]
    fleet.relabel("two")
    assert fleet.told()[0] != fleet.told()[1]
    assert fleet.follow().verdict == DONE
    assert in_files(fleet.delegate) == {f'app="web"\ntier="two"\n{zone}'}
    assert fleet.told()[0] == fleet.told()[1]


def test_agents_tell_whether_the_files_show_what_they_ought_to() -> None:
    fleet = Fleet()
    assert fleet.told()[0] == fleet.told()[1] != ""
    fleet.relabel("two")
    assert fleet.told()[0] != fleet.told()[1]
    fleet.follow()
    assert fleet.told()[0] == fleet.told()[1]


def test_a_pod_without_such_files_and_one_that_waits_tell_of_none() -> None:
    waiting = reading(TIER)
    elsewhere = pod_object(nodeName=PROXY)
    elsewhere["metadata"]["uid"] = "u"
    for pod in (waiting, elsewhere):
        found = pod_seen(msgspec.json.encode(pod))
        assert found is not None
        assert found.pod is not None
        assert found.pod.files == ""


def test_what_files_show_is_no_problem_of_a_delegate_however_long_it_is() -> None:
    fleet = Fleet()
    key = next(key for key in fleet.delegate["metadata"]["annotations"] if key.startswith(names.DOWNWARD))
    fleet.delegate["metadata"]["annotations"][key] = "x" * 10_000
    pod = read_pod(msgspec.json.encode(fleet.delegate))
    assert pod.problems == ()
    assert key not in pod.annotations


def test_the_same_again_writes_nothing() -> None:
    fleet = Fleet()
    fleet.relabel("two")
    fleet.follow()
    written = fleet.away.api.count("patch")
    assert fleet.follow().verdict == DONE
    assert fleet.away.api.count("patch") == written


def test_the_claim_is_the_one_that_the_pod_bears_but_for_the_manifest() -> None:
    fleet = Fleet()
    fleet.relabel("two")
    signed = fleet.sign()
    borne = read_claim(fleet.source["metadata"]["annotations"][names.CLAIM])
    said = read_claim(signed.record)
    assert borne is not None
    assert said == msgspec.structs.replace(borne, digest=digest_of(signed.manifest))


def test_an_older_word_that_comes_late_changes_nothing() -> None:
    fleet = Fleet()
    old = fleet.sign()
    fleet.relabel("two")
    new = fleet.sign()
    assert fleet.update(new.manifest, new.record, epoch=3).verdict == DONE
    assert fleet.update(old.manifest, old.record, epoch=2).verdict == STALE
    assert in_files(fleet.delegate) == {"two"}


def test_a_lost_reply_is_looked_after() -> None:
    fleet = Fleet()
    fleet.relabel("two")
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)
    done = run(carry_out(order, 1, fleet.away.local, NOW), lost_reply(fleet.away.api.answer, "PATCH"))
    assert done.verdict == DONE
    assert in_files(fleet.delegate) == {"two"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {names.DELEGATE_LABEL: "false", "pod-template-hash": "x"}, "annotations": {}},
        {"labels": {}, "annotations": {names.EPOCH: "99", names.SOURCE_CLUSTER: "c", "vault.hashicorp.com/x": "x"}},
        {"labels": {}, "annotations": {names.DOWNWARD + "0123456789": "new", names.DOWNWARD + "claim": "x"}},
    ],
    ids=["labels of agents and controllers", "annotations of agents, and that steer", "files that it has not"],
)
def test_a_hostile_home_changes_nothing_of_ours_and_nothing_that_never_changes(metadata: Object) -> None:
    fleet = Fleet()
    before = msgspec.json.encode(ours_of(fleet.delegate), order="sorted")
    hostile = {**pod_object()["spec"], "nodeSelector": {"secret": "yes"}, "hostname": "other"}
    hostile["containers"] = [{**one, "args": ["--evil"]} for one in fleet.delegate["spec"]["containers"]]
    manifest = msgspec.json.encode({"metadata": metadata, "spec": hostile})
    assert fleet.update(manifest, forged(fleet, manifest)).verdict == DONE
    assert msgspec.json.encode(ours_of(fleet.delegate), order="sorted") == before
    assert set(fleet.delegate["metadata"]["labels"]) == {names.DELEGATE_LABEL}


UNSIGNED: dict[str, Object] = {
    "for another manifest": {"digest": b"other"},
    "for another cluster": {"target": "c"},
    "for another node": {"node": "n2"},
}


@pytest.mark.parametrize("claim", UNSIGNED.values(), ids=UNSIGNED.keys())
def test_what_the_home_has_not_signed_for_this_very_place_is_refused(claim: Object) -> None:
    fleet = Fleet()
    fleet.relabel("two")
    signed = fleet.sign()
    assert fleet.update(signed.manifest, forged(fleet, signed.manifest, **claim)).verdict == REFUSED
    assert in_files(fleet.delegate) == {"one"}


def test_another_clusters_signature_is_none() -> None:
    fleet = Fleet()
    fleet.relabel("two")
    signed = fleet.sign()
    said = read_claim(signed.record)
    assert said is not None
    assert fleet.update(signed.manifest, keys_of("c").sign_claim(said)).verdict == REFUSED


def test_a_larger_manifest_than_may_cross_is_refused() -> None:
    fleet = Fleet()
    manifest = sanitise(msgspec.json.encode(pod_object()))
    large = manifest.replace(b'"app":"web"', b'"app":"' + b"x" * 300_000 + b'"')
    assert fleet.update(large, forged(fleet, large)).verdict == REFUSED


@pytest.mark.parametrize("gone", ["it", "its proof", "its life"])
def test_only_a_delegate_that_goes_on_is_written(gone: str) -> None:
    fleet = Fleet()
    fleet.relabel("two")
    if gone == "it":
        fleet.away.api.objects.clear()
    elif gone == "its proof":
        del fleet.delegate["metadata"]["annotations"][names.DELEGATE_PROOF]
    else:
        fleet.delegate["status"]["phase"] = "Succeeded"
    written = fleet.away.api.count("patch")
    assert fleet.follow().verdict == STALE
    assert fleet.away.api.count("patch") == written


def test_what_changes_too_fast_for_its_size_waits() -> None:
    fleet = Fleet(ExecutorPolicy(foreign_bytes=ForeignBytes(1, 1, 1, 2)), filler="x")
    written = 0
    for number in range(1000):
        fleet.relabel(str(number) + "y" * 50)
        done = fleet.follow()
        if done.verdict == REFUSED:
            break
        written += 1
    assert written * len(msgspec.json.encode(fleet.delegate)) < 2 * 2**20
    assert "foreign_bytes.namespace_mib_per_minute" in done.message
    assert fleet.follow(Moment(NOW.mono + 60, NOW.wall + 60)).verdict == DONE


@pytest.mark.parametrize("why", ["bound nowhere", "another UID", "going", "no claim"])
def test_only_a_source_that_runs_elsewhere_by_our_claim_is_signed_for(why: str) -> None:
    fleet = Fleet()
    ref = fleet.ref
    if why == "bound nowhere":
        del fleet.source["spec"]["nodeName"]
    elif why == "another UID":
        ref = PodRef(ref.namespace, ref.name, "another")
    elif why == "going":
        fleet.source["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        del fleet.source["metadata"]["annotations"][names.CLAIM]
    answer = fleet.home.do(SignManifest("s", ref, 2))
    assert (answer.verdict, answer.record) == (STALE, "")


def test_a_source_that_may_cross_no_more_is_told_once() -> None:
    fleet = Fleet()
    fleet.source["metadata"]["annotations"]["note"] = "x" * 300_000
    fleet.source["spec"]["volumes"][0]["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] = "metadata.annotations"
    assert [fleet.sign().verdict for _ in range(2)] == [REFUSED, REFUSED]
    told = [msgspec.json.decode(one.body) for one in fleet.home.local.events]
    (event,) = [one for one in told if one["reason"] == "ChangeRefused"]
    assert "256 KiB" in event["note"]
    assert fleet.told()[0] == "-"


@pytest.mark.parametrize("why", ["the agent there has not said yet", "the server fails"])
def test_what_is_not_known_just_now_is_no_refusal_of_which_its_owner_is_told(why: str) -> None:
    fleet = Fleet()
    fleet.source["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    fleet.home.peers = (Peer("b", ready=True, follows=None if why.startswith("the agent") else ("ConfigMap",)),)
    fleet.home.restart()

    def failing(request: Request) -> Response:
        return Response(500) if "/configmaps/" in request.path else fleet.home.api.answer(request)

    done = run(carry_out(SignManifest("s", fleet.ref, 2), 1, fleet.home.local, NOW), failing)
    assert (done.verdict, list(fleet.home.local.events)) == (UNKNOWN, [])


def test_what_is_signed_could_be_made_anew_without_losing_an_optional_config_map_that_is_at_home() -> None:
    fleet = Fleet()
    fleet.source["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings", "optional": True}}]
    assert b'"optional":true' in fleet.sign().manifest
    fleet.home.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}})
    assert b'"optional":true' not in fleet.sign().manifest


def test_a_server_that_does_not_answer_leaves_it_open() -> None:
    fleet = Fleet()
    order = SignManifest("s", fleet.ref, 2)
    assert run(carry_out(order, 1, fleet.home.local, NOW), lambda _: Response(0)).verdict == UNKNOWN
