"""Remote pods of which no container ever runs: told, and moved on where a controller makes another one."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.core.starts import COUNTER
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, SendIntents, Tick
from dispatcher.scheduling.views import clusters_view, explain
from shared.messages import DONE, NO_PRIORITY, Changes, Claim, Evict, Intent, Outcome, ReportUnschedulable
from shared.model.delegate_events import DelegateEvent, with_events
from shared.model.names import FOLLOWERS, REBALANCE, SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Claim as Claimed
from shared.model.pod import Pod, SourceRef
from shared.model.starting import NotStarted, not_started
from tests.laws.cores import make_core

WORDS = 'secret "token" not found'
STUCK = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": WORDS}}, "restartCount": 0}
CREATING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING: dict[str, Any] = {"state": {"running": {}}}
ENDED = {"state": {"terminated": {"exitCode": 0}}}
OWNER = "ReplicaSet/web/uid-rs"


def status(*containers: dict[str, Any], phase: str = "Pending", init: Sequence[dict[str, Any]] = ()) -> bytes:
    return msgspec.json.encode({"phase": phase, "containerStatuses": containers, "initContainerStatuses": init})


def sandbox(ready: str, given: bytes) -> bytes:
    conditions = [{"type": "PodReadyToStartContainers", "status": ready}, {"type": "Ready", "status": "False"}]
    return msgspec.json.encode({**msgspec.json.decode(given), "conditions": conditions})


def failed(why: str) -> NotStarted:
    return NotStarted(why, pulls=False, failed=True)


NO_MOUNT = (DelegateEvent("FailedAttachVolume", "no"), DelegateEvent("FailedMount", WORDS))
SAID = f"CreateContainerConfigError: {WORDS}"
QUIET = NotStarted("ContainerCreating", pulls=False, failed=False)
PULLS = NotStarted("ContainerCreating", pulls=True, failed=False)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (status(STUCK), failed(SAID)),
        (status(CREATING), QUIET),
        (sandbox("False", status(CREATING)), QUIET),
        (sandbox("True", status(CREATING)), PULLS),
        (sandbox("True", status(CREATING, init=[CREATING])), PULLS),
        (sandbox("True", status(CREATING, STUCK)), failed(SAID)),
        (with_events(status(CREATING), NO_MOUNT), failed(f"FailedMount: {WORDS}")),
        (with_events(sandbox("False", status(CREATING)), NO_MOUNT), failed(f"FailedMount: {WORDS}")),
        (with_events(sandbox("True", status(CREATING)), NO_MOUNT), PULLS),
        (status(CREATING, STUCK), failed(SAID)),
        (status({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), failed("ImagePullBackOff")),
        (status(CREATING, init=[STUCK]), failed(SAID)),
        (status(STUCK, RUNNING), None),
        (status(STUCK, init=[ENDED]), None),
        (status({**STUCK, "restartCount": 1}), None),
        (status({**STUCK, "lastState": {"terminated": {"exitCode": 1}}}), None),
        (status(STUCK, phase="Running"), None),
        (status(), None),
        (b'{"phase":"Pending"}', None),
        (b"", None),
        (b"[]", None),
    ],
)
def test_only_a_kubelet_that_says_so_proves_that_nothing_ran(given: bytes, seen: NotStarted | None) -> None:
    assert not_started(given) == seen


class Fleet:
    """Pods of east whose copies stand in west and do not start; north has room, too. Time passes by 10 s."""

    def __init__(self, count: int = 1, start_s: float = 300.0, **more: Any) -> None:
        self.core = make_core(("east", "north", "west"), timing=CoreTiming(start_s=start_s))
        self.now, self.revision = 1000.0, {"east": 0, "north": 0, "west": 0}
        self.sent: list[tuple[str, Intent]] = []
        room = Node("n1", ready=True, allocatable={"cpu": 400_000, "memory": 2**40, "pods": 500})
        names = [f"web-{number}" for number in range(count)]
        self.report("east", pods=tuple(self.source(name, **more) for name in names))
        self.report("north", nodes=(room,))
        self.report("west", nodes=(room,), pods=tuple(self.delegate(name) for name in names))

    def source(self, name: str, **more: Any) -> Pod:
        fields: dict[str, Any] = {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, "owner": OWNER}
        place = {"node": "global-dispatcher-west", "claim": Claimed("west", "n1", 1), "has_finalizer": True}
        namespace = more.pop("namespace", "default")
        return Pod(f"uid-{name}", namespace, name, **{**fields, **place, **more})

    def delegate(self, name: str, given: bytes = status(STUCK), **more: Any) -> Pod:
        namespace = more.pop("namespace", "default")
        source = SourceRef("east", "east-uid", namespace, name, f"uid-{name}", 1)
        fields: dict[str, Any] = {"requests": {"cpu": 100}, "node": "n1", "source": source, "status": given, **more}
        return Pod(f"d-{name}", namespace, f"{name}-copy", **fields)

    def add(self, *names: str, **more: Any) -> None:
        self.report("east", pods=tuple(self.source(name, **more) for name in names))
        self.report("west", pods=tuple(self.delegate(name, **more) for name in names))

    def report(self, cluster: str, **what: Any) -> None:
        before = self.revision[cluster]
        self.revision[cluster] += 1
        told = Changes(cluster, f"{cluster}-uid", "life", before, before + 1, full=not before, **what)
        self.take(self.core.handle(ClusterChanged(told), self.now))

    def take(self, effects: Sequence[Effect]) -> None:
        for one in effects:
            if isinstance(one, SendIntents):
                self.sent += [(one.cluster, intent) for intent in one.intents]

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.now += 10.0
            self.take(self.core.handle(Tick(budget=100), self.now))

    def orders(self) -> list[tuple[str, Evict]]:
        return [(cluster, one) for cluster, one in self.sent if isinstance(one, Evict)]

    def told(self) -> list[str]:
        return [one.message for _, one in self.sent if isinstance(one, ReportUnschedulable)]

    def waiting(self) -> Any:
        found = explain(self.core, "default", "web-0")
        assert found is not None
        return found["waiting"]


def test_a_pod_that_does_not_start_is_told_and_moves_on_to_a_cluster_that_did_not_fail() -> None:
    fleet = Fleet()
    fleet.pass_time(290)
    assert (fleet.orders(), fleet.told(), fleet.waiting()) == ([], [], None)
    fleet.pass_time(10)
    ((cluster, order),) = fleet.orders()
    assert (cluster, order.pod.uid, order.node, order.priority) == ("west", "d-web-0", "n1", NO_PRIORITY)
    assert order.unstarted
    text = f"no container has started in cluster west for 300 s: CreateContainerConfigError: {WORDS}"
    assert fleet.told() == [text]
    assert fleet.waiting() == text
    rows = {row["name"]: row["unstarted"] for piece in clusters_view(fleet.core) for row in piece}
    assert rows == {"east": 0, "north": 0, "west": 1}
    outcome = Outcome(order.id, order.pod.uid, order.epoch, DONE)
    fleet.take(fleet.core.handle(Answered("west", (outcome,)), fleet.now))
    assert (fleet.core.counters[COUNTER, "told"], fleet.core.counters[COUNTER, "moved"]) == (1, 1)
    fleet.sent = []
    fleet.report("east", pods=(fleet.source("anew", node="", claim=None, has_finalizer=False),))
    fleet.pass_time(10)
    assert [one.cluster for _, one in fleet.sent if isinstance(one, Claim)] == ["north"]
    assert "pod web-0 did not start there within 300 s" in str(explain(fleet.core, "default", "anew"))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"owner": ""}, "no controller would replace it"),
        ({"owner": "Job/once/uid-job"}, "it is of a Job"),
        ({"annotations": {REBALANCE: "false"}}, f"its annotation {REBALANCE} is 'false'"),
    ],
)
def test_a_pod_that_nobody_would_replace_stays_and_is_told(more: dict[str, Any], why: str) -> None:
    fleet = Fleet(**more)
    fleet.pass_time(400)
    assert fleet.orders() == []
    assert len(fleet.told()) == 1
    assert fleet.waiting().endswith(f"; it stays there, since {why}")


@pytest.mark.parametrize(
    "now_so",
    [{"given": status(RUNNING, phase="Running"), "phase": "Running"}, {"given": status()}, {"terminating": True}],
    ids=["it started", "its kubelet says nothing", "it is going"],
)
def test_what_started_or_may_have_is_left_alone(now_so: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.pass_time(200)
    fleet.report("west", pods=(fleet.delegate("web-0", **now_so),))
    fleet.pass_time(400)
    assert (fleet.orders(), fleet.waiting()) == ([], None)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (sandbox("True", status(CREATING)), "its images are being pulled"),
        (status(CREATING), "its kubelet tells of no failure: images may be being pulled"),
    ],
)
def test_a_slow_pull_is_told_and_stays_until_something_fails(given: bytes, why: str) -> None:
    fleet = Fleet()
    fleet.report("west", pods=(fleet.delegate("web-0", given),))
    fleet.pass_time(900)
    assert fleet.orders() == []
    text = f"no container has started in cluster west for 300 s: ContainerCreating; it stays there, since {why}"
    assert fleet.told() == [text]
    assert fleet.waiting() == text
    fleet.report("west", pods=(fleet.delegate("web-0", with_events(status(CREATING), NO_MOUNT)),))
    fleet.pass_time(60)
    assert fleet.orders()[0][1].moved == f"not started for 300 s: FailedMount: {WORDS}"


MISSING = 'configmap "settings" not found'
NO_KEY = "couldn't find key k in ConfigMap default/settings"


@pytest.mark.parametrize(
    "why",
    [
        MISSING,
        f'MountVolume.SetUp failed for volume "v" : {MISSING}',
        "couldn't find key k in ConfigMap default/settings",
    ],
)
def test_what_is_lacking_at_home_is_waited_for_where_the_pod_is_and_told(why: str) -> None:
    waits = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": why}}}
    fleet = Fleet()
    follows = {FOLLOWERS: "ConfigMap/more ConfigMap/settings"}
    fleet.report("west", pods=(fleet.delegate("web-0", status(waits), annotations=follows),))
    fleet.pass_time(900)
    assert fleet.orders() == []
    assert fleet.waiting().endswith(
        'it stays there, since it would wait at home as well: ConfigMap "settings" is lacking there, or a key of it'
    )


@pytest.mark.parametrize("follows", [{}, {FOLLOWERS: "ConfigMap/setting ConfigMap/x"}, {FOLLOWERS: "Secret/settings"}])
def test_what_is_lacking_and_does_not_follow_is_that_cluster_s_own_lack(follows: dict[str, str]) -> None:
    waits = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": MISSING}}}
    fleet = Fleet()
    fleet.report("west", pods=(fleet.delegate("web-0", status(waits), annotations=follows),))
    fleet.pass_time(310)
    assert len(fleet.orders()) == 1


def test_what_starts_later_is_not_told_any_more() -> None:
    fleet = Fleet(owner="")
    fleet.pass_time(310)
    assert fleet.waiting()
    fleet.report("west", pods=(fleet.delegate("web-0", status(RUNNING, phase="Running"), phase="Running"),))
    assert fleet.waiting() is None


def test_zero_means_never() -> None:
    fleet = Fleet(start_s=0.0)
    fleet.pass_time(2000)
    assert (fleet.orders(), fleet.told()) == ([], [])


def test_a_registry_that_fails_for_all_turns_over_six_pods_a_minute() -> None:
    fleet = Fleet(count=50)
    fleet.pass_time(300)
    assert len(fleet.orders()) <= 4
    fleet.sent = []
    fleet.pass_time(120)
    assert len(fleet.orders()) == 12


def test_a_namespace_whose_pods_all_fail_leaves_room_for_that_of_another() -> None:
    fleet = Fleet()
    for at in range(3):  # some are looked at whenever one more may go
        names = [f"web-{at}-{number}" for number in range(50)]
        fleet.add(*names)
        fleet.pass_time(10)
    fleet.pass_time(400)
    fleet.add("zz", namespace="other")  # looked at last
    fleet.pass_time(330)
    assert "d-zz" in {one.pod.uid for _, one in fleet.orders()}


def test_a_cluster_that_is_lost_is_not_asked() -> None:
    fleet = Fleet()
    fleet.pass_time(100)
    fleet.report("west", api_ok=False)
    fleet.pass_time(400)
    assert fleet.orders() == []


def test_pods_that_cannot_go_keep_no_others_from_going() -> None:
    fleet = Fleet(12)
    fleet.pass_time(600)
    assert len({one.pod.name for _, one in fleet.orders()}) == 12
