"""Mirrored status: the source shows what its delegate does, and what has ended stays ended."""

import copy
from typing import Any

import msgspec
import pytest

from agents.executor.bounds.byte_budget import ByteRate
from agents.executor.context import local
from agents.executor.context.event_queue import EventQueue
from agents.executor.context.local import Moment
from agents.executor.context.relayed_events import BURST, EVERY_S
from agents.executor.intents.procedures import carry_out
from agents.observer.seen import NODES, PODS
from shared.kube.http import Request, Response
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, MirrorStatus, PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, lost_reply, pod_object, run

PROXY = names.proxy_node_name("b")


def status(phase: str = "Running", *, ready: bool = True, ip: str = "10.0.0.7", **more: Any) -> dict[str, Any]:
    return {
        "phase": phase,
        "conditions": [
            {"type": "Ready", "status": "True" if ready else "False", "observedGeneration": 3},
            {"type": "PodScheduled", "status": "True", "reason": "there"},
        ],
        "containerStatuses": [{"name": "main", "ready": ready}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "hostIP": "192.168.0.1",
        "hostIPs": [{"ip": "192.168.0.1"}, {"ip": "fd00::1"}],
        "startTime": "2026-01-01T00:00:00Z",
        "qosClass": "Burstable",
        **more,
    }


def mirror(ref: PodRef, wanted: dict[str, Any], *, routed: bool = True, generation: int = 0) -> MirrorStatus:
    return MirrorStatus("i", ref, 1, msgspec.json.encode(wanted), routed, generation=generation)


def source(world: World) -> PodRef:
    pod = pod_object(nodeName=PROXY)
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "reason": "here"}]
    return world.submit(pod)


def status_of(world: World) -> dict[str, Any]:
    pod = world.api.pod("web")
    assert pod is not None
    found: dict[str, Any] = pod["status"]
    return found


def test_the_source_shows_what_the_delegate_does_and_keeps_its_own_pod_scheduled() -> None:
    world = World(peers=("b",))
    assert world.do(mirror(source(world), status())).verdict == DONE
    shown = status_of(world)
    assert (shown["phase"], shown["podIP"], shown["podIPs"]) == ("Running", "10.0.0.7", [{"ip": "10.0.0.7"}])
    assert shown["conditions"] == [
        {"type": "PodScheduled", "status": "True", "reason": "here"},
        {"type": "Ready", "status": "True"},
    ]
    assert (shown["hostIP"], shown["hostIPs"]) == ("192.168.0.1", [{"ip": "192.168.0.1"}, {"ip": "fd00::1"}])


def generations(world: World) -> list[int | None]:
    shown = status_of(world)
    return [one.get("observedGeneration") for one in (shown, *shown["conditions"])]


def test_the_generation_that_the_kubelet_there_has_seen_is_shown_as_home_counts_it() -> None:
    world = World(peers=("b",))
    ref = source(world)
    assert world.do(mirror(ref, status(observedGeneration=3), generation=2)).verdict == DONE
    assert generations(world) == [2, None, 2]  # that kubelet says of no PodScheduled


def test_home_keeps_its_own_pod_scheduled_and_shows_the_generation_of_it_that_the_kubelet_has_seen() -> None:
    world = World(peers=("b",))
    ref = source(world)
    wanted = status(observedGeneration=3)
    wanted["conditions"][1]["observedGeneration"] = 3
    assert world.do(mirror(ref, wanted, generation=2)).verdict == DONE
    scheduled = {"type": "PodScheduled", "status": "True", "reason": "here", "observedGeneration": 2}
    assert status_of(world)["conditions"][0] == scheduled


def test_of_a_condition_of_an_earlier_generation_home_shows_the_earlier_one() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status(observedGeneration=3), generation=2))
    world.sync()
    world.do(mirror(ref, status(observedGeneration=5), generation=4))
    assert generations(world) == [4, None, 2]


def test_while_the_kubelet_has_not_seen_a_change_the_generation_before_it_is_shown() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status(observedGeneration=3), generation=2))
    world.sync()
    world.do(mirror(ref, status(observedGeneration=3, message="pulls")))
    assert (status_of(world)["message"], generations(world)) == ("pulls", [2, None, 2])


def test_a_kubelet_that_says_of_no_generation_has_none_shown() -> None:
    world = World(peers=("b",))
    assert world.do(mirror(source(world), status(), generation=2)).verdict == DONE
    assert generations(world) == [None, None, None]


def test_no_generation_of_the_delegate_is_shown_as_one_of_the_source() -> None:
    world = World(peers=("b",))
    ref = source(world)
    wanted = status(observedGeneration=7)
    wanted["conditions"].append({"type": "PodResizePending", "status": "True", "observedGeneration": 7})
    assert world.do(mirror(ref, wanted)).verdict == DONE
    assert "observedGeneration" not in msgspec.json.encode(status_of(world)).decode()


def test_addresses_of_a_pod_network_that_is_not_that_of_home_are_not_shown_and_the_pod_is_ready_all_the_same() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status()))
    world.sync()
    assert world.do(mirror(ref, status(), routed=False)).verdict == DONE
    shown = status_of(world)
    assert [key for key in shown if "IP" in key and shown[key]] == []
    assert {"type": "Ready", "status": "True"} in shown["conditions"]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "web"])
def test_an_address_that_no_endpoint_slice_takes_is_not_shown(address: str) -> None:
    world = World(peers=("b",))
    hosts = [{"ip": "192.168.0.1"}, {"ip": address}]
    assert world.do(mirror(source(world), status(ip=address, hostIPs=hosts))).verdict == DONE
    shown = status_of(world)
    assert [key for key in shown if "IP" in key and shown[key]] == []
    assert {"type": "Ready", "status": "True"} in shown["conditions"]


def test_what_the_delegate_has_no_more_is_taken_off_the_source() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status(reason="Starting", ip="10.0.0.7")))
    world.sync()
    world.do(mirror(ref, status(ip="10.0.0.8")))
    shown = status_of(world)
    assert "reason" not in shown
    assert shown["podIPs"] == [{"ip": "10.0.0.8"}]


def test_an_equal_status_is_not_written_twice() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status()))
    world.sync()
    assert world.do(mirror(ref, status())).verdict == DONE
    assert world.api.count("patch") == 1


def test_a_status_that_somebody_else_changed_is_written_again() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status()))
    status_of(world)["conditions"] = [{"type": "Ready", "status": "False"}]
    pod = world.api.pod("web")
    assert pod is not None
    world.api.put_pod(pod)
    world.sync()
    assert world.do(mirror(ref, status())).verdict == DONE
    assert {"type": "Ready", "status": "True"} in status_of(world)["conditions"]


@pytest.mark.parametrize("ended", ["Succeeded", "Failed"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen yet"])
def test_what_has_ended_stays_ended(ended: str, seen: bool) -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status(ended, ready=False)))
    if seen:
        world.sync()
    assert world.do(mirror(ref, status("Running"))).verdict == DONE
    assert status_of(world)["phase"] == ended


def backup_of(world: World) -> dict[str, Any]:
    return copy.deepcopy(world.api.objects)


def restore(world: World, backup: dict[str, Any]) -> None:
    """etcd from a backup, which the watch shows."""
    world.api.objects = backup
    for kind in (NODES, PODS):
        world.cache.begin(kind, forget_versions=True)
        world.cache.end(kind)
    world.sync()


def test_an_end_that_the_server_lost_with_a_restore_is_written_again() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status("Running")))
    backup = backup_of(world)
    world.do(mirror(ref, status("Succeeded", ready=False)))
    world.sync()
    restore(world, backup)
    assert world.do(mirror(ref, status("Succeeded", ready=False))).verdict == DONE
    assert status_of(world)["phase"] == "Succeeded"


def test_a_status_that_the_server_lost_with_a_restore_is_written_again_once_that_is_known() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status(ip="10.0.0.7")))
    backup = backup_of(world)
    world.do(mirror(ref, status(ip="10.0.0.8")))
    world.sync()
    restore(world, backup)
    world.local.server_went_back()
    assert world.do(mirror(ref, status(ip="10.0.0.8"))).verdict == DONE
    assert status_of(world)["podIP"] == "10.0.0.8"


@pytest.mark.parametrize("code", [403, 422])
def test_a_status_that_is_refused_is_one_event_with_the_cause_and_a_newer_one_replaces_it(code: int) -> None:
    world = World(peers=("b",))
    ref = source(world)
    refusal = Response(code, b'{"message":"a policy of this cluster"}')

    def refusing(request: Request) -> Response:
        return refusal if request.method == "PATCH" else world.api.answer(request)

    answers = [run(carry_out(mirror(ref, status("Running")), 1, world.local, NOW), refusing) for _ in range(3)]
    assert {one.verdict for one in answers} == {REFUSED}
    why = f"the status of pod default/web cannot be written: a policy of this cluster (HTTP {code})"
    assert answers[0].message == why
    assert events_of(world) == [("StatusNotMirrored", why)]
    assert world.do(mirror(ref, status("Succeeded", ready=False))).verdict == DONE
    assert status_of(world)["phase"] == "Succeeded"


def events_of(world: World) -> list[tuple[str, str]]:
    """(reason, note) of the events that wait to be written."""
    found = [msgspec.json.decode(request.body) for request in world.local.events]
    return [(one["reason"], one["note"]) for one in found]


def test_a_write_that_was_lost_and_lands_late_does_not_bring_the_dead_to_life() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.do(mirror(ref, status("Pending", ready=False)))
    delayed: list[Request] = []

    def swallow(request: Request) -> Response:
        if request.method == "PATCH":
            delayed.append(request)
            return Response(0, b"timeout")
        return world.api.answer(request)

    assert run(carry_out(mirror(ref, status("Running")), 1, world.local, NOW), swallow).verdict == UNKNOWN
    assert world.do(mirror(ref, status("Succeeded", ready=False))).verdict == DONE
    assert [world.api.answer(request).status for request in delayed] == [409] * len(delayed)
    assert status_of(world)["phase"] == "Succeeded"


def test_a_lost_reply_ends_done() -> None:
    world = World(peers=("b",))
    ref = source(world)
    answer = lost_reply(world.api.answer, "PATCH")
    assert run(carry_out(mirror(ref, status()), 1, world.local, NOW), answer).verdict == DONE


def test_a_pod_made_again_under_the_name_keeps_its_own_status() -> None:
    world = World(peers=("b",))
    old = source(world)
    world.api.put_pod(pod_object())  # not seen yet
    assert world.do(mirror(old, status())).verdict == STALE
    assert status_of(world)["phase"] == "Pending"


@pytest.mark.parametrize("node", ["n1", ""], ids=["on a real node", "unbound"])
def test_a_pod_that_is_not_on_a_proxy_node_keeps_its_own_status(node: str) -> None:
    world = World()
    ref = world.submit(pod_object(nodeName=node))
    assert world.do(mirror(ref, status())).verdict == STALE
    assert world.api.done == []


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b'{"phase":"Flying"}', b'{"phase":1}', b'{"conditions":[3]}', b'{"a":' * 5000]
)
def test_a_status_that_makes_no_sense_is_refused(raw: bytes) -> None:
    world = World(peers=("b",))
    ref = source(world)
    answers = [world.do(MirrorStatus("i", ref, 1, raw)) for _ in range(2)]
    assert [one.verdict for one in answers] == [REFUSED, REFUSED]
    assert "the status of the delegate of pod default/web cannot be read" in answers[0].message
    assert events_of(world) == [("StatusNotMirrored", answers[0].message)]
    assert world.api.done == []


def events_at_home(world: World) -> list[tuple[str, str, str]]:
    made = [msgspec.json.decode(request.body) for request in world.local.events]
    return [(one["type"], one["reason"], one["note"]) for one in made]


def test_events_of_the_delegate_are_told_of_the_source_once_and_once_more_when_they_go_on() -> None:
    world = World(peers=("b",))
    ref = source(world)
    for count in (1, 1, 4):
        happened = [{"reason": "FailedMount", "message": "no such claim", "count": count, "at": NOW.wall}]
        assert world.do(mirror(ref, {"events": happened, **status()})).verdict == DONE
        world.sync()
    assert events_at_home(world) == [
        ("Warning", "FailedMount", "in cluster b: no such claim"),
        ("Warning", "FailedMount", "in cluster b (at least 4 times): no such claim"),
    ]
    assert "events" not in status_of(world)
    assert world.api.count("patch") == 1


def test_events_that_are_long_past_are_not_told_again_after_a_restart() -> None:
    world = World(peers=("b",))
    happened = [{"reason": "FailedMount", "message": "x", "at": NOW.wall - 3600}]
    world.do(mirror(source(world), {"events": happened, **status()}))
    assert events_at_home(world) == []


@pytest.mark.parametrize("events", [{"a": 1}, [1], [{"reason": 1}], "x", None])
def test_events_that_cannot_be_read_leave_the_status_as_it_is(events: Any) -> None:
    world = World(peers=("b",))
    wanted = {"events": events, **status()}
    assert world.do(mirror(source(world), wanted)).verdict == DONE
    assert (status_of(world)["phase"], events_at_home(world)) == ("Running", [])


def ordinary(*said: str) -> dict[str, Any]:
    normal = [{"reason": "Started", "message": one, "at": NOW.wall} for one in said]
    return {"events": [{"reason": "Unhealthy", "message": "m", "at": NOW.wall}], "normal": normal, **status()}


def test_what_the_kubelet_there_says_of_containers_reads_as_at_home() -> None:
    world = World(peers=("b",))
    ref = source(world)
    for _ in range(2):
        assert world.do(mirror(ref, ordinary("Started container main"))).verdict == DONE
        world.sync()
    assert events_at_home(world) == [
        ("Warning", "Unhealthy", "in cluster b: m"),
        ("Normal", "Started", "in cluster b: Started container main"),
    ]
    assert "normal" not in status_of(world)


def test_a_flood_of_what_is_normal_is_cut_and_takes_no_room_from_warnings() -> None:
    world = World(peers=("b",))
    ref = source(world)
    for number in range(10):
        world.do(mirror(ref, {**ordinary(*(f"{number}-{one}" for one in range(12))), "events": []}))
    assert len(events_at_home(world)) == BURST
    happens(world, ref, ("FailedMount", 1, 0.0))
    assert events_at_home(world)[-1][:2] == ("Warning", "FailedMount")


def test_where_the_bytes_of_statuses_are_used_up_only_warnings_are_told_until_there_are_more() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.local.status_bytes.spend("b", ref.namespace, NOW.mono, 2**30)
    world.do(mirror(ref, ordinary("x")))
    assert [reason for _, reason, _ in events_at_home(world)] == ["Unhealthy", "StatusNotMirrored"]
    later = Moment(NOW.mono + 3600, NOW.wall + 1)
    world.do(mirror(ref, ordinary("x")), later)
    assert events_at_home(world)[-1][:2] == ("Normal", "Started")


def test_what_is_normal_pushes_no_other_event_out_of_the_queue() -> None:
    world = World(peers=("b",))
    world.local.events = EventQueue(most=4)
    ref = source(world)
    world.do(mirror(ref, ordinary("x", "y", "z")))
    world.sync()
    world.do(mirror(ref, ordinary("v", "w")))
    assert [reason for _, reason, _ in events_at_home(world)].count("Unhealthy") == 1


def test_nothing_is_told_of_a_pod_that_runs_here() -> None:
    world = World(peers=("b",))
    ref = world.submit(pod_object(nodeName="n1"))
    world.do(mirror(ref, {"events": [{"reason": "x", "message": "y", "at": NOW.wall}], **status()}))
    assert events_at_home(world) == []


def happens(world: World, ref: PodRef, *happened: tuple[str, int, float], later_s: float = 0.0) -> None:
    """A status comes with these events (reason, count, seconds from NOW), so many seconds from NOW."""
    told = [{"reason": reason, "message": "m", "count": n, "at": NOW.wall + at} for reason, n, at in happened]
    now = Moment(NOW.mono + later_s, NOW.wall + later_s)
    world.do(mirror(ref, {"events": told, **status()}), now)


def test_a_flood_of_events_is_cut_to_a_few_of_each_pod_and_leaves_room_later() -> None:
    world = World(peers=("b",))
    ref, other = source(world), world.submit(pod_object("other", nodeName=PROXY))
    for number in range(50):
        happens(world, ref, *((f"R{number}-{one}", 1, 0.0) for one in range(8)))
    assert len(world.local.events) == BURST
    happens(world, other, ("R", 1, 0.0))
    assert len(world.local.events) == BURST + 1
    happens(world, ref, ("late-1", 1, 400.0), ("late-2", 1, 400.0), later_s=EVERY_S + 1)
    assert len(world.local.events) == BURST + 2
    happens(world, ref, ("late-1", 1, 400.0), ("late-2", 1, 400.0), later_s=2 * EVERY_S + 1)
    assert [reason for _, reason, _ in events_at_home(world)][-2:] == ["late-1", "late-2"]


@pytest.mark.parametrize(
    ("count", "at", "told"),
    [
        pytest.param(4, 5.0, 1, id="the same of an observer that has started again"),
        pytest.param(8, 5.0, 2, id="more"),
        pytest.param(1, 5.0, 2, id="made anew"),
        pytest.param(1, -5.0, 1, id="an earlier one that comes late"),
    ],
)
def test_an_event_is_told_again_only_if_it_has_gone_on(count: int, at: float, told: int) -> None:
    world = World(peers=("b",))
    ref = source(world)
    happens(world, ref, ("BackOff", 4, 0.0))
    happens(world, ref, ("BackOff", count, at))
    assert len(world.local.events) == told


def test_what_was_told_of_a_pod_that_is_gone_is_forgotten() -> None:
    world = World(peers=("b",))
    ref = source(world)
    happens(world, ref, ("BackOff", 4, 0.0))
    assert len(world.local.told_events) == 1
    del world.api.objects["/api/v1/namespaces/default/pods/web"]
    world.sync()
    happens(world, ref, ("BackOff", 4, 0.0))
    assert len(world.local.told_events) == 0


def shown_bytes(world: World) -> int:
    return len(msgspec.json.encode(status_of(world)))


def containers(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": f"c{at}", "ready": True, "restartCount": 0, "state": {"running": {}}, **more} for at in range(count)
    ]


def test_what_containers_leave_behind_is_shown_in_full() -> None:
    world = World(peers=("b",))
    ended = {"terminated": {"exitCode": 1, "message": "x" * 4096}}
    told = containers(3, lastState=ended)
    assert world.do(mirror(source(world), status(containerStatuses=told))).verdict == DONE
    assert status_of(world)["containerStatuses"] == told


@pytest.mark.parametrize(
    "large",
    [
        {"message": "<" * 500_000},
        {"reason": "x" * 500_000},
        {"podIPs": [{"ip": f"10.0.{at // 250}.{at % 250}"} for at in range(20_000)]},
        {"conditions": [{"type": f"c{at}", "status": "True", "message": "x" * 900} for at in range(500)]},
        {"containerStatuses": containers(400, image="x" * 1000)},
        {"containerStatuses": containers(1, allocatedResources={f"r{at}": "1" for at in range(40_000)})},
        {"containerStatuses": containers(60, volumeMounts=[{"name": f"v{at}", "mountPath": "/x"} for at in range(60)])},
    ],
)
def test_a_status_of_any_size_is_mirrored_within_32_kib(large: dict[str, Any]) -> None:
    world = World(peers=("b",))
    assert world.do(mirror(source(world), status(**large))).verdict == DONE
    shown = status_of(world)
    assert shown["phase"] == "Running"
    assert shown_bytes(world) < 33 * 1024


def test_a_status_whose_containers_are_cut_says_so_and_keeps_who_is_ready() -> None:
    world = World(peers=("b",))
    mounts = [{"name": f"v{at}", "mountPath": "/x"} for at in range(60)]
    world.do(mirror(source(world), status(containerStatuses=containers(60, volumeMounts=mounts))))
    shown = status_of(world)
    assert [(one["name"], one["ready"]) for one in shown["containerStatuses"]][-1] == ("c59", True)
    assert "parts are cut here" in shown["message"]


def later(world: World, order: MirrorStatus, seconds: float) -> str:
    moment = Moment(NOW.mono + seconds, NOW.wall + seconds)
    world.sync()
    return run(carry_out(order, 1, world.local, moment), world.api.answer).verdict


def test_a_large_pod_whose_status_changes_without_end_is_written_at_a_rate_of_bytes_and_its_end_at_once() -> None:
    world = World(peers=("b",))
    pod = pod_object(nodeName=PROXY)
    pod["metadata"]["annotations"] = {"note": "x" * 200_000}
    ref = world.submit(pod)
    verdicts = [later(world, mirror(ref, status(message=str(at))), at) for at in range(300)]
    assert DONE in verdicts[:5]
    # 2 MiB at once and 16 KiB a second, in writes of 200 KB.
    assert 25 <= verdicts.count(DONE) <= 40
    assert set(verdicts) == {DONE, REFUSED}
    assert later(world, mirror(ref, status("Failed")), 300) == DONE


def test_pods_of_one_cluster_have_a_rate_together_and_those_of_another_one_do_not_wait() -> None:
    world = World(peers=("b", "c"))
    first, other = pod_object("one", nodeName=PROXY), pod_object("two", nodeName=names.proxy_node_name("c"))
    refs = world.submit(first), world.submit(other)
    world.local.status_bytes.spend("b", "many", NOW.mono, 257 * 2**20)
    assert [later(world, mirror(ref, status()), 0.5) for ref in refs] == [REFUSED, DONE]
    assert later(world, mirror(refs[0], status()), 2) == DONE


def test_large_pods_of_one_namespace_leave_statuses_of_others_in_that_cluster_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_STATUS_OF_NAMESPACE", "_STATUS_OF_CLUSTER"):  # an eighth of what it is: large pods take time
        rate = getattr(local, name)
        monkeypatch.setattr(local, name, ByteRate(rate.at_once / 8, rate.per_s / 8))
    world = World(peers=("b",))
    world.api.namespaces.add("loud")
    quiet = world.submit(pod_object("quiet", nodeName=PROXY))
    verdicts = []
    for at in range(18):  # each within its own 2 MiB, and more than 16 MiB together
        loud = pod_object(f"loud-{at}", nodeName=PROXY)
        loud["metadata"] |= {"namespace": "loud", "annotations": {"note": "x" * 1_000_000}}
        verdicts.append(later(world, mirror(world.submit(loud), status()), 0.0))
    assert verdicts[0] == DONE
    assert verdicts[-1] == REFUSED
    assert later(world, mirror(quiet, status()), 0.0) == DONE
