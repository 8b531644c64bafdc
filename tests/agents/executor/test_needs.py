"""What a pod tells of what it will need elsewhere is what the target will ask of it."""

from typing import Any

import msgspec
import pytest

from agents.executor.crossing.needs import needs_of
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.kube import convert
from agents.kube.convert import pod_seen
from agents.kube.pool import MAX_BYTES
from shared.messages.pod_cache import PodCache
from shared.model import names
from shared.model.bounds import MAX_NEEDS, MAX_WORD
from shared.model.crossing import rows_for, unmet
from shared.model.pod import Need, Needs
from tests.agents.executor.world import pod_object

PROXY = names.proxy_node_name("b")


def needs(**spec: Any) -> Needs | None:
    return needs_of(msgspec.json.encode(pod_object(**spec)))


def secret(name: str) -> dict[str, Any]:
    return {"name": "v", "secret": {"secretName": name}}


def test_an_ordinary_pod_needs_nothing() -> None:
    assert needs() is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "spec.volumes[0].hostPath"),
        ({"hostNetwork": True}, "spec.hostNetwork"),
        ({"volumes": [{"name": "v", "nfs": {}}]}, "spec.volumes[0].nfs"),
        ({"volumes": [secret(f"s{n}") | {"name": f"v{n}"} for n in range(MAX_NEEDS + 1)]}, "spec"),
    ],
)
def test_what_can_run_in_no_other_cluster_says_so_and_why(spec: dict[str, Any], field: str) -> None:
    found = needs(**spec)
    assert found is not None
    assert found.barred.startswith(f"{field} ")
    assert names.STAY in found.barred


@pytest.mark.parametrize(
    ("spec", "row"),
    [
        ({"volumes": [secret("db")]}, {"secrets": ("d*",)}),
        ({"imagePullSecrets": [{"name": "reg"}]}, {"secrets": ("reg",)}),
        ({"serviceAccountName": "app"}, {"service_accounts": ("app",)}),
        ({"serviceAccountName": "app"}, {"local_accounts": ("a*",)}),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {"allow": ("seccomp",)}),
    ],
)
def test_what_it_needs_is_met_by_the_row_that_lets_it_in_and_by_no_other(
    spec: dict[str, Any], row: dict[str, Any]
) -> None:
    found = needs(**spec)
    assert found is not None
    for rows, met in (({}, False), (row, True), (row | {"namespaces": ("other",)}, None)):
        told = rows_for("a", "default", ExecutorPolicy(accept=(Accept(**rows),)).openings)
        assert told is not None
        assert (not unmet(found, told) if told else None) == met


def test_one_secret_named_many_times_is_one_need_and_its_words_are_bounded() -> None:
    found = needs(volumes=[secret("db"), secret("db"), secret("x" * 10_000)])
    assert found is not None
    assert [len(one.word) for one in found.of_policy] == [2, MAX_WORD]


def test_it_is_told_of_pods_that_may_go_somewhere_once_for_all_replicas() -> None:
    def told(name: str, **spec: Any) -> Needs | None:
        pod = pod_object(name, volumes=[secret("db")], **spec)
        pod["metadata"] |= {"uid": name, "annotations": {names.STAY: "true"} if name == "stays" else {}}
        seen = pod_seen(msgspec.json.encode(pod))
        assert seen is not None
        assert seen.pod is not None
        return seen.pod.needs

    assert told("one") is told("two") is not None
    assert told("bound", nodeName="n1") is None  # the cache tells what it was told of before
    assert told("stays") is None
    assert told("one", nodeName=PROXY) is told("one")
    assert told("stays", nodeName=PROXY) == Needs()


def test_what_the_next_pod_needs_is_told_of_one_that_runs_elsewhere_and_derived_once_for_all_its_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived: list[bytes] = []
    derive = convert._derived

    def counted(raw: bytes) -> convert._Elsewhere:
        derived.append(raw)
        return derive(raw)

    monkeypatch.setattr(convert, "_ELSEWHERE", PodCache(2**20, MAX_BYTES))
    monkeypatch.setattr(convert, "_derived", counted)

    def told(version: int, phase: str, annotations: dict[str, str], **spec: Any) -> Needs | None:
        pod = pod_object("web", nodeName=PROXY, **spec)
        pod["metadata"] |= {"uid": "web", "resourceVersion": str(version), "annotations": annotations}
        pod["status"] = {"phase": phase}
        seen = pod_seen(msgspec.json.encode(pod))
        assert seen is not None
        assert seen.pod is not None
        return seen.pod.needs

    alone = {"priorityClassName": "high"}
    assert told(1, "Pending", {}, **alone) == told(2, "Running", {}, **alone) == needs(**alone)
    assert len(derived) == 1
    assert told(3, "Running", {names.PRIORITY: names.NONE}, **alone) == Needs()
    assert told(4, "Running", {}) == Needs()
    assert len(derived) == 3


def test_what_pods_need_is_derived_once_however_many_run_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[bytes] = []

    def counted(raw: bytes) -> convert._Elsewhere:
        derived.append(raw)
        return convert._Elsewhere(None, "0" * 16, "0" * 17)

    monkeypatch.setattr(convert, "_ELSEWHERE", PodCache(2**20, MAX_BYTES))
    monkeypatch.setattr(convert, "_derived", counted)
    pods = [pod_object(f"p{at}", nodeName=PROXY) for at in range(10_000)]
    for _ in range(2):
        for at, pod in enumerate(pods):
            pod["metadata"]["uid"] = f"u{at}"
            convert._elsewhere_once(msgspec.json.encode(pod))
    assert len(derived) == len(pods)


def test_a_pod_tells_the_runtime_class_that_it_needs() -> None:
    found = needs_of(msgspec.json.encode(pod_object(runtimeClassName="gvisor")))
    assert found == Needs(
        of_policy=(Need("runtime_class", "gvisor", "spec.runtimeClassName", 'is RuntimeClass "gvisor"'),)
    )
