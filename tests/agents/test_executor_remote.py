"""Pods on proxy nodes: let go, set not Ready, and kept from being replaced, by nobody's order."""

from typing import Any

import msgspec
import pytest

from agents.executor import lost, remote
from agents.executor.http import Request, Response
from agents.executor.lost import tolerations_for
from dispatcher.model import names
from dispatcher.model.messages import Peer, PodRef
from dispatcher.model.pod import Toleration
from tests.agents.executor_world import NOW, World, pod_object, proxy_object, run

PROXY = names.proxy_node_name("b")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def toleration(key: str, seconds: int | None = None) -> dict[str, Any]:
    plain: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return plain if seconds is None else {**plain, "tolerationSeconds": seconds}


OURS = [toleration(NOT_READY), toleration(UNREACHABLE)]
DEFAULTS = [toleration(NOT_READY, 300), toleration(UNREACHABLE, 300)]
EVERYTHING: dict[str, Any] = {"operator": "Exists"}


class Remote:
    """A cluster with pods on the proxy node of cluster b."""

    def __init__(self) -> None:
        self.world = World(proxy_object("b"))
        self.requests: list[Request] = []

    def say(self, *, ready: bool) -> None:
        self.world.local.peers.update((Peer("b", ready=ready, uid="b-uid"),), NOW.mono)

    def pod(self, name: str = "web", mode: str = "", **spec: Any) -> PodRef:
        pod = pod_object(name, nodeName=PROXY, **{"tolerations": [*OURS, *DEFAULTS], **spec})
        pod["metadata"]["finalizers"] = [names.FINALIZER]
        pod["metadata"]["annotations"] = {names.FAILOVER: mode} if mode else {}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.world.submit(pod)

    def tend(self) -> list[str]:
        self.requests = []
        problems = [run(duty.procedure, self._answer) for duty in remote.duties(self.world.local, NOW)]
        self.world.sync()
        return [problem for problem in problems if problem]

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.world.api.answer(request)

    def seen(self, name: str = "web") -> dict[str, Any]:
        found = self.world.api.pod(name)
        assert found is not None
        return found

    def ready(self) -> str:
        return str(self.seen()["status"]["conditions"][0]["status"])


@pytest.mark.parametrize(
    ("mode", "current", "want"),
    [
        ("strict", DEFAULTS, [*OURS, *DEFAULTS]),
        ("strict", [*OURS, *DEFAULTS], [*OURS, *DEFAULTS]),
        ("strict", [], OURS),
        ("strict", [*DEFAULTS, *OURS], [*OURS, *DEFAULTS, *OURS]),
        ("strict", [toleration(UNREACHABLE), *DEFAULTS], [OURS[0], toleration(UNREACHABLE), *DEFAULTS]),
        ("strict", [EVERYTHING], [EVERYTHING]),
        ("strict", [{**EVERYTHING, "effect": "NoSchedule"}], [*OURS, {**EVERYTHING, "effect": "NoSchedule"}]),
        ("asap", DEFAULTS, DEFAULTS),
        ("asap", [*OURS, *DEFAULTS], DEFAULTS),
        ("asap", OURS, OURS),
    ],
    ids=[
        "as admitted",
        "has them",
        "none at all",
        "behind its own they do nothing",
        "one of the two",
        "tolerates everything for ever",
        "another effect",
        "asap",
        "asap takes ours off",
        "a pod's own, for which nothing would remain",
    ],
)
def test_tolerations_are_without_an_end_unless_the_pod_may_be_replaced(mode: str, current: Any, want: Any) -> None:
    assert tolerations_for(mode, current) == want
    assert tolerations_for(mode, want) == want


@pytest.mark.parametrize("current", [DEFAULTS, [], [*DEFAULTS, EVERYTHING], [toleration(NOT_READY, 5), DEFAULTS[1]]])
def test_what_was_added_is_taken_off_again(current: Any) -> None:
    added = tolerations_for("strict", current)
    assert tolerations_for("asap", added) == (current or OURS)


@pytest.mark.parametrize(("text", "mode"), [(None, "strict"), ("asap", "asap"), ("Asap", "strict")])
def test_a_mode_that_means_nothing_is_strict(text: str | None, mode: str) -> None:
    assert lost.mode_of(text) == mode


def test_what_stays_is_what_would_not_be_changed() -> None:
    cases: list[list[dict[str, Any]]] = [DEFAULTS, OURS, [*OURS, *DEFAULTS], [*DEFAULTS, *OURS], [EVERYTHING], []]
    for current in cases:
        model = [
            Toleration(one.get("key", ""), one["operator"], "", one.get("effect", ""), one.get("tolerationSeconds"))
            for one in current
        ]
        assert lost.stays("strict", model) is (tolerations_for("strict", current) == list(current))


def test_pods_of_a_lost_cluster_are_set_not_ready_once_and_nothing_else_of_them_changes() -> None:
    it = Remote()
    it.pod()
    it.say(ready=True)
    assert it.tend() == []
    assert it.requests == []
    it.say(ready=False)
    before = it.seen()
    before["status"]["podIP"] = "10.0.0.1"
    it.tend()
    assert it.ready() == "False"
    assert (it.seen()["status"]["phase"], it.seen()["status"]["podIP"]) == ("Running", "10.0.0.1")
    assert "deletionTimestamp" not in it.seen()["metadata"]
    it.tend()
    assert it.requests == []


def test_a_silent_dispatcher_leaves_the_pods_ready() -> None:
    it = Remote()
    it.pod()
    it.say(ready=True)
    for duty in remote.duties(it.world.local, later(3600)):
        run(duty.procedure, it.world.api.answer)
    assert it.ready() == "True"


def later(seconds: float) -> Any:
    return NOW._replace(mono=NOW.mono + seconds)


def test_what_was_mirrored_meanwhile_is_not_overwritten_by_a_view_that_lags() -> None:
    it = Remote()
    it.pod()
    it.say(ready=False)
    it.seen()["metadata"]["resourceVersion"] = "999"
    it.tend()
    assert it.ready() == "True"
    it.tend()
    assert it.ready() == "False"


def test_a_claimed_pod_without_them_gets_tolerations_before_it_matters() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    it.say(ready=True)
    assert it.tend() == []
    assert it.seen()["spec"]["tolerations"] == [*OURS, *DEFAULTS]
    it.tend()
    assert it.requests == []


@pytest.mark.parametrize("why", ["asap", "not ours", "ended", "going"])
def test_other_pods_keep_their_tolerations(why: str) -> None:
    it = Remote()
    ref = it.pod(tolerations=DEFAULTS, mode="asap" if why == "asap" else "")
    if why == "not ours":
        it.seen()["metadata"]["finalizers"] = []
    elif why == "ended":
        it.seen()["status"]["phase"] = "Succeeded"
    elif why == "going":
        it.seen()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    it.world.sync()
    assert ref.uid
    assert it.tend() == []
    assert it.requests == []


def test_a_server_that_forbids_it_is_told_of() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    (duty,) = remote.duties(it.world.local, NOW)

    def forbids(request: Request) -> Response:
        return it.world.api.answer(request) if request.method == "GET" else Response(403, b'{"message":"no"}')

    assert "would be replaced" in run(duty.procedure, forbids)
    assert duty.lane == "default"


def test_a_pod_that_goes_and_is_not_held_is_let_go() -> None:
    it = Remote()
    it.pod()
    it.seen()["metadata"]["finalizers"] = []
    it.seen()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    it.world.sync()
    assert it.tend() == []
    assert it.world.api.pod("web") is None


def test_the_merge_patch_of_tolerations_names_the_version_that_it_was_made_from() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    it.tend()
    metadata = msgspec.json.decode(it.requests[-1].body)["metadata"]
    assert set(metadata) == {"uid", "resourceVersion"}
