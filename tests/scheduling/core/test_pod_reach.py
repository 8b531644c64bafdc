"""What agents tell of the pods of others: who is told of it, and what is shown."""

import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterSilent, PeersAcknowledged, Tick
from dispatcher.scheduling.views import clusters_view, whole
from dispatcher.service.metrics.pod_reach import PodReachCollector
from shared.messages import PeersAck, PodReach, decode, encode
from shared.model.names import REACHED, UNREACHED, UNTRIED
from tests.laws.cores import make_core
from tests.scheduling.delegation.test_proxy_nodes import said, tell

AT = "10.2.3.4:7491"
LOST = PodReach("west", UNREACHED, AT, 40.0, 3, 3, "connection timed out")


def one_network(*clusters: str) -> SchedulerCore:
    core = make_core(("east", "west", "north"))
    for name in ("east", "west", "north"):
        core.pin(name, "", "", "flat" if name in clusters else "own")
        tell(core, name)
    return core


def shown(core: SchedulerCore, now: float, cluster: str = "east") -> list[dict[str, object]]:
    core.handle(Tick(), now)
    (row,) = (one for one in whole(clusters_view(core)) if one["name"] == cluster)
    reach: list[dict[str, object]] = row["pod_reach"]
    return reach


def test_others_are_told_where_the_pod_of_an_agent_is_if_that_is_an_address() -> None:
    core = one_network("east", "west")
    core.handle(PeersAcknowledged("west", pod_address=AT), 2.0)
    assert said(core.handle(Tick(), 10.0))["west"].pod_address == AT
    core.handle(PeersAcknowledged("west", pod_address="kubernetes.default:443"), 11.0)
    assert said(core.handle(Tick(), 20.0))["west"].pod_address == ""


def test_what_an_agent_tried_is_shown_of_the_clusters_of_its_network_alone() -> None:
    core = one_network("east", "west")
    reached = PodReach("north", REACHED, "10.3.0.1:7491", 5.0, 3)
    core.handle(PeersAcknowledged("east", pod_address="10.1.0.1:7491", reaches=(LOST, reached)), 10.0)
    lost = {"cluster": "west", "state": UNREACHED, "address": AT, "tries": 3, "failed": 3}
    assert shown(core, 12.0) == [{**lost, "for_s": 42.0, "problem": "connection timed out"}]
    assert shown(core, 12.0, "north") == []


def test_what_is_not_known_says_why() -> None:
    core = one_network("east", "west", "north")
    core.handle(PeersAcknowledged("west", pod_address=AT), 2.0)
    untried = {"state": UNTRIED, "for_s": None, "address": "", "tries": 0, "failed": 0}
    why = "the agent of cluster {} answers at no address of a pod"
    assert shown(core, 3.0, "west") == [
        {"cluster": name, **untried, "problem": why.format(name)} for name in ("east", "north")
    ]
    core.handle(PeersAcknowledged("east", pod_address="10.1.0.1:7491", reaches=(LOST,)), 4.0)
    assert shown(core, 5.0, "west")[0]["problem"] == "it was not tried yet"
    core.handle(ClusterSilent("east", "no answer"), 6.0)
    assert [one["problem"] for one in shown(core, 7.0, "west")] == ["cluster east is silent", why.format("north")]
    assert [one["state"] for one in shown(core, 7.0)] == [UNTRIED, UNTRIED]


def test_those_that_are_not_reached_come_first_and_of_many_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.views.cluster_rows._MOST_UNREACHED", 1)
    core = one_network("east", "west", "north")
    core.handle(PeersAcknowledged("east", reaches=(LOST,)), 2.0)
    core.handle(Tick(), 3.0)
    row = next(one for one in whole(clusters_view(core)) if one["name"] == "east")
    assert ([one["cluster"] for one in row["pod_reach"]], row["pod_reach_more"]) == (["west"], 1)
    reached = tuple(PodReach(name, REACHED) for name in ("west", "north"))
    core.handle(PeersAcknowledged("east", reaches=reached), 4.0)
    assert shown(core, 5.0) == []


@pytest.mark.parametrize(
    "told",
    [
        PodReach("east", UNREACHED),
        PodReach("moon", UNREACHED),
        PodReach("west", "\x1b[31m"),
        PodReach("west", UNREACHED, for_s=math.nan),
        PodReach("west", UNREACHED, for_s=-1.0),
        PodReach("west", UNREACHED, tries=-1),
    ],
)
def test_what_cannot_be_is_not_taken(told: PodReach) -> None:
    core = one_network("east", "west")
    core.handle(PeersAcknowledged("east", reaches=(told,)), 2.0)
    assert [one["state"] for one in shown(core, 3.0)] == [UNTRIED]


def test_what_an_agent_says_takes_little_room() -> None:
    core = one_network("east", "west")
    core.handle(PeersAcknowledged("east", reaches=(PodReach("west", UNREACHED, "x" * 200, problem="y" * 10_000),)), 2.0)
    (one,) = shown(core, 3.0)
    assert (one["address"], len(str(one["problem"]))) == ("", 300)


def test_the_metric_has_what_is_known_of_clusters_that_report() -> None:
    core = one_network("east", "west")
    registry = CollectorRegistry()
    registry.register(PodReachCollector(lambda: core.clusters))
    core.handle(PeersAcknowledged("east", reaches=(LOST,)), 2.0)
    core.handle(PeersAcknowledged("west", reaches=(PodReach("east", REACHED), PodReach("north", REACHED))), 2.0)
    lines = [one for one in generate_latest(registry).decode().splitlines() if not one.startswith("#")]
    name = "global_dispatcher_pods_reached"
    assert lines == [f'{name}{{from="east",to="west"}} 0.0', f'{name}{{from="west",to="east"}} 1.0']
    core.handle(ClusterSilent("east", "no answer"), 3.0)
    assert 'from="east"' not in generate_latest(registry).decode()


def test_an_older_agent_says_nothing_of_pods() -> None:
    told = decode(PeersAck, encode(PeersAck("east", "word")))
    assert (told.pod_address, told.reaches) == ("", ())
    whole_answer = PeersAck("east", "word", pod_address=AT, reaches=(LOST,))
    assert decode(PeersAck, encode(whole_answer)) == whole_answer
