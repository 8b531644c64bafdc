"""What an executor says of a pod for which others are to be evicted in another cluster: what its API server shows."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.kube.http import Request, Response
from shared.messages import DONE, STALE, UNKNOWN, Claim, ConfirmNoSource, Outcome, PodRef
from shared.model import names
from shared.model.pod import SourceRef
from shared.security.signatures import Preemptor, is_claim_of, read_claim, read_preemptor
from tests.agents.executor.world import Object, World, keys_of, pod_object, proxy_object

ELSEWHERE = "b"


def asked(world: World, ref: PodRef) -> Outcome:
    return world.do(ConfirmNoSource("7.preemptor.1", ref, 7, ELSEWHERE))


def world() -> World:
    made = World()
    made.api.put_node(proxy_object(ELSEWHERE))
    made.sync()
    return made


def test_it_signs_that_a_pod_waits_with_what_priority_and_what_it_requests() -> None:
    here = world()
    ref = here.submit(pod_object(priority=1000, priorityClassName="high"))
    found = asked(here, ref)
    source = SourceRef("a", "a-cluster-uid", ref.namespace, ref.name, ref.uid, 7)
    assert found.verdict == DONE
    assert read_preemptor(keys_of("a").public, found.record) == Preemptor(source, ELSEWHERE, 1000, "high", {"cpu": 100})
    assert read_preemptor(keys_of("b").public, found.record) is None


CONTAINER = {"name": "main", "image": "busybox"}
SIZES: dict[str, tuple[Object, dict[str, int]]] = {
    "a large init container": (
        {"initContainers": [{**CONTAINER, "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
        {"cpu": 2000, "memory": 2**30},
    ),
    "the overhead of its runtime": ({"overhead": {"memory": "128Mi"}}, {"cpu": 100, "memory": 2**27}),
    "requests of the whole pod": ({"resources": {"requests": {"cpu": "3"}}}, {"cpu": 3000}),
}


@pytest.mark.parametrize("what", SIZES)
def test_it_signs_the_requests_as_observers_tell_them_with(what: str) -> None:
    spec, requests = SIZES[what]
    here = world()
    ref = here.submit(pod_object(**spec))
    seen = here.local.view.pod(ref.uid)
    signed = read_preemptor(keys_of("a").public, asked(here, ref).record)
    assert signed is not None
    assert seen is not None
    assert signed.requests == seen.requests == requests


def test_nothing_is_signed_of_a_pod_with_more_resources_than_there_is_room_for_in_a_mark() -> None:
    many = {f"example.com/{'x' * 60}-{at}": "1" for at in range(64)}
    here = world()
    ref = here.submit(pod_object(containers=[{**CONTAINER, "resources": {"requests": many}}]))
    found = asked(here, ref)
    assert (found.verdict, found.record) == (STALE, "")
    assert "so many resources" in found.message


def test_it_tells_what_would_cross_as_when_the_pod_is_claimed() -> None:
    here = world()
    ref = here.submit(pod_object(priority=1000, priorityClassName="high"))
    found = asked(here, ref)
    assert found.manifest == here.do(Claim("i", ref, 1, ELSEWHERE, "n1")).manifest != b""


def test_what_it_signs_of_a_preemptor_is_no_claim() -> None:
    here = world()
    found = asked(here, here.submit())
    assert found.record
    assert not is_claim_of(keys_of("a").public, found.record)
    assert read_claim(found.record) is None


def test_a_claim_is_no_word_of_a_preemptor() -> None:
    here = world()
    claimed = here.do(Claim("i", here.submit(), 1, ELSEWHERE, "n1"))
    assert claimed.record
    assert read_preemptor(keys_of("a").public, claimed.record) is None


def noted(**annotations: str) -> Object:
    pod = pod_object()
    pod["metadata"]["annotations"] = annotations
    return pod


NOT_WAITING: dict[str, Callable[[], Object]] = {
    "is bound": lambda: pod_object(nodeName="n1"),
    "belongs to another scheduler": lambda: pod_object(schedulerName="default-scheduler"),
    "has scheduling gates": lambda: pod_object(schedulingGates=[{"name": "wait"}]),
    "preempts nobody": lambda: pod_object(preemptionPolicy="Never"),
    "stays at home": lambda: noted(**{names.STAY: "true"}),
    "goes to another cluster alone": lambda: noted(**{names.CLUSTERS: "c"}),
    "cannot cross": lambda: pod_object(hostNetwork=True),
}


@pytest.mark.parametrize("why", NOT_WAITING)
def test_nothing_is_signed_of_a_pod_that(why: str) -> None:
    here = world()
    found = asked(here, here.submit(NOT_WAITING[why]()))
    assert (found.verdict, found.record) == (STALE, "")
    assert found.message


def test_nothing_is_signed_of_a_pod_with_another_uid() -> None:
    here = world()
    ref = here.submit()
    found = asked(here, PodRef(ref.namespace, ref.name, "another"))
    assert (found.verdict, found.record) == (STALE, "")


def test_a_server_that_does_not_answer_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    ref = here.submit()

    def away(request: Request) -> Response:
        return Response(503)

    monkeypatch.setattr(here.api, "answer", away)
    found = asked(here, ref)
    assert (found.verdict, found.record) == (UNKNOWN, "")


def test_an_older_dispatcher_still_learns_whether_a_source_is_gone() -> None:
    here = world()
    ref = here.submit()
    gone: Any = PodRef("default", "gone", "uid")
    assert [here.do(ConfirmNoSource("i", one, 1)).verdict for one in (ref, gone)] == [STALE, DONE]
