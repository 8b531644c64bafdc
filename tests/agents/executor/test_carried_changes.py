"""What changes of a source after it went reaches its delegate: what may change of a pod that runs, and only that."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.executor.context.failover_mode import tolerations_for
from agents.executor.context.local import Moment
from agents.executor.crossing import live
from agents.executor.crossing.policy import Accept, ExecutorPolicy, ForeignBytes
from agents.executor.intents.procedures import carry_out
from agents.executor.objects.events import CHANGE_REFUSED
from agents.kube.convert import pod_seen
from agents.observer.seen import InvalidAnnotation
from dispatcher.scheduling.delegation.protocol import generation_seen, outdated
from shared.kube.http import STRATEGIC_PATCH, Request, Response
from shared.messages import BOUND, CLAIMED, DONE, REFUSED, UNKNOWN, Claim, MirrorStatus, UpdateDelegate
from shared.model import names
from shared.model.pod import Pod
from tests.agents.executor.test_downward import in_files
from tests.agents.executor.test_update import Fleet, forged
from tests.agents.executor.world import NOW, World, delegate_of, lost_reply, order_for, pod_object, run, source_of

Object = dict[str, Any]
DEBUG = {"name": "debug", "image": "busybox", "targetContainerName": "main", "stdin": True, "tty": True}


def debugged(fleet: Fleet, *containers: Object) -> None:
    fleet.source["spec"].setdefault("ephemeralContainers", []).extend(containers)


def lives(fleet: Fleet) -> tuple[str, str]:
    """The digests of what may change that both agents tell."""
    found = [pod_seen(msgspec.json.encode(pod)) for pod in (fleet.source, fleet.delegate)]
    source, delegate = (one.pod.live for one in found if one is not None and one.pod is not None)
    return source, delegate


def seen_at_home(fleet: Fleet) -> int:
    """The generation that home is to show, by what both agents tell."""
    found = [pod_seen(msgspec.json.encode(pod)) for pod in (fleet.source, fleet.delegate)]
    source, delegate = (one.pod for one in found if one is not None and one.pod is not None)
    return generation_seen(source, delegate)


def count(fleet: Fleet, home: int, away: int, observed: int) -> None:
    fleet.source["metadata"]["generation"] = home
    fleet.delegate["metadata"]["generation"] = away
    fleet.delegate["status"]["observedGeneration"] = observed


def main_of(pod: Object) -> Object:
    found: Object = pod["spec"]["containers"][0]
    return found


def condition_of(fleet: Fleet) -> Object | None:
    said = fleet.delegate["status"].get("conditions") or ()
    return next((one for one in said if one["type"] == names.FOLLOWED), None)


def events_of(world: World, reason: str = "ChangeRefused") -> list[str]:
    told = [msgspec.json.decode(one.body) for one in world.local.events]
    return [one["note"] for one in told if one["reason"] == reason]


def warned(world: World) -> list[InvalidAnnotation]:
    taken = [one for one in world.cache.take_warnings() if isinstance(one, InvalidAnnotation)]
    return [one for one in taken if one.reason == CHANGE_REFUSED]


def settled(fleet: Fleet) -> bool:
    """Whether both agents tell the same, and doing it again writes nothing."""
    done = list(fleet.away.api.done)
    return fleet.follow().verdict == DONE and fleet.away.api.done == done and lives(fleet)[0] == lives(fleet)[1] != ""


# --- labels and annotations


def test_a_pod_that_went_has_reached_its_delegate() -> None:
    assert settled(Fleet())


def test_labels_and_annotations_that_cross_are_changed_added_and_removed() -> None:
    fleet = Fleet(team="x")
    metadata = fleet.source["metadata"]
    metadata["labels"] |= {"tier": "two", "new": "n"}
    del metadata["labels"]["team"]
    metadata["annotations"] |= {"note": "n", "prometheus.io/port": "1"}
    assert lives(fleet)[0] != lives(fleet)[1]
    assert fleet.follow().verdict == DONE
    labels, annotations = fleet.delegate["metadata"]["labels"], fleet.delegate["metadata"]["annotations"]
    assert labels == {"app": "web", "tier": "two", "new": "n", names.DELEGATE_LABEL: "true"}
    assert (annotations["note"], annotations["prometheus.io/port"]) == ("n", "1")
    del metadata["annotations"]["note"]
    assert fleet.follow().verdict == DONE
    assert "note" not in fleet.delegate["metadata"]["annotations"]
    assert in_files(fleet.delegate) == {"two"}
    assert settled(fleet)


def test_what_the_targets_own_admission_has_added_is_neither_taken_away_nor_written_over() -> None:
    fleet = Fleet()
    fleet.delegate["metadata"]["labels"] |= {"owner": "west", names.ZONE: "w-1"}
    fleet.source["metadata"]["labels"] |= {"owner": "east"}
    assert fleet.follow().verdict == DONE
    del fleet.source["metadata"]["labels"]["owner"]
    assert fleet.follow().verdict == DONE
    labels = fleet.delegate["metadata"]["labels"]
    assert (labels["owner"], labels[names.ZONE]) == ("west", "w-1")


def test_no_mark_of_ours_goes_with_a_label_of_the_same_short_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    short = live._short
    ours, theirs = f"label/{names.DELEGATE_LABEL}".encode(), b"label/found"
    monkeypatch.setattr(live, "_short", lambda text: short(ours if text == theirs else text))
    fleet = Fleet(found="true")
    del fleet.source["metadata"]["labels"]["found"]
    assert fleet.follow().verdict == DONE
    assert fleet.delegate["metadata"]["labels"][names.DELEGATE_LABEL] == "true"
    assert "found" not in fleet.delegate["metadata"]["labels"]


def test_what_the_targets_policy_does_not_let_in_does_not_follow() -> None:
    fleet = Fleet()
    fleet.source["metadata"]["labels"] |= {"cilium.io/x": "y"}
    fleet.source["metadata"]["annotations"] |= {"vault.hashicorp.com/agent-inject": "true"}
    assert fleet.follow().verdict == DONE
    assert "cilium.io/x" not in fleet.delegate["metadata"]["labels"]
    assert "vault.hashicorp.com/agent-inject" not in fleet.delegate["metadata"]["annotations"]
    assert settled(fleet)


def test_labels_by_which_a_controller_there_would_adopt_the_delegate_are_refused() -> None:
    fleet = Fleet()
    taker = {"metadata": {"name": "rs", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"tier": "x"}}}}
    fleet.away.api.put("/apis/apps/v1/namespaces/default/replicasets/rs", taker)
    fleet.relabel("x")
    done = fleet.follow()
    assert done.verdict == REFUSED
    assert "would take it" in done.message
    assert fleet.delegate["metadata"]["labels"]["tier"] == "one"
    assert in_files(fleet.delegate) == {"x"}


# --- fields


def test_a_generation_of_home_is_seen_once_the_kubelet_there_has_seen_all_that_it_changed() -> None:
    fleet = Fleet()
    count(fleet, home=2, away=1, observed=1)  # home's tolerations, which are nothing of the copy, are one more
    assert seen_at_home(fleet) == 2
    main_of(fleet.source)["image"] = "busybox:2"
    count(fleet, home=3, away=1, observed=1)
    assert seen_at_home(fleet) == 0
    assert fleet.follow().verdict == DONE
    count(fleet, home=3, away=2, observed=1)
    assert seen_at_home(fleet) == 0
    count(fleet, home=3, away=2, observed=2)
    assert seen_at_home(fleet) == 3


@pytest.mark.parametrize("word", ["privileged", "capabilities"], ids=["refused at home", "refused there"])
def test_a_generation_of_which_a_part_is_refused_is_seen_by_no_kubelet(word: str) -> None:
    fleet = Fleet()
    what: Object = {"privileged": True} if word == "privileged" else {"capabilities": {"add": ["SYS_PTRACE"]}}
    debugged(fleet, {**DEBUG, "securityContext": what})
    fleet.follow()
    count(fleet, home=3, away=1, observed=1)
    assert lives(fleet)[0] == lives(fleet)[1]
    assert seen_at_home(fleet) == 0


def test_image_and_deadline_follow_and_tolerations_are_added() -> None:
    fleet = Fleet()
    theirs = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    fleet.delegate["spec"]["tolerations"] = [theirs]
    seconds = {"key": "tier", "operator": "Exists", "effect": "NoExecute"}
    fleet.delegate["spec"]["tolerations"].append({**seconds, "tolerationSeconds": 300})
    main_of(fleet.source)["image"] = "busybox:2"
    more = [{"key": "dedicated", "operator": "Exists"}, {"key": "node-role.kubernetes.io/x", "operator": "Exists"}]
    fleet.source["spec"] |= {"activeDeadlineSeconds": 60, "tolerations": [*more, {**seconds, "tolerationSeconds": 5}]}
    assert fleet.follow().verdict == DONE
    spec = fleet.delegate["spec"]
    assert (main_of(fleet.delegate)["image"], spec["activeDeadlineSeconds"]) == ("busybox:2", 60)
    assert spec["tolerations"] == [theirs, {**seconds, "tolerationSeconds": 5}, more[0]]
    assert settled(fleet)


def test_how_long_the_source_stays_on_its_proxy_node_is_nothing_of_the_copy() -> None:
    fleet = Fleet()
    before = lives(fleet)
    current = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for name in ("not-ready", "unreachable")
    ]
    fleet.source["spec"]["tolerations"] = tolerations_for("strict", current)
    assert len(fleet.source["spec"]["tolerations"]) == 4
    assert lives(fleet) == before
    fleet.source["spec"]["tolerations"].append({"key": "dedicated", "operator": "Exists"})
    assert fleet.follow().verdict == DONE
    assert fleet.delegate["spec"]["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]


def test_what_admission_there_has_set_stays_until_it_changes_at_home() -> None:
    fleet = Fleet()
    main_of(fleet.delegate)["image"] = "mirror.west/busybox"
    main_of(fleet.delegate)["resources"] = {"requests": {"cpu": "1"}}
    fleet.relabel("two")
    assert fleet.follow().verdict == DONE
    assert main_of(fleet.delegate)["image"] == "mirror.west/busybox"
    assert main_of(fleet.delegate)["resources"] == {"requests": {"cpu": "1"}}
    main_of(fleet.source)["image"] = "busybox:2"
    assert fleet.follow().verdict == DONE
    assert main_of(fleet.delegate)["image"] == "busybox:2"


def test_a_container_that_admission_there_has_added_is_none_that_another_cluster_changes() -> None:
    fleet = Fleet()
    sidecar = {"name": "sidecar", "image": "west/sidecar", "resources": {"requests": {"cpu": "1"}}}
    fleet.delegate["spec"]["containers"].append(dict(sidecar))
    fleet.source["spec"]["containers"].append({"name": "sidecar", "image": "east/evil"})
    main_of(fleet.source)["image"] = "busybox:2"
    for image in ("east/evil", "east/worse"):
        fleet.source["spec"]["containers"][1]["image"] = image
        done = fleet.follow()
        assert (done.verdict, "none that the delegate was made with" in done.message) == (REFUSED, True)
        assert fleet.delegate["spec"]["containers"][1] == sidecar
    assert main_of(fleet.delegate)["image"] == "busybox:2"


def test_a_refusal_of_the_server_leaves_the_delegate_as_it_was_but_for_its_files_and_is_told_once() -> None:
    fleet = Fleet()
    image = main_of(fleet.delegate)["image"]
    fleet.away.api.refuses = lambda body: "no such registry" if "spec" in body else ""
    main_of(fleet.source)["image"] = "evil/busybox"
    fleet.relabel("two")
    assert [fleet.follow().verdict for _ in range(3)] == [REFUSED] * 3
    assert (main_of(fleet.delegate)["image"], fleet.delegate["metadata"]["labels"]["tier"]) == (image, "one")
    assert in_files(fleet.delegate) == {"two"}
    (note,) = events_of(fleet.away)
    assert "no such registry" in note
    said = condition_of(fleet)
    assert said is not None
    assert (said["status"], "no such registry" in said["message"]) == ("False", True)
    mirror(fleet, fleet.delegate["status"])
    assert said in fleet.source["status"]["conditions"]
    assert lives(fleet)[0] != lives(fleet)[1]
    main_of(fleet.source)["image"] = image
    assert fleet.follow().verdict == DONE
    said = condition_of(fleet)
    assert said is not None
    assert said["status"] == "True"
    assert settled(fleet)


def test_a_refusal_in_other_words_each_time_makes_no_new_status_each_time() -> None:
    fleet = Fleet()
    counted = iter(range(100))
    fleet.away.api.refuses = lambda body: f"request {next(counted)} is denied" if "spec" in body else ""
    main_of(fleet.source)["image"] = "evil/busybox"
    assert fleet.follow().verdict == REFUSED
    said = condition_of(fleet)
    for after_s in (1, 3, 7):
        assert fleet.follow(Moment(NOW.mono + after_s, NOW.wall + after_s)).verdict == REFUSED
        assert condition_of(fleet) == said
    fleet.follow(Moment(NOW.mono + 100, NOW.wall + 100))
    assert condition_of(fleet) != said
    assert len(events_of(fleet.away)) == 2


# --- resources


def test_resources_follow_by_the_subresource_that_resizes() -> None:
    fleet = Fleet()
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "300m", "memory": "1Gi"}}
    assert fleet.follow().verdict == DONE
    assert main_of(fleet.delegate)["resources"] == {"requests": {"cpu": "300m", "memory": "1Gi"}}
    assert fleet.away.api.count("resize") == 1
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "300m"}}
    assert fleet.follow().verdict == DONE
    assert main_of(fleet.delegate)["resources"] == {"requests": {"cpu": "300m"}}
    assert settled(fleet)


@pytest.mark.parametrize("known", [True, False], ids=["by its version", "by its answer"])
def test_a_server_that_resizes_nothing_is_told_at_home_and_the_rest_follows(known: bool) -> None:
    fleet = Fleet()
    fleet.away.local.server_minor = 32 if known else 0
    fleet.away.api.lacks = {"resize"}
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "300m"}}
    fleet.relabel("two")
    done = fleet.follow()
    assert (done.verdict, "1.33" in done.message) == (REFUSED, True)
    assert fleet.delegate["metadata"]["labels"]["tier"] == "two"
    assert "resources" not in main_of(fleet.delegate)
    assert len(events_of(fleet.away)) == 1


# --- debug containers


def test_a_debug_container_is_added_to_the_delegate() -> None:
    fleet = Fleet()
    env = {"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    debugged(fleet, {**DEBUG, "env": [env]})
    assert lives(fleet)[0] != lives(fleet)[1]
    assert fleet.follow().verdict == DONE
    assert fleet.delegate["spec"]["ephemeralContainers"] == [
        {**DEBUG, "env": [{"name": "TIER", "value": fleet.ref.name}]}
    ]
    assert settled(fleet)


def test_one_that_a_webhook_which_failed_refused_is_tried_again() -> None:
    fleet = Fleet()
    debugged(fleet, DEBUG)
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)
    failed = b'{"kind":"Status","message":"Internal error occurred: failed calling webhook \\"w\\": refused"}'

    def failing(request: Request) -> Response:
        added = request.path.endswith("/ephemeralcontainers")
        return Response(500, failed) if added else fleet.away.api.answer(request)

    assert run(carry_out(order, 1, fleet.away.local, NOW), failing).verdict == REFUSED
    assert lives(fleet)[0] != lives(fleet)[1]
    assert fleet.follow().verdict == DONE
    assert [one["name"] for one in fleet.delegate["spec"]["ephemeralContainers"]] == ["debug"]
    assert settled(fleet)


@pytest.mark.parametrize("write", ["ephemeralcontainers", "resize"])
def test_a_write_of_which_nobody_knows_keeps_no_other_from_being_made(write: str) -> None:
    fleet = Fleet()
    debugged(fleet, DEBUG)
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "300m", "memory": "1Gi"}}
    fleet.relabel("two")
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)

    def failing(request: Request) -> Response:
        return Response(500) if request.path.endswith(write) else fleet.away.api.answer(request)

    assert run(carry_out(order, 1, fleet.away.local, NOW), failing).verdict == UNKNOWN
    assert fleet.delegate["metadata"]["labels"]["tier"] == "two"
    assert in_files(fleet.delegate) == {"two"}
    assert fleet.follow().verdict == DONE
    assert settled(fleet)


def test_a_lost_reply_adds_none_twice() -> None:
    fleet = Fleet()
    debugged(fleet, DEBUG)
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)
    assert run(carry_out(order, 1, fleet.away.local, NOW), lost_reply(fleet.away.api.answer, "PATCH")).verdict == DONE
    assert fleet.away.api.count("ephemeralcontainers") == 1
    assert settled(fleet)


NO_ROW: dict[str, Object] = {
    "a capability": {"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}},
    "a Secret": {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}]},
    "a ConfigMap that is lacking": {"envFrom": [{"configMapRef": {"name": "settings"}}]},
}


@pytest.mark.parametrize("more", NO_ROW.values(), ids=NO_ROW.keys())
def test_one_that_the_targets_policy_refuses_is_told_and_the_others_follow(more: Object) -> None:
    fleet = Fleet()
    debugged(fleet, {**DEBUG, **more}, {**DEBUG, "name": "plain"})
    assert fleet.follow().verdict == REFUSED
    assert [one["name"] for one in fleet.delegate["spec"]["ephemeralContainers"]] == ["plain"]
    (note,) = events_of(fleet.away)
    assert 'debug container "debug"' in note
    said = condition_of(fleet)
    assert said is not None
    assert said["status"] == "False"
    assert lives(fleet)[0] == lives(fleet)[1]


def test_a_config_map_of_the_target_is_not_taken_for_that_of_home() -> None:
    fleet = Fleet()
    fleet.away.local.follows = ("ConfigMap",)
    debugged(fleet, {**DEBUG, **NO_ROW["a ConfigMap that is lacking"]})
    assert fleet.follow().verdict == REFUSED
    assert "ephemeralContainers" not in fleet.delegate["spec"]
    (note,) = events_of(fleet.away)
    assert 'names ConfigMap "settings", and none follows a debug container' in note


def test_what_a_pod_names_follows_by_itself_and_is_no_change_of_the_pod() -> None:
    metadata = {"annotations": {names.FOLLOWERS: '{"ConfigMap":{"settings":"00"}}', "note": "n"}}
    found = live.parts({"metadata": metadata, "spec": {"containers": []}})
    assert found == {(live.ANNOTATION, "note"): "n"}


@pytest.mark.parametrize(
    ("said", "there"),
    [
        ({}, {"hostPath": {"path": "/"}}),
        ({"emptyDir": {}}, {"hostPath": {"path": "/"}}),
        ({"projected": {"sources": []}}, {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        ({"secret": {"secretName": "a"}}, {"secret": {"secretName": "b"}}),
    ],
)
def test_a_volume_that_admission_there_has_added_is_not_mounted(said: Object, there: Object) -> None:
    fleet = Fleet()
    volumes = [{"name": "kept", "emptyDir": {}}]
    fleet.delegate["spec"].setdefault("volumes", []).extend([*volumes, {"name": "added", **there}])
    fleet.source["spec"].setdefault("volumes", []).extend([*volumes, *([{"name": "added", **said}] if said else [])])
    for name in ("kept", "added"):
        debugged(fleet, {**DEBUG, "name": name, "volumeMounts": [{"name": name, "mountPath": "/x"}]})
    done = fleet.follow()
    assert done.verdict == REFUSED
    assert 'debug container "added"' in done.message
    assert [one["name"] for one in fleet.delegate["spec"]["ephemeralContainers"]] == ["kept"]


def test_a_row_of_the_policy_lets_it_in() -> None:
    fleet = Fleet(ExecutorPolicy(accept=(Accept(allow=("capabilities",)),)))
    debugged(fleet, {**DEBUG, **NO_ROW["a capability"]})
    assert fleet.follow().verdict == DONE
    assert len(fleet.delegate["spec"]["ephemeralContainers"]) == 1


def test_one_that_never_crosses_is_told_at_home_and_the_others_follow() -> None:
    fleet = Fleet()
    debugged(fleet, {**DEBUG, "securityContext": {"privileged": True}})
    assert settled(fleet)
    fleet.home.sync()
    (told,) = warned(fleet.home)
    assert told.uid == fleet.ref.uid
    assert "spec.ephemeralContainers[0].securityContext.privileged" in told.text
    debugged(fleet, {**DEBUG, "name": "plain"})
    assert fleet.follow().verdict == DONE
    assert [one["name"] for one in fleet.delegate["spec"]["ephemeralContainers"]] == ["plain"]
    assert settled(fleet)
    fleet.home.sync()
    assert warned(fleet.home) == []


def test_one_of_the_same_name_that_others_have_added_there_is_not_taken_for_it() -> None:
    fleet = Fleet()
    fleet.delegate["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "theirs"}]
    debugged(fleet, DEBUG)
    assert fleet.follow().verdict == REFUSED
    assert fleet.delegate["spec"]["ephemeralContainers"] == [{"name": "debug", "image": "theirs"}]


def test_those_of_a_pod_that_waited_follow_once_it_runs() -> None:
    home, away = World(cluster="a", peers=("b",)), World(cluster="b")
    ref = home.submit(pod_object(ephemeralContainers=[DEBUG]))
    claimed = home.do(Claim("c", ref, 1, "b", "n1", "b-cluster-uid"))
    assert claimed.verdict == CLAIMED
    assert away.do(order_for(ref, 1, "n1", claimed.manifest)).verdict == BOUND
    (delegate,) = away.api.pods()
    assert "ephemeralContainers" not in delegate["spec"]
    found = pod_seen(msgspec.json.encode(delegate))
    assert found is not None
    assert found.pod is not None
    assert found.pod.live != live.files_and_live(msgspec.json.decode(claimed.manifest))[1]


def test_each_write_is_bound_to_the_delegate_and_the_version_that_was_read() -> None:
    fleet = Fleet()
    debugged(fleet, DEBUG)
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "300m"}}
    fleet.relabel("two")
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)
    bound: list[tuple[str, str, bool]] = []

    def noted(request: Request) -> Response:
        if request.method == "PATCH":
            said = msgspec.json.decode(request.body)["metadata"]
            now = fleet.delegate["metadata"]
            same = (said["uid"], said["resourceVersion"]) == (now["uid"], now["resourceVersion"])
            bound.append((request.path.rpartition("/")[2], request.content_type, same))
            if len(bound) == 1:  # somebody else has written it meanwhile
                return Response(409)
        return fleet.away.api.answer(request)

    assert run(carry_out(order, 1, fleet.away.local, NOW), noted).verdict == DONE
    parts = ["ephemeralcontainers", "ephemeralcontainers", "resize", fleet.delegate["metadata"]["name"]]
    assert bound == [(part, STRATEGIC_PATCH, True) for part in parts]
    assert settled(fleet)


# --- limits


def test_a_delegate_of_an_older_agent_has_its_files_follow_alone() -> None:
    fleet = Fleet()
    del fleet.delegate["metadata"]["annotations"][names.CARRIES]
    assert lives(fleet)[1] == ""
    fleet.relabel("two")
    assert fleet.follow().verdict == DONE
    assert in_files(fleet.delegate) == {"two"}
    assert fleet.delegate["metadata"]["labels"]["tier"] == "one"


def test_more_parts_than_the_mark_holds_are_told_at_home() -> None:
    many = {f"l{number}": "x" for number in range(live.MAX_PARTS)}
    spec = {"containers": [{"name": "main"}]}
    signed = {"metadata": {"labels": {}, "annotations": many}, "spec": spec}
    assert live.first_mark(msgspec.json.encode(signed), 0) == ""
    fleet = Fleet()
    fleet.source["metadata"].setdefault("annotations", {}).update(many)
    assert lives(fleet)[0] == live.NONE
    fleet.relabel("two")
    assert [fleet.follow().verdict for _ in range(2)] == [REFUSED, REFUSED]
    assert in_files(fleet.delegate) == {"two"}
    assert fleet.delegate["metadata"]["labels"]["tier"] == "one"
    assert [len(events_of(world)) for world in (fleet.home, fleet.away)] == [1, 1]


def test_what_is_added_counts_as_bytes_of_foreign_pods() -> None:
    fleet = Fleet(ExecutorPolicy(foreign_bytes=ForeignBytes(1, 1, 1, 2)))
    for number in range(1000):
        debugged(fleet, {**DEBUG, "name": f"d{number}", "args": ["x" * 50_000]})
        fleet.away.sync()
        done = fleet.follow()
        if done.verdict == REFUSED:
            break
    assert "foreign_bytes" in done.message
    assert number < 40


def test_what_is_told_of_refusals_counts_as_bytes_of_foreign_pods_and_in_other_words_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet()
    fleet.source["metadata"].setdefault("annotations", {})["note"] = "x" * 50_000
    assert fleet.follow().verdict == DONE
    spent: list[int] = []
    monkeypatch.setattr(fleet.away.local.foreign_budget, "spend", lambda source, now, size: spent.append(size))
    fleet.away.api.refuses = lambda body: f"no {main_of(fleet.source)['image']}" if "spec" in body else ""
    for number in range(30):
        main_of(fleet.source)["image"] = f"evil:{number}"
        assert fleet.follow().verdict == REFUSED
    assert [size > 50_000 for size in spent] == [True]  # the whole pod is written, once a minute


def test_what_a_newer_home_lets_cross_and_this_version_does_not_has_arrived_all_the_same() -> None:
    fleet = Fleet()
    signed = msgspec.json.decode(fleet.sign().manifest)
    signed["metadata"]["annotations"]["new.kubernetes.io/x"] = "y"
    manifest = msgspec.json.encode(signed)
    assert fleet.update(manifest, forged(fleet, manifest)).verdict == DONE
    assert "new.kubernetes.io/x" not in fleet.delegate["metadata"]["annotations"]
    every = live.digests(live.parts(signed))
    mark = live.read(fleet.delegate["metadata"]["annotations"][names.CARRIES])
    assert mark is not None
    assert mark.reached == every


@pytest.mark.parametrize("subresource", ["", "/resize"], ids=["the rest", "resources"])
def test_a_write_at_which_the_server_fails_for_long_is_told_once(subresource: str) -> None:
    fleet = Fleet()
    fleet.relabel("two")
    main_of(fleet.source)["resources"] = {"requests": {"cpu": "2"}}
    signed = fleet.sign()
    order = UpdateDelegate("u", fleet.ref, 2, source_of(fleet.ref, 1), "n1", signed.manifest, signed.record)

    def answer(request: Request) -> Response:
        ours = request.method == "PATCH" and request.path.endswith(f"{delegate_of(fleet.ref)}{subresource}")
        return Response(500, b"no quorum") if ours else fleet.away.api.answer(request)

    for at in range(6):
        assert run(carry_out(order, 1, fleet.away.local, NOW), answer).verdict == UNKNOWN
        assert len(events_of(fleet.away)) == (1 if at >= 2 else 0)
    assert "its API server fails at it, and it is tried again: no quorum (HTTP 500)" in events_of(fleet.away)[0]
    fleet.away.sync()
    assert run(carry_out(order, 1, fleet.away.local, NOW), fleet.away.api.answer).verdict == DONE


# --- what a hostile home signs


def trails_in(value: Any, trail: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to each value within, and to the whole."""
    yield trail
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in entries:
        yield from trails_in(inner, (*trail, step))


def with_value(whole: Any, trail: tuple[str | int, ...], value: Any) -> Any:
    if not trail:
        return value
    first, *rest = trail
    changed: Any = list(whole) if isinstance(whole, list) else dict(whole)
    changed[first] = with_value(whole[first], tuple(rest), value) if rest else value
    return changed


def hostile_home() -> tuple[Fleet, Object]:
    """A fleet, and a manifest that changes everything that may change."""
    fleet = Fleet()
    spec = fleet.source["spec"]
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    main_of(fleet.source).update(image="busybox:2", resources=resources)
    seconds = {"key": "a", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}
    spec |= {"tolerations": [seconds], "activeDeadlineSeconds": 60}
    spec["volumes"] += [{"name": "m", "configMap": {"name": "n", "items": [{"key": "k", "path": "p"}]}}]
    names_map = [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "n", "key": "k"}}}]
    debugged(fleet, {**DEBUG, "env": names_map, "volumeMounts": [{"name": "inline", "mountPath": "/m"}]})
    signed: Object = msgspec.json.decode(fleet.sign().manifest)
    return fleet, signed


HOSTILE, SIGNED = hostile_home()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 9) | st.text("ax.", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "key", "host", "x"]), inner),
    max_leaves=4,
)


@given(st.sampled_from(list(trails_in(SIGNED))), JSON)
@settings(max_examples=150)
def test_whatever_is_signed_in_place_of_a_field_is_written_or_refused_by_the_field_s_name(
    trail: tuple[str | int, ...], value: Any
) -> None:
    manifest = msgspec.json.encode(with_value(SIGNED, trail, value))
    done = HOSTILE.update(manifest, forged(HOSTILE, manifest))
    assert done.verdict in (DONE, REFUSED)
    assert "is not readable as a pod" not in done.message


@pytest.mark.parametrize(
    ("trail", "value", "field"),
    [
        (("metadata", "labels", "tier"), 1, "metadata.labels[...]"),
        (("spec", "containers", 0, "resources"), ["x"], "spec.containers[0].resources"),
        (("spec", "containers", 0, "resources", "limits"), {"cpu": {}}, "spec.containers[0].resources.limits[...]"),
        (("spec", "tolerations", 0, "key"), ["x"], "spec.tolerations[0].key"),
        (("spec", "ephemeralContainers", 0, "name"), {}, "spec.ephemeralContainers[0].name"),
        (("spec",), [], "spec"),
        (("metadata", "annotations"), {"a": None}, "metadata.annotations[...]"),
        (("metadata",), {"name": True}, "metadata.name"),
        (("spec", "containers", 0, "livenessProbe"), {"httpGet": []}, "spec.containers[0].livenessProbe.httpGet"),
        ((), 7, "pod"),
    ],
)
def test_a_field_of_another_type_is_named(trail: tuple[str | int, ...], value: Any, field: str) -> None:
    manifest = msgspec.json.encode(with_value(SIGNED, trail, value))
    done = HOSTILE.update(manifest, forged(HOSTILE, manifest))
    assert done.verdict == REFUSED
    assert done.message.startswith(f"{field} is none that a pod may have")


# --- marks of agents of an older version


def older(mark: str) -> str:
    """As an agent of format 1 would have written it, with half of each digest."""
    words, whole, held = mark.split(" ")
    assert whole[:1] == "2"
    halves = [held[at : at + 8] for at in range(0, len(held), 16)]
    return f"{words} {whole.partition('.')[2]} {''.join(halves)}"


def test_what_an_older_agent_has_noted_is_understood_and_noted_anew() -> None:
    fleet = Fleet(team="x")
    marks = fleet.delegate["metadata"]["annotations"]
    marks[names.CARRIES] = older(marks[names.CARRIES])
    fleet.delegate["metadata"]["labels"] |= {"theirs": "there"}
    metadata = fleet.source["metadata"]
    metadata["labels"] |= {"tier": "two", "new": "n", "theirs": "home"}
    del metadata["labels"]["team"]
    main_of(fleet.source)["image"] = "busybox:2"
    assert fleet.follow().verdict == DONE
    labels = fleet.delegate["metadata"]["labels"]
    assert labels == {"app": "web", "tier": "two", "new": "n", "theirs": "there", names.DELEGATE_LABEL: "true"}
    assert main_of(fleet.delegate)["image"] == "busybox:2"
    assert marks[names.CARRIES].split(" ")[1][:1] == "2"
    assert settled(fleet)


def test_what_is_refused_under_an_older_mark_is_tried_again() -> None:
    fleet = Fleet()
    marks = fleet.delegate["metadata"]["annotations"]
    marks[names.CARRIES] = older(marks[names.CARRIES])
    fleet.away.api.refuses = lambda body: "no such registry" if "spec" in body else ""
    main_of(fleet.source)["image"] = "evil/busybox"
    assert fleet.follow().verdict == REFUSED
    assert lives(fleet)[0] != lives(fleet)[1]
    fleet.away.api.refuses = lambda body: ""
    assert fleet.follow().verdict == DONE
    assert main_of(fleet.delegate)["image"] == "evil/busybox"
    assert settled(fleet)


@pytest.mark.parametrize("newer", [0, 1], ids=["home is newer", "the target is newer"])
def test_agents_of_two_formats_tell_whether_a_change_has_arrived(newer: int) -> None:
    fleet = Fleet()

    def told() -> bool:
        both = [one if at == newer else one.partition(".")[2] for at, one in enumerate(lives(fleet))]
        source, delegate = (Pod("u", "default", "web", live=one) for one in both)
        return outdated(source, delegate)

    assert not told()
    fleet.relabel("two")
    assert told()


def test_a_mark_of_a_format_that_is_not_known_yet_is_none_of_ours() -> None:
    assert live.read("pods 3123 abc") is None


# --- what home shows


def mirror(fleet: Fleet, status: Object, carries: str = "") -> None:
    order = MirrorStatus("m", fleet.ref, 2, msgspec.json.encode(status), carries=carries)
    fleet.home.sync()
    assert fleet.home.do(order).verdict == DONE


def test_home_shows_which_writes_follow_and_only_as_long_as_they_do() -> None:
    fleet = Fleet()
    found = pod_seen(msgspec.json.encode(fleet.delegate))
    assert found is not None
    assert found.pod is not None
    assert found.pod.carries == "pods,ephemeralcontainers,resize"
    mirror(fleet, {"phase": "Running"}, f"{found.pod.carries},unheard-of")
    assert fleet.source["metadata"]["annotations"][names.CARRIES] == found.pod.carries
    mirror(fleet, {"phase": "Running"})
    assert names.CARRIES not in fleet.source["metadata"]["annotations"]


def test_the_mark_of_home_is_none_of_what_follows() -> None:
    fleet = Fleet(reads="metadata.annotations")
    before = lives(fleet)
    mirror(fleet, {"phase": "Running"}, "pods")
    assert lives(fleet) == before
    assert names.CARRIES not in "".join(in_files(fleet.delegate))
    assert fleet.told()[0] == fleet.told()[1]


def test_states_of_debug_containers_and_of_a_resize_are_shown_at_home_and_go_as_they_do_there() -> None:
    fleet = Fleet()
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    debug = [{"name": "debug", "state": {"running": {}}}]
    mirror(fleet, {"phase": "Running", "ephemeralContainerStatuses": debug, "conditions": [pending]})
    status = fleet.source["status"]
    assert status["ephemeralContainerStatuses"] == debug
    assert pending in status["conditions"]
    mirror(fleet, {"phase": "Running"})
    assert not [one for one in fleet.source["status"]["conditions"] if one["type"] == "PodResizePending"]


@pytest.mark.parametrize("text", ["", "pods", "pods x", "a b c d", " ".join(["x" * 3000] * 3)])
def test_a_mark_that_somebody_else_wrote_is_none_or_read_within_bounds(text: str) -> None:
    digest, words = live.told(text)
    assert len(digest) <= 35
    assert set(words.split(",")) <= {*live.WORDS, ""}
    live.read(text)


def test_the_version_of_the_server_says_whether_it_resizes() -> None:
    assert [live.minor_of(text) for text in ("v1.33.1", "v1.32.0+k3s1", "v1.34+", "v2.1", "", "x")] == [
        33,
        32,
        34,
        0,
        0,
        0,
    ]
    assert live.words(32) == ("pods", "ephemeralcontainers")
    assert live.words(33) == live.words(0) == live.WORDS
