"""What kubelets and metrics.k8s.io say, and what is made of it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from agents.observer.loads import Measure
from agents.observer.seen import NodeTarget
from agents.telemetry.kubelet import Kubelets, read_summary, seconds, summary_url
from agents.telemetry.metrics_api import read_metrics
from agents.telemetry.source import SourceError
from tests.agents.kube.objects import raw

SUMMARY = {
    "node": {
        "nodeName": "n1",
        "cpu": {"time": "2026-01-01T00:00:10Z", "usageNanoCores": 1_500_000_000, "usageCoreNanoSeconds": 9e12},
        "memory": {"time": "2026-01-01T00:00:11Z", "workingSetBytes": 2**30, "usageBytes": 2**33},
        "network": {
            "time": "2026-01-01T00:00:12Z",
            "name": "eth0",
            "rxBytes": 1,
            "interfaces": [
                {"name": "eth0", "rxBytes": 100, "txBytes": 10},
                {"name": "eth1", "rxBytes": 200, "txBytes": 20},
                *({"name": name, "rxBytes": 10**9, "txBytes": 10**9} for name in ("lo", "veth1", "cali9", "cni0")),
            ],
        },
    },
    "pods": [{"podRef": {"name": "p"}}],
}


def test_a_summary_adds_up_the_nodes_own_interfaces() -> None:
    sample = read_summary(raw(SUMMARY))
    start = seconds("2026-01-01T00:00:10Z")
    assert sample.measures == {
        "cpu": Measure(1.5, start),
        "memory": Measure(2**30, start + 1),
        "network_receive": Measure(300, start + 2, counter=True, parts=("eth0", "eth1")),
        "network_transmit": Measure(30, start + 2, counter=True, parts=("eth0", "eth1")),
    }


def test_cpu_is_a_counter_where_a_summary_does_not_tell_cores() -> None:
    sample = read_summary(raw({"node": {"cpu": {"usageCoreNanoSeconds": 9e12}}}))
    assert sample.measures["cpu"] == Measure(9000.0, counter=True)


def test_a_summary_tells_disk_space_and_pressure_as_shares_where_the_kubelet_does() -> None:
    node = {
        "cpu": {"psi": {"some": {"avg10": 12.5}, "full": {"avg10": 0}}},
        "memory": {"psi": {}},
        "io": {"psi": {"some": {"avg10": 50}}},
        "fs": {"capacityBytes": 1000, "usedBytes": 250},
    }
    measures = read_summary(raw({"node": node})).measures
    shares = {name: measures[name].value for name in measures if name.startswith(("disk", "pressure"))}
    assert shares == {"pressure_cpu": 0.125, "pressure_io": 0.5, "disk": 0.25}


def test_a_summary_without_a_list_of_interfaces_has_the_default_one() -> None:
    network = {"time": "2026-01-01T00:00:12Z", "name": "eth0", "rxBytes": 5, "txBytes": 6}
    sample = read_summary(raw({"node": {"network": network}}))
    assert [sample.measures[name].value for name in ("network_receive", "network_transmit", "cpu")] == [5, 6, None]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"node": 7}',
        b'{"node": {"cpu": {"usageNanoCores": 1e999}}}',
        b'{"node": ' + b"[" * 9999,
    ],
)
def test_a_body_that_is_no_summary_is_a_source_error(body: bytes) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_summary(body)


def test_metrics_are_read_by_node_and_one_bad_quantity_costs_itself() -> None:
    samples = read_metrics(
        raw(
            {
                "items": [
                    {"metadata": {"name": "n1"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "250m"}},
                    {"metadata": {"name": "n2"}, "usage": {"cpu": "1e999999", "memory": "1Gi"}},
                    {"metadata": {"name": "n3"}, "usage": {"cpu": "12345678n", "memory": "1Ki"}},
                ]
            }
        )
    )
    assert samples["n1"].measures["cpu"].value == 0.25
    assert [samples["n2"].measures[name].value for name in ("cpu", "memory")] == [None, 2**30]
    assert samples["n3"].measures["cpu"].value == pytest.approx(0.012345678)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.1.2.3", "https://10.1.2.3:10250/stats/summary?only_cpu_and_memory=false"),
        ("fd00::1", "https://[fd00::1]:10250/stats/summary?only_cpu_and_memory=false"),
    ],
)
def test_a_kubelet_is_asked_at_the_nodes_own_address(address: str, url: str) -> None:
    assert summary_url(NodeTarget("n1", address)) == url


@pytest.mark.parametrize("address", ["", "evil.example", "1.2.3.4/../x"])
def test_a_node_without_a_plain_address_is_not_asked(address: str) -> None:
    with pytest.raises(SourceError, match="no InternalIP"):
        summary_url(NodeTarget("n1", address))


@asynccontextmanager
async def kubelet(authority: trustme.CA, seen: list[str], status: int = 200) -> AsyncIterator[NodeTarget]:
    """A kubelet on loopback with a certificate of `authority`; `seen` collects the tokens it is given."""

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(body=raw(SUMMARY), status=status)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    app = web.Application()
    app.router.add_get("/stats/summary", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield NodeTarget("n1", "127.0.0.1", runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def headers() -> dict[str, str]:
    """Our token."""
    return {"Authorization": "Bearer secret"}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client context that trusts one authority."""
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    return tls


async def test_a_kubelet_is_asked_with_the_token() -> None:
    authority, seen = trustme.CA(), list[str]()
    kubelets = Kubelets(trusting(authority), headers, timeout_s=5.0)
    async with kubelet(authority, seen) as target:
        sample = await kubelets.sample(target)
    await kubelets.close()
    assert (sample.measures["cpu"].value, seen) == (1.5, ["Bearer secret"])


async def test_a_kubelet_of_another_authority_never_sees_the_token() -> None:
    seen: list[str] = []
    kubelets = Kubelets(trusting(trustme.CA()), headers, timeout_s=5.0)
    async with kubelet(trustme.CA(), seen) as target:
        with pytest.raises(SourceError, match="kubelet of n1"):
            await kubelets.sample(target)
    await kubelets.close()
    assert seen == []


async def test_a_kubelet_that_says_no_is_a_source_error() -> None:
    authority = trustme.CA()
    kubelets = Kubelets(trusting(authority), headers, timeout_s=5.0)
    async with kubelet(authority, [], status=403) as target:
        with pytest.raises(SourceError, match=r"^kubelet of n1 answers 403: [^b'\"]"):
            await kubelets.sample(target)
    await kubelets.close()
