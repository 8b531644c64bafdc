"""Readings as properties of ClusterProfiles: what is written, what stays, and what a failure does."""

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from dispatcher.service.files.cluster_profiles import PREFIX, ClusterProfiles, properties_of
from dispatcher.service.metrics.load import LoadCollector
from shared.kube.http import Request, Response
from tests.builders import fleet, node, put, reading
from tests.builders import pod as a_pod

Object = dict[str, Any]
PUBLISHED = "readings are published in ClusterProfiles"
NOW = 1_700_000_000.0
THEIRS = {"name": "topology.kubernetes.io/region", "value": "eu-1"}
OURS = {"name": f"{PREFIX}allocatable.cpu", "value": "8"}


class Server:
    """An API server with these profiles; `fails` by method."""

    def __init__(self, *profiles: Object, **fails: int) -> None:
        self.profiles = {one["metadata"]["name"]: one for one in profiles}
        self.fails = fails
        self.written: dict[str, Object] = {}

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        name = request.path.rpartition("clusterprofiles/")[2]
        if status := self.fails.get(request.method):
            return Response(status, b'{"message": "no"}')
        if request.method == "GET":
            one = self.profiles.get(name)
            return Response(200, msgspec.json.encode(one)) if one else Response(404, b"{}")
        assert request.content_type == "application/merge-patch+json"
        self.written[name] = msgspec.json.decode(request.body)
        return Response(200, b"{}")


def profile(name: str, *properties: Object) -> Object:
    return {"metadata": {"name": name, "resourceVersion": "7"}, "status": {"properties": list(properties)}}


def publish(server: Server, **properties: list[Object]) -> int:
    return asyncio.run(ClusterProfiles(server, "fleet").publish(properties))


def test_properties_are_what_the_metrics_tell_of_a_cluster_with_the_time_of_the_reading() -> None:
    state = fleet(now=100.0, a=[node("n1").cpu(6), node("n2").cpu(2)], b=["n1"])
    put(state, a_pod("p").cpu("500m"), "a", "n2")
    state.put_reading("a", reading("n1", age=9.0, cpu=0.25))
    found = properties_of(LoadCollector(state), NOW)
    told = {one["name"].removeprefix(PREFIX): (one["value"], one["lastObservedTime"]) for one in found["a"]}
    assert told["allocatable.cpu"] == ("8", "2023-11-14T22:13:20Z")
    assert told["requested.cpu"] == ("0.5", "2023-11-14T22:13:20Z")
    assert told["load.cpu.0.9"] == ("0.25", "2023-11-14T22:13:11Z")
    assert told["load-known-nodes.cpu"][0] == "1"
    assert "load.cpu.0.9" not in {one["name"].removeprefix(PREFIX) for one in found["b"]}


def test_what_others_wrote_stays_and_what_we_wrote_before_is_replaced() -> None:
    server = Server(profile("east", {**OURS, "value": "4"}, THEIRS, {"name": f"{PREFIX}gone", "value": "1"}))
    assert publish(server, east=[OURS]) == 1
    assert server.written["east/status"]["status"]["properties"] == [THEIRS, OURS]


def test_a_write_is_bound_to_the_version_that_was_read() -> None:
    server = Server(profile("east"))
    publish(server, east=[OURS])
    assert server.written["east/status"]["metadata"] == {"resourceVersion": "7"}


def test_profiles_of_other_clusters_are_left_alone() -> None:
    server = Server(profile("west", THEIRS))
    assert publish(server, east=[OURS]) == 0
    assert not server.written


def test_another_author_who_was_faster_is_no_failure() -> None:
    with capture_logs() as logs:
        assert publish(Server(profile("east"), PATCH=409), east=[OURS]) == 0
    assert [one["event"] for one in logs] == [PUBLISHED]


def test_it_is_told_which_clusters_have_a_profile_and_again_when_that_changes() -> None:
    server = Server(profile("east"))
    profiles = ClusterProfiles(server, "fleet")
    with capture_logs() as logs:
        for _ in range(2):
            asyncio.run(profiles.publish({"east": [OURS], "west": [OURS]}))
        server.profiles = {}
        asyncio.run(profiles.publish({"east": [OURS], "west": [OURS]}))
    assert [(one["clusters"], one["without_one"]) for one in logs] == [(1, ["west"]), (0, ["east", "west"])]


@pytest.mark.parametrize("fails", [{"GET": 403}, {"PATCH": 500}, {"GET": 503}])
def test_a_failure_is_logged_once(fails: dict[str, int]) -> None:
    profiles = ClusterProfiles(Server(profile("east"), profile("west"), **fails), "fleet")
    with capture_logs() as logs:
        for _ in range(3):
            asyncio.run(profiles.publish({"east": [OURS], "west": [OURS]}))
    told = [one["cluster"] for one in logs if one["event"] == "readings are not published"]
    assert told == ["east", "west"]


@pytest.mark.parametrize("odd", [{"metadata": {}}, {"status": {"properties": "none"}}, {"status": 7}])
def test_an_odd_profile_is_told_and_the_others_are_written(odd: Object) -> None:
    server = Server(profile("east"), profile("west"))
    server.profiles["east"] |= odd
    with capture_logs() as logs:
        assert publish(server, east=[OURS], west=[OURS]) == 1
    assert [one["cluster"] for one in logs if one["event"] == "readings are not published"] == ["east"]
