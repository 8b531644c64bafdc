"""Events about delegates: whose they are, when they are told again, and that they never pile up."""

from collections.abc import Callable

import msgspec
import pytest

from agents.kube.pod_events import event_seen
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.delegate_events import DelegateEvents
from agents.observer.seen import NODES, PODS, EventSeen, PodSeen
from shared.model import delegate_events
from shared.model.copy_names import copy_name
from shared.model.delegate_events import MAX_EVENTS, MAX_NORMAL, DelegateEvent, event, events_of
from shared.model.names import FOLLOWERS
from shared.model.pod import Pod, SourceRef

SOURCE = SourceRef("east", "east-uid", "default", "web", "web-uid", 1)
STATUS = b'{"phase":"Pending"}'
MOUNT = DelegateEvent("FailedMount", "no such claim")


class Cluster:
    """A cache of a delegate `theirs` and a foreign pod `ours`, between the watches and the log."""

    def __init__(self) -> None:
        self.cache = ClusterCache(ChangeLog())
        for kind in (NODES, PODS):
            self.cache.begin(kind)
            self.cache.end(kind)
        self.events = DelegateEvents(self.cache.pod, lambda pod: self.cache.apply(PodSeen(pod.uid, 1, pod)))
        self.see(Pod("theirs", "default", "web-1", node="n1", source=SOURCE, status=STATUS))
        self.see(Pod("ours", "default", "db-1", node="n1"))

    def see(self, pod: Pod, version: int = 1) -> None:
        self.cache.apply(PodSeen(pod.uid, version, self.events.with_own_events(pod)))

    def happens(
        self, uid: str = "theirs", reason: str = "FailedMount", count: int = 1, *, at: float = 0.0, namespace: str = ""
    ) -> None:
        made, pod = event(reason, "no such claim", count, at), self.cache.pod(uid)
        name = pod.name if pod is not None else ""
        self.events.apply(EventSeen(f"{reason}-{count}", 5, uid, namespace or "default", name, made))

    def starts(self, reason: str = "Started", uid: str = "theirs", message: str = "Started container main") -> None:
        made = event(reason, message, 1, 0.0, normal=True)
        name = {"theirs": "web-1", "ours": "db-1"}.get(uid, "")
        self.events.apply(EventSeen(reason, 5, uid, "default", name, made))

    def normal(self) -> list[str]:
        return [one.reason for one in delegate_events.all_events_of(self.status()) if one.normal]

    def told(self) -> list[DelegateEvent]:
        return events_of(self.status())

    def status(self) -> bytes:
        pod = self.cache.pod("theirs")
        assert pod is not None
        return pod.status


def test_an_event_about_a_delegate_goes_with_its_status_and_stays_with_the_next_one() -> None:
    cluster = Cluster()
    before = cluster.cache.log.revision
    cluster.happens()
    assert cluster.told() == [MOUNT]
    assert list(cluster.cache.log.changed(before)) == [(PODS, "theirs")]
    pod = cluster.cache.pod("theirs")
    assert pod is not None
    cluster.see(msgspec.structs.replace(pod, status=b'{"phase":"Running"}'), version=2)
    assert (cluster.told(), delegate_events.without_events(cluster.status())) == ([MOUNT], b'{"phase":"Running"}')


def test_an_event_names_what_follows_the_delegate_as_at_home() -> None:
    cluster = Cluster()
    copy = copy_name("east-uid", "default", "ConfigMap", "web-conf")
    theirs = Pod("theirs", "default", "web-1", node="n1", source=SOURCE, status=STATUS)
    cluster.see(msgspec.structs.replace(theirs, annotations={FOLLOWERS: "ConfigMap/web-conf"}))
    for count in (1, 2):
        made = event("FailedMount", f'configmap "{copy}" not found', count, 0.0)
        cluster.events.apply(EventSeen("e", 5, "theirs", "default", "web-1", made))
    assert cluster.told() == [DelegateEvent("FailedMount", 'configmap "web-conf" not found', 2)]


@pytest.mark.parametrize("uid", ["ours", "nobody", ""])
def test_an_event_about_another_pod_changes_nothing(uid: str) -> None:
    cluster = Cluster()
    before = cluster.cache.log.revision
    cluster.happens(uid)
    assert cluster.cache.log.revision == before


def test_an_event_of_another_namespace_that_names_the_uid_of_a_delegate_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.cache.log.revision
    cluster.happens(namespace="elsewhere")
    assert cluster.cache.log.revision == before


def test_an_event_that_is_made_anew_is_told_though_its_count_is_lower() -> None:
    cluster = Cluster()
    for count, at in ((64, 10.0), (1, 5.0), (1, 20.0)):
        cluster.happens(count=count, at=at)
        if at == 5.0:
            assert [one.count for one in cluster.told()] == [64], "it is an earlier one that comes late"
    assert cluster.told() == [DelegateEvent("FailedMount", "no such claim", 1, 20.0)]


def test_what_happens_again_is_told_when_its_count_has_doubled() -> None:
    cluster, told = Cluster(), []
    for count in range(1, 10):
        before = cluster.cache.log.revision
        cluster.happens(count=count)
        told += [count] if cluster.cache.log.revision > before else []
    assert told == [1, 2, 4, 8]
    assert [one.count for one in cluster.told()] == [8]


def test_the_latest_events_of_a_delegate_are_kept() -> None:
    cluster = Cluster()
    for number in range(20):
        cluster.happens(reason=f"R{number}")
    assert [one.reason for one in cluster.told()] == [f"R{number}" for number in range(20 - MAX_EVENTS, 20)]


def test_delegates_beyond_the_limit_push_out_those_told_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.observer.delegate_events.MAX_PODS", 1)
    cluster = Cluster()
    other = Pod("other", "default", "web-2", node="n1", source=SOURCE, status=STATUS)
    cluster.see(other)
    cluster.happens()
    cluster.happens("other")
    assert cluster.events.with_own_events(other) != other
    bare = Pod("theirs", "default", "web-1", node="n1", source=SOURCE, status=STATUS)
    assert cluster.events.with_own_events(bare) == bare


def test_what_is_normal_goes_with_the_next_status_and_asks_for_no_message_of_its_own() -> None:
    cluster = Cluster()
    before = cluster.cache.log.revision
    for reason in ("Pulled", "Created", "Started"):
        cluster.starts(reason)
    assert (cluster.normal(), cluster.cache.log.revision) == ([], before)
    pod = cluster.cache.pod("theirs")
    assert pod is not None
    cluster.see(msgspec.structs.replace(pod, status=b'{"phase":"Running"}'), version=2)
    assert (cluster.normal(), cluster.told()) == (["Pulled", "Created", "Started"], [])
    told = cluster.cache.log.revision
    for _ in range(3):
        cluster.events.tell_late()
    assert cluster.cache.log.revision == told


def test_what_is_normal_and_comes_with_no_status_is_told_a_little_later() -> None:
    cluster = Cluster()
    cluster.starts()
    cluster.events.tell_late()
    assert cluster.normal() == []
    cluster.events.tell_late()
    assert cluster.normal() == ["Started"]


def test_of_a_pod_that_is_gone_nothing_late_is_told() -> None:
    cluster = Cluster()
    cluster.starts()
    cluster.cache.forget(PODS, "theirs")
    for _ in range(3):
        cluster.events.tell_late()
    assert cluster.cache.pod("theirs") is None


def test_a_warning_takes_along_what_waits() -> None:
    cluster = Cluster()
    cluster.starts()
    cluster.happens()
    assert (cluster.normal(), cluster.told()) == (["Started"], [MOUNT])


@pytest.mark.parametrize(("reason", "uid"), [("Scheduled", "theirs"), ("Started", "ours"), ("Started", "nobody")])
def test_other_reasons_and_other_pods_are_not_told(reason: str, uid: str) -> None:
    cluster = Cluster()
    cluster.starts(reason, uid)
    for _ in range(2):
        cluster.events.tell_late()
    assert cluster.normal() == []


def test_what_is_normal_pushes_out_no_warning() -> None:
    cluster = Cluster()
    cluster.happens()
    for number in range(50):
        cluster.starts(message=f"Started container c{number}")
    cluster.happens(reason="Unhealthy")
    assert [one.reason for one in cluster.told()] == ["FailedMount", "Unhealthy"]
    assert len(cluster.normal()) == MAX_NORMAL


METADATA = {"name": "e", "uid": "e1", "resourceVersion": "7"}


def seen(**fields: object) -> EventSeen | None:
    about = {"kind": "Pod", "uid": "u1", "namespace": "default", "name": "web-1"}
    return event_seen(msgspec.json.encode({"metadata": METADATA, "involvedObject": about, **fields}))


@pytest.mark.parametrize(
    ("fields", "count", "at"),
    [
        ({"count": 5, "lastTimestamp": "2026-01-01T00:00:10Z"}, 4, 1767225610.0),
        ({"series": {"count": 9, "lastObservedTime": "2026-01-01T00:00:10.000000Z"}}, 8, 1767225610.0),
        ({"eventTime": "2026-01-01T00:00:10.000000Z", "count": None}, 1, 1767225610.0),
        ({"lastTimestamp": "yesterday"}, 1, 0.0),
        ({"type": "Warning"}, 1, 0.0),
        ({}, 1, 0.0),
    ],
)
def test_events_of_kubelets_and_of_newer_clients_are_read(fields: dict[str, object], count: int, at: float) -> None:
    read = seen(reason="BackOff", message="x", **fields)
    assert read == EventSeen("e1", 7, "u1", "default", "web-1", DelegateEvent("BackOff", "x", count, at))


@pytest.mark.parametrize(
    "broken", [lambda: seen(involvedObject={"kind": "Pod"}), lambda: seen(count="many"), lambda: event_seen(b"{")]
)
def test_an_event_that_cannot_be_read_is_about_nobody(broken: Callable[[], EventSeen | None]) -> None:
    assert broken() is None


def test_what_is_normal_is_read_as_such() -> None:
    read = seen(type="Normal", reason="Started", message="x")
    assert read is not None
    assert read.event.normal
