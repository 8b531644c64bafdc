"""What metrics-server gets at the kubelet endpoint of a proxy node: the figures of the target's kubelets, or none."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from agents.executor.relayed import usage
from agents.executor.relayed.relay import Refusal, Wanted
from agents.observer.seen import NodeTarget
from agents.runtime.relay import endpoint, usage_far
from agents.runtime.relay.tokens import Tokens
from agents.runtime.relay.usage_near import ProxyMetrics, Read
from agents.telemetry.resource_metrics import read_pods
from agents.telemetry.source import SourceError
from shared.messages.usage import (
    MAX_CONTAINERS,
    ContainerUse,
    PodUsage,
    Usage,
    Use,
    decode_usage,
    encode_usage,
)
from shared.model.pod import RUNNING, SUCCEEDED, Pod, SourceRef
from tests.relay.world import CALLER, DELEGATE, HOME, SOURCE, THIRD, WAIT_S, World, ask, world

NODE = "global-dispatcher-west"
PAGE = f"/metrics/resource/{NODE}"
ACCOUNT = "system:serviceaccount:kube-system:metrics-server"
TOKEN = "Authorization: Bearer good"
AT = 1_700_000_000_123
STRANGE = '"} 7\ncontainer_cpu_usage_seconds_total{container="x",namespace="kube-system",pod="dns'
Samples = dict[tuple[str, ...], tuple[float, float | None]]


def lines(pod: str, cpu: float = 1.5, *, container: str = "main") -> str:
    """As a kubelet of 1.36 writes them."""
    labels = f'namespace="default",pod="{pod}"'
    return (
        f'container_cpu_usage_seconds_total{{container="{container}",{labels}}} {cpu} {AT}\n'
        f'container_memory_working_set_bytes{{container="{container}",{labels}}} 4.673536e+06 {AT}\n'
        f'container_start_time_seconds{{container="{container}",{labels}}} 1.69999999912e+09\n'
        f'container_swap_usage_bytes{{container="{container}",{labels}}} 0 {AT}\n'
        f"pod_cpu_usage_seconds_total{{{labels}}} {cpu + 0.25} {AT}\n"
        f"pod_memory_working_set_bytes{{{labels}}} 5e+06 {AT}\n"
    )


HEAD = f"# HELP node_cpu_usage_seconds_total [STABLE] ...\nnode_cpu_usage_seconds_total 1234.5 {AT}\n"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        made.home.api.tokens["good"] = {"username": ACCOUNT, "uid": "u1", "groups": ["system:serviceaccounts"]}
        made.home.api.allowed.add(ACCOUNT)
        made.target.view.pods.clear()
        runs(made, SOURCE, DELEGATE)
        made.target.pages["n1"] = HEAD + lines(DELEGATE) + lines("of-west-itself", 7.0)
        yield made


def runs(made: World, source: SourceRef | None, name: str, node: str = "n1", **fields: Any) -> None:
    """A pod in west."""
    pod = Pod(f"uid-of-{name}", "default", name, node=node, phase=RUNNING, source=source, **fields)
    made.target.view.pods["default", name] = pod


async def told(fleet: World, path: str = PAGE, extra: str = TOKEN, context: ssl.SSLContext | None = None) -> Any:
    reader, writer = await fleet.open(context or fleet.trust(None))
    answer = await ask(reader, writer, path, method="GET", upgrade="", extra=extra)
    found = answer.status, (await answer.rest()).decode()
    writer.close()
    return found


def samples(text: str) -> Samples:
    """By metric, pod and container."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            key = (one.name, *(one.labels[label] for label in ("pod", "container") if label in one.labels))
            assert key not in found
            found[key] = one.value, float(one.timestamp) if one.timestamp is not None else None
    return found


async def test_the_figures_are_those_of_the_delegates_kubelet_under_the_names_at_home(fleet: World) -> None:
    status, text = await told(fleet)
    assert status == 200
    at = AT / 1000
    assert samples(text) == {
        ("container_cpu_usage_seconds_total", "web", "main"): (1.5, at),
        ("container_memory_working_set_bytes", "web", "main"): (4673536.0, at),
        ("container_start_time_seconds", "web", "main"): (1699999999.12, None),
        ("pod_cpu_usage_seconds_total", "web"): (1.75, at),
        ("pod_memory_working_set_bytes", "web"): (5e6, at),
        ("resource_scrape_error",): (0.0, None),
    }
    assert fleet.target.kubelets_asked == ["n1/metrics/resource"]


async def test_all_pods_of_a_proxy_node_cost_one_question_to_the_target_and_one_a_kubelet(fleet: World) -> None:
    for number in range(20):
        name, node = f"web-{number}", f"n{1 + number % 2}"
        fleet.home.view.pods["default", name] = Pod(f"uid-{name}", "default", name, node=NODE)
        runs(fleet, SourceRef(HOME, "uid-east", "default", name, f"uid-{name}", 1), f"{name}-copy", node)
        fleet.target.pages[node] = fleet.target.pages.get(node, HEAD) + lines(f"{name}-copy")
    pages = [await told(fleet), *await asyncio.gather(*(told(fleet) for _ in range(5)))]
    pods = {key[1] for key in samples(pages[0][1]) if len(key) > 1}
    assert pods == {"web", *(f"web-{number}" for number in range(20))}
    assert sorted(fleet.target.kubelets_asked) == ["n1/metrics/resource", "n2/metrics/resource"]
    assert len({text for _, text in pages}) == 1


async def test_a_kubelet_that_is_away_takes_its_pods_alone_away(fleet: World) -> None:
    fleet.home.view.pods["default", "other"] = Pod("uid-other", "default", "other", node=NODE)
    runs(fleet, SourceRef(HOME, "uid-east", "default", "other", "uid-other", 1), "other-copy", "n2")
    found = samples((await told(fleet))[1])
    assert {key[1] for key in found if len(key) > 1} == {"web"}
    assert found[("resource_scrape_error",)] == (1.0, None)


async def test_a_kubelet_that_hangs_takes_its_pods_alone_away(fleet: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_far, "ANSWER_S", 0.2)
    hung = asyncio.Event()

    async def kubelet(target: Any, path: str) -> bytes:
        if target.name == "n2":
            await hung.wait()
        return fleet.target.pages[target.name].encode()

    asked = usage_far.DelegateUsage(fleet.target.local, {name: NodeTarget(name) for name in ("n1", "n2")}, kubelet)
    runs(fleet, SourceRef(HOME, "uid-east", "default", "other", "uid-other", 1), "other-copy", "n2")
    found = decode_usage(await asked.tell("uid-east"))
    assert [one.pod for one in found.pods] == ["uid-web"]
    assert found.problem == "1 of 2 kubelets do not answer"


async def test_a_target_that_is_away_gives_no_figures_and_no_failure_of_the_page(fleet: World) -> None:
    fleet.diallers["west"].cancel()
    await asyncio.gather(fleet.diallers["west"], return_exceptions=True)
    status, text = await told(fleet)
    assert (status, samples(text)) == (200, {("resource_scrape_error",): (1.0, None)})


async def test_a_proxy_node_without_pods_asks_nobody(fleet: World) -> None:
    fleet.home.view.pods.clear()
    status, text = await told(fleet)
    assert (status, samples(text)) == (200, {("resource_scrape_error",): (0.0, None)})
    assert not fleet.target.kubelets_asked


async def test_only_delegates_of_the_cluster_that_asks_are_told(fleet: World) -> None:
    """Another source's, one that has ended, and one that nobody has proved are not."""
    runs(fleet, SourceRef(THIRD, "uid-north", "default", "theirs", "uid-web", 1), "theirs-copy")
    runs(fleet, None, "unproved-copy")
    ended = SourceRef(HOME, "uid-east", "default", "ended", "uid-ended", 1)
    runs(fleet, ended, "ended-copy")
    delegate = fleet.target.view.pods["default", "ended-copy"]
    fleet.target.view.pods["default", "ended-copy"] = msgspec.structs.replace(delegate, phase=SUCCEEDED)
    fleet.target.pages["n1"] += "".join(lines(name) for name in ("theirs-copy", "unproved-copy", "ended-copy"))
    asked = usage_far.DelegateUsage(fleet.target.local, {"n1": NodeTarget("n1")}, fleet.target.kubelet)
    found = decode_usage(await asked.tell("uid-east"))
    assert [one.pod for one in found.pods] == ["uid-web"]


async def test_a_target_says_nothing_of_pods_that_are_not_its_own_and_no_line_of_its_own_making(fleet: World) -> None:
    fleet.home.view.pods["default", "at-home"] = Pod("uid-at-home", "default", "at-home", node="n1")
    fleet.home.view.pods["default", "north"] = Pod("uid-north", "default", "north", node="global-dispatcher-north")
    use = Use(1.0, AT, 5.0, AT)
    lies = (
        PodUsage("uid-at-home", use, (ContainerUse("main", use),)),
        PodUsage("uid-north", use, (ContainerUse("main", use),)),
        PodUsage(
            "uid-web",
            Use(float("inf"), AT, float("inf"), AT),
            (ContainerUse(STRANGE, use), ContainerUse("main", use), ContainerUse("main", use)),
        ),
    )
    text = usage.page(decode_usage(encode_usage(Usage(lies))), usage.pods_there(NODE, fleet.home.local))
    assert set(samples(text)) == {
        ("container_cpu_usage_seconds_total", "web", "main"),
        ("container_memory_working_set_bytes", "web", "main"),
        ("resource_scrape_error",),
    }


@pytest.mark.parametrize(("policy", "error"), [("all", 0.0), ("logs", 0.0), ("none", 1.0)])
async def test_the_target_says_whether_usage_may_be_read(fleet: World, policy: str, error: float) -> None:
    fleet.target.allow(policy)
    found = samples((await told(fleet))[1])
    assert found[("resource_scrape_error",)] == (error, None)
    assert (len(found) > 1) == (error == 0.0)


async def test_a_cluster_gets_none_of_anothers_usage(fleet: World) -> None:
    """North's agent signs that it were east, with a gateway that lets it."""
    fleet.home.local.keys = fleet.members[THIRD].local.keys
    assert set(samples((await told(fleet))[1])) == {("resource_scrape_error",)}
    assert not fleet.target.kubelets_asked


@pytest.mark.parametrize(
    "extra", ["", "Authorization: Bearer other", "Authorization: Basic Z29vZDo=", "Authorization: x"]
)
async def test_who_shows_no_token_of_this_cluster_gets_401(fleet: World, extra: str) -> None:
    assert (await told(fleet, extra=extra))[0] == 401
    assert not fleet.target.kubelets_asked


async def test_who_may_not_get_nodes_metrics_gets_403_and_is_asked_about_as_kubelets_ask(fleet: World) -> None:
    fleet.home.api.allowed.discard(ACCOUNT)
    status, text = await told(fleet)
    assert (status, text) == (403, f'user "{ACCOUNT}" may not get nodes/metrics of node "{NODE}"')
    about = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics"}
    assert [one["resourceAttributes"] for one in fleet.home.api.reviews] == [
        {**about, "name": ""},
        {**about, "name": NODE},
    ]
    assert {(one["user"], one["uid"], tuple(one["groups"])) for one in fleet.home.api.reviews} == {
        (ACCOUNT, "u1", ("system:serviceaccounts",))
    }


async def test_one_token_review_and_one_of_its_rights_serve_all_proxy_nodes(fleet: World) -> None:
    for name in ("west", "north", "west"):
        assert (await told(fleet, f"/metrics/resource/global-dispatcher-{name}"))[0] == 200
    assert (fleet.home.api.token_reviews, len(fleet.home.api.reviews)) == (1, 1)
    fleet.now += 10.1
    assert (await told(fleet, "/metrics/resource/global-dispatcher-west"))[0] == 200
    assert (fleet.home.api.token_reviews, len(fleet.home.api.reviews)) == (2, 2)


async def test_a_client_certificate_does_as_well_as_a_token(fleet: World) -> None:
    fleet.home.api.allowed.add("prometheus")
    assert (await told(fleet, extra="", context=fleet.trust("prometheus")))[0] == 200
    fleet.home.api.allowed.discard(CALLER)
    assert (await told(fleet, extra="", context=fleet.trust(CALLER)))[0] == 403


@pytest.mark.parametrize(
    "path", ["/metrics/resource", "/metrics/resource/n1", "/metrics/resource/n1/more", "/metrics/resource/"]
)
async def test_each_proxy_node_has_its_own_page_and_no_other_node_has_one(fleet: World, path: str) -> None:
    status, text = await told(fleet, path)
    assert (status, "metrics.k8s.io/resource-metrics-path" in text) == (404, True)


async def test_more_scrapes_at_once_than_strangers_may_connect_are_served(
    fleet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its token is known, a connection takes no stranger's place, however long its answer takes."""
    monkeypatch.setattr(endpoint, "MAX_STRANGERS", 2)
    slow, waiting = asyncio.Event(), asyncio.Event()

    async def kubelet(target: Any, path: str) -> bytes:
        waiting.set()
        await slow.wait()
        return b""

    fleet.target.kubelet = kubelet  # type: ignore[method-assign]
    assert (await told(fleet, "/metrics/resource"))[0] == 404  # the token is known from here on
    scrapes = []
    for _ in range(6):
        scrapes.append(asyncio.create_task(told(fleet)))
        await asyncio.sleep(0.05)
    slow.set()
    assert [status for status, _ in await asyncio.gather(*scrapes)] == [200] * 6


@pytest.mark.parametrize("use", [Use(float("nan"), AT), Use(-1.0, AT), Use(1.0, -1), Use(1.0, 2**60)])
def test_numbers_that_can_be_none_are_refused(use: Use) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_usage(encode_usage(Usage((PodUsage("uid-web", use),))))


def test_a_container_without_a_number_is_told_without_it() -> None:
    page = b'container_memory_working_set_bytes{container="c",namespace="n",pod="p"} 5 1700000000000\n'
    assert read_pods(page, lambda namespace, name: True) == {
        ("n", "p"): (Use(), (ContainerUse("c", Use(None, 0, 5.0, 1_700_000_000_000)),))
    }


def test_a_page_of_odd_lines_is_read_in_time_that_grows_with_its_length() -> None:
    long = b"container_cpu_usage_seconds_total{" + b"a" * 30_000 + b"} 1\n"
    many = (b"container_cpu_usage_seconds_total{" + b"a" * 1900 + b',namespace="n",pod="p"} 1\n') * 200
    begun = time.process_time()
    read_pods(long + many, lambda namespace, name: True)
    assert time.process_time() - begun < 1.0


def delegates_on(fleet: World, nodes: list[str]) -> None:
    """One delegate of east on each of these nodes of west, and nothing else there."""
    fleet.target.view.pods.clear()
    for node in nodes:
        runs(fleet, SourceRef(HOME, "uid-east", "default", node, f"uid-{node}", 1), f"{node}-copy", node)


async def test_kubelets_that_hang_hide_no_others_and_are_left_alone_for_a_while(
    fleet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_far, "ANSWER_S", 20.0)
    monkeypatch.setattr(usage_far, "KUBELET_S", 0.2)
    hung = [f"hung-{number}" for number in range(usage_far.AT_ONCE)]
    nodes, asked_of = [*hung, "well"], []  # the view tells nodes in the order of their names

    async def kubelet(target: Any, path: str) -> bytes:
        asked_of.append(target.name)
        if target.name != "well":
            await asyncio.Event().wait()
        return lines("well-copy").encode()

    delegates_on(fleet, nodes)
    asked = usage_far.DelegateUsage(fleet.target.local, {name: NodeTarget(name) for name in nodes}, kubelet)
    for _ in range(2):
        assert [one.pod for one in decode_usage(await asked.tell("uid-east")).pods] == ["uid-well"]
    assert sorted(asked_of) == sorted(nodes)


@pytest.mark.parametrize(
    "odd",
    [
        'container_start_time_seconds{{container="main",{0}}} -6.795364578871345e+09\n',
        "pod_cpu_usage_seconds_total{{{0}}} 1e999\n",
        'container_cpu_usage_seconds_total{{container="' + "x" * 600 + '",{0}}} 1\n',
        "".join(f'container_cpu_usage_seconds_total{{{{container="c{n}",{{0}}}}}} 1\n' for n in range(1001)),
    ],
    ids=["a number below 0", "a number without end", "a name too long", "too many containers"],
)
async def test_what_no_answer_may_hold_is_left_out_of_it_and_takes_no_others_away(fleet: World, odd: str) -> None:
    fleet.home.view.pods["default", "other"] = Pod("uid-other", "default", "other", node=NODE)
    runs(fleet, SourceRef(HOME, "uid-east", "default", "other", "uid-other", 1), "other-copy")
    fleet.target.pages["n1"] += odd.format('namespace="default",pod="other-copy"')
    found = samples((await told(fleet))[1])
    assert found["pod_cpu_usage_seconds_total", "web"] == (1.75, AT / 1000)
    assert ("pod_cpu_usage_seconds_total", "other") not in found
    assert len(found) <= 6 + MAX_CONTAINERS


def metrics_at_home(fleet: World, read: Read) -> ProxyMetrics:
    """What serves the pages in east, where `read` reads other clusters' answers."""

    async def may(*_: Any) -> bool:
        return True

    return ProxyMetrics(fleet.home.local, read, may, cast(Tokens, None), lambda: "")


@pytest.mark.parametrize("pods", [1, 100])
async def test_an_answer_may_be_as_long_as_the_pods_there_need_and_no_longer(fleet: World, pods: int) -> None:
    may_be = []

    async def read(wanted: Wanted, pod: Pod, cluster: str, most: int) -> bytes:
        may_be.append(most)
        return encode_usage(Usage())

    there = [Pod(f"uid-{number}", "default", f"web-{number}", node=NODE) for number in range(pods)]
    await metrics_at_home(fleet, read)._usage("west", there)
    use = Use(123456.789012, AT, 123456789012.0, AT)
    containers = tuple(ContainerUse(f"container-of-usual-length-{number}", use, 1.7e9) for number in range(10))
    honest = tuple(PodUsage(f"{number:036}", use, containers) for number in range(pods))
    assert len(encode_usage(Usage(honest))) <= may_be[0] <= 64 * 1024 + pods * 4096


@pytest.mark.parametrize(
    ("gone", "pods", "told", "asked"), [(1, 2, True, 2), (1, 1, False, 1), (3, 9, True, 4), (4, 9, False, 4)]
)
async def test_a_pod_whose_delegate_is_gone_hides_no_others(
    fleet: World, gone: int, pods: int, told: bool, asked: int
) -> None:
    tried = []

    async def read(wanted: Wanted, pod: Pod, cluster: str, most: int) -> bytes:
        tried.append(pod.name)
        if len(tried) <= gone:
            raise Refusal(404, "it has no delegate here")
        return encode_usage(Usage())

    there = [Pod(f"uid-{number}", "default", f"web-{number}", node=NODE) for number in range(pods)]
    found = await metrics_at_home(fleet, read)._usage("west", there)
    assert (found.problem == "", tried) == (told, [f"web-{number}" for number in range(asked)])


def test_a_question_rests_on_a_pod_that_stays(fleet: World) -> None:
    for name, created, terminating in (("old", 1.0, True), ("new", 3.0, False), ("middle", 2.0, False)):
        pod = Pod(name, "default", name, node=NODE, phase=RUNNING, created=created, terminating=terminating)
        fleet.home.view.pods["default", name] = pod
    del fleet.home.view.pods["default", "web"]
    assert [pod.name for pod in usage.pods_there(NODE, fleet.home.local)] == ["middle", "new", "old"]


async def test_strangers_that_only_connect_keep_no_metrics_server_out(fleet: World) -> None:
    held = [await fleet.open(fleet.trust(None)) for _ in range(endpoint.MAX_STRANGERS + 4)]
    assert (await told(fleet))[0] == 200
    assert await asyncio.wait_for(held[0][0].read(), WAIT_S) == b"", "the oldest is ended"
    for _, writer in held:
        writer.close()


async def test_why_a_kubelet_does_not_answer_stays_at_the_target_which_says_it_once(fleet: World) -> None:
    async def kubelet(target: Any, path: str) -> bytes:
        raise SourceError("https://192.168.7.8:10250: connection refused")

    asked = usage_far.DelegateUsage(fleet.target.local, {"n1": NodeTarget("n1")}, kubelet)
    with capture_logs() as said:
        for _ in range(3):
            assert decode_usage(await asked.tell("uid-east")).problem == "1 of 1 kubelets do not answer"
    assert [line["why"] for line in said] == [["https://192.168.7.8:10250: connection refused"]]
