"""Which version of metrics.k8s.io is asked: v1, and v1beta1 where v1 is not served."""

from typing import Any, cast

import pytest

from agents.runtime.readings import MetricsApi
from agents.telemetry.source import SourceError
from shared.kube.http import Request, Response

NODE = b'{"items": [{"metadata": {"name": "n1"}, "usage": {"cpu": "1"}}]}'


class Server:
    """Answers what it serves, and notes the versions that it was asked for."""

    def __init__(self, *served: str, status: int = 200) -> None:
        self.served, self.status, self.asked = served, status, list[str]()

    async def send(self, request: Request, **_: Any) -> Response:
        group, version, plural = request.path.split("/")[2:]
        assert (group, plural) == ("metrics.k8s.io", "nodes")
        self.asked.append(version)
        return Response(self.status, NODE) if version in self.served else Response(404)


@pytest.mark.parametrize(
    ("served", "asked"),
    [
        (("v1",), ["v1", "v1"]),
        (("v1", "v1beta1"), ["v1", "v1"]),
        (("v1beta1",), ["v1", "v1beta1", "v1beta1"]),  # which one answered is remembered
    ],
    ids=["of 1.37", "both", "older"],
)
async def test_v1_is_asked_first(served: tuple[str, ...], asked: list[str]) -> None:
    server = Server(*served)
    metrics = MetricsApi(cast(Any, server))
    for _ in range(2):
        assert list(await metrics.samples()) == ["n1"]
    assert server.asked == asked


async def test_the_other_version_is_found_after_an_upgrade() -> None:
    server = Server("v1beta1")
    metrics = MetricsApi(cast(Any, server))
    await metrics.samples()
    server.served = ("v1",)
    assert list(await metrics.samples()) == ["n1"]


async def test_a_refusal_is_no_reason_to_ask_another_version() -> None:
    server = Server("v1", "v1beta1", status=403)
    with pytest.raises(SourceError, match="v1/nodes answers 403"):
        await MetricsApi(cast(Any, server)).samples()
    assert server.asked == ["v1"]
