"""The HTTP API over a scripted core: shapes, codes, and what it refuses."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.api.page import render_page
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.events import FoldOn
from dispatcher.scheduling.views import whole
from dispatcher.service.collectors import ServiceCollector
from dispatcher.service.links.link import LocalLink
from tests.builders import pod
from tests.service.fakes import FakeAgent, FakeCore, FakeViews, ScriptedLink, service

Client = TestClient[Any, Any]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    core = FakeCore(clusters={"east": ClusterView("east"), "west": ClusterView("west", heard=True)}, open=False)
    core.counters["scheduled", "global-dispatcher"] = 7
    core.counters["unschedulable", "global-dispatcher-packed"] = 2
    subject = service(core)
    subject.metrics.watch(ServiceCollector(subject))
    core.folding = ("east",)
    subject.metrics.event(FoldOn("east"), 0.0)
    async with TestClient(TestServer(make_app(OnlyOne(subject, FakeViews())))) as found:
        yield found


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
async def test_it_is_alive_before_it_is_ready(client: Client, path: str) -> None:
    assert (await client.get(path)).status == 200
    ready = await client.get("/readyz")
    assert (ready.status, await ready.text()) == (503, "waiting for the first report of: east")


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("/v1/clusters", {"clusters": whole(FakeViews().clusters())}, id="all clusters"),
        pytest.param("/v1/nodes?cluster=west", {"nodes": whole(FakeViews().nodes())[1:]}, id="nodes of one cluster"),
        pytest.param("/v1/pods?namespace=shop", {"pods": whole(FakeViews().pods())[1:]}, id="pods of one namespace"),
        pytest.param("/v1/pods?phase=Failed", {"pods": []}, id="no pods of a phase"),
        pytest.param("/v1/usage", {"usage": whole(FakeViews().usage())}, id="usage of clusters"),
        pytest.param("/v1/rebalancing", {"rebalancing": FakeViews().rebalancing()}, id="rebalancing"),
        pytest.param("/v1/drain?cluster=west", {"drain": whole(FakeViews().drain("west"))}, id="a drain"),
        pytest.param(
            "/v1/drain?cluster=west&leave=true",
            {"drain": whole(FakeViews().drain("west", leave=True))},
            id="a drain both ways",
        ),
        pytest.param("/v1/telemetry", {"telemetry": []}, id="telemetry of no cluster"),
        pytest.param(
            "/v1/queue?limit=2", {"queue": FakeViews().queue(2), "counts": FakeViews().queue_counts()}, id="the queue"
        ),
        pytest.param("/v1/queue/default/web-1", FakeViews().place("default", "web-1"), id="a pod's place in it"),
        pytest.param("/v1/tenants", {"tenants": FakeViews().tenants()}, id="tenants"),
        pytest.param(
            "/v1/tenants/shop",
            {**(FakeViews().tenant("shop") or {}), "next_victims": whole(FakeViews().next_victims("shop"))},
            id="one tenant",
        ),
        pytest.param(
            '/v1/quota?namespace=shop&requests={"cpu":500}&replicas=3&priority=1',
            FakeViews().quota("", pod().namespace("shop").cpu("500m").build(), 3),
            id="quota for some pods",
        ),
        pytest.param("/v1/explain/default/web-1", FakeViews().explain("default", "web-1"), id="one pod"),
    ],
)
async def test_rows_are_served_as_json(client: Client, path: str, want: object) -> None:
    answer = await client.get(path)
    assert (answer.status, await answer.json()) == (200, want)


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("", 400, "name a namespace"),
        ("namespace=shop&replicas=0", 400, "replicas of 1 to"),
        ("namespace=shop&replicas=x", 400, "JSON is malformed"),
        ('namespace=shop&requests={"cpu":-1}', 400, "Expected `int` >= 0"),
        ("namespace=" + 64 * "x", 400, "name a namespace"),
        ("namespace=both", 400, "of several tenants"),
        ("namespace=both&cluster=mars", 404, "no cluster mars"),
    ],
)
async def test_a_wrong_question_about_quota_is_told(client: Client, query: str, status: int, told: str) -> None:
    answer = await client.get(f"/v1/quota?{query}")
    assert answer.status == status
    assert told in (await answer.json())["error"]


async def test_a_tenant_that_is_none_is_told_with_those_that_are(client: Client) -> None:
    answer = await client.get("/v1/tenants/sho")
    assert (answer.status, (await answer.json())["error"]) == (404, "no tenant sho; did you mean shop?")


async def test_where_rebalancing_is_off_the_way_to_a_dry_run_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeViews, "rebalancing", lambda _: None)
    answer = await client.get("/v1/rebalancing")
    assert answer.status == 404
    assert "mode: dry_run" in (await answer.json())["error"]


@pytest.mark.parametrize(
    "path", ["/v1/explain/default/nobody", "/v1/explain/default/web-1?cluster=mars", "/v1/drain?cluster=mars", "/v1/x"]
)
async def test_what_is_not_there_is_404_with_a_reason(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert answer.status == 404
    assert (await answer.json())["error"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/pods?cluster=wset", "no cluster wset; known: east, west"),
        ("/v1/pods?source=wset", "no cluster wset; known: east, west"),
        ("/v1/nodes?cluster=wset", "no cluster wset; known: east, west"),
        ("/v1/explain/default/web-1?cluster=wset", "no cluster wset; known: east, west"),
        ("/v1/pods?namespace=nonono", "no pods in namespace nonono"),
        (
            "/v1/explain/default/web-1-copy",
            "pod default/web-1-copy of cluster west is the copy of default/web-1, submitted in east: "
            "`global-dispatcher explain default/web-1 --cluster east`",
        ),
        (
            "/v1/explain/default/foreign",
            "nothing is known of pod default/foreign: ours are pods with spec.schedulerName global-dispatcher, which "
            'the annotation global-dispatcher.io/schedule: "true" gives them when they are made '
            "(see `global-dispatcher pods`)",
        ),
        (
            "/v1/explain/default/web-1?cluster=west",
            "nothing is known of pod default/web-1 submitted in west: ours are pods with spec.schedulerName "
            'global-dispatcher, which the annotation global-dispatcher.io/schedule: "true" gives them when they are '
            "made (see `global-dispatcher pods`)",
        ),
    ],
)
async def test_a_name_that_is_unknown_is_404_and_what_would_be_known_is_told(
    client: Client, path: str, told: str
) -> None:
    answer = await client.get(path)
    assert (answer.status, await answer.json()) == (404, {"error": told})


async def test_filters_by_known_names_that_match_nothing_are_an_empty_list(client: Client) -> None:
    answer = await client.get("/v1/pods?namespace=shop&cluster=west")
    assert (answer.status, await answer.json()) == (200, {"pods": []})


async def test_nothing_can_be_written(client: Client) -> None:
    assert (await client.post("/v1/pods", json={})).status == 405


async def test_a_foreign_host_name_is_refused(client: Client) -> None:
    assert (await client.get("/v1/pods", headers={"Host": "evil.example"})).status == 421
    assert (await client.get("/v1/pods", headers={"Host": "localhost:7480"})).status == 200


async def test_metrics_are_kube_schedulers_where_they_fit(client: Client) -> None:
    text = await (await client.get("/metrics")).text()
    for line in (
        'scheduler_schedule_attempts_total{profile="global-dispatcher",result="scheduled"} 7.0',
        'scheduler_schedule_attempts_total{profile="global-dispatcher-packed",result="unschedulable"} 2.0',
        'scheduler_pending_pods{queue="active"} 0.0',
        'global_dispatcher_unschedulable_pods{reason="quota"} 3.0',
        'global_dispatcher_unschedulable_pods{reason="unanswered"} 2.0',
        'scheduler_unschedulable_pods{plugin="TenantQuota",profile="global-dispatcher"} 3.0',
        'scheduler_unschedulable_pods{plugin="TaintToleration",profile="global-dispatcher"} 3.0',
        'scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 2.0',
        'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="unschedulable"} 5.0',
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} 5.0',
        'scheduler_queue_incoming_pods_total{event="READINGS",queue="active"} 6.0',
        "scheduler_preemption_attempts_total 0.0",
        'global_dispatcher_cluster_ready{cluster="east"} 0.0',
        'global_dispatcher_cluster_report_in_parts{cluster="east"} 1.0',
        'global_dispatcher_cluster_report_in_parts{cluster="west"} 0.0',
        'global_dispatcher_cluster_report_parts_total{cluster="east"} 1.0',
        'global_dispatcher_classes_kept{profile="global-dispatcher"} 3.0',
        'global_dispatcher_classes_dropped_total{profile="global-dispatcher"} 2.0',
        'global_dispatcher_class_passes_total{profile="global-dispatcher"} 5.0',
        "# TYPE process_resident_memory_bytes gauge",
        "# TYPE process_cpu_seconds_total counter",
        "# TYPE scheduler_scheduling_attempt_duration_seconds histogram",
        "# TYPE scheduler_pod_scheduling_sli_duration_seconds histogram",
    ):
        assert line in text


async def test_the_page_shows_rows_and_escapes_them(client: Client) -> None:
    text = await (await client.get("/")).text()
    assert "web-1" in text
    assert "&lt;b&gt;silent&lt;/b&gt;" in text
    assert ">west</td>" in text  # for whose pods east is cordoned
    assert "<b>" not in text


def test_the_page_leaves_out_columns_in_which_nothing_stands() -> None:
    east: dict[str, Any] = {"name": "east", "problem": None, "fenced_in": [], "silent": False}
    page = render_page([east, {**east, "name": "west"}], [], 0)
    assert ("problem" in page, "fenced in" in page, "silent" in page) == (False, False, True)
    assert "problem" in render_page([east, {**east, "problem": "late"}], [], 0)


def test_the_page_says_in_words_which_namespaces_stay_for_what_clusters_lack() -> None:
    shop = {"namespace": "shop", "absent_in": ["north"], "services": {"west": ["a", "b", "c", "<d>"]}}
    page = render_page([{"name": "east", "apart": [shop]}, {"name": "gone"}], [], 0)
    assert "<li>east / shop: north has no such namespace; west lacks Services a, b, c and 1 more</li>" in page
    assert "absent_in" not in page
    assert "Namespaces" not in render_page([{"name": "east", "apart": []}], [], 0)


async def test_telemetry_is_asked_of_all_agents_and_one_that_is_silent_holds_up_nothing_of_the_others() -> None:
    subject = service(FakeCore(), ScriptedLink("west"), LocalLink("east", FakeAgent("east")))
    async with TestClient(TestServer(make_app(OnlyOne(subject, FakeViews())))) as client:
        answer = await (await client.get("/v1/telemetry")).json()
    east, west = answer["telemetry"]
    assert (east["cluster"], east["problem"], east["sources"]) == ("east", "", [])
    assert west["problem"] == "agent of cluster west did not answer telemetry within 0 s"


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/queue?limit=-1", 400), ("/v1/queue?limit=x", 400), ("/v1/queue/default/nobody", 404)]
)
async def test_what_is_no_number_or_no_pod_of_ours_has_no_place(client: Client, path: str, status: int) -> None:
    answer = await client.get(path)
    assert answer.status == status
    assert (await answer.json())["error"]
