"""A delegate that loses its marks is not taken for gone, nor is its API server asked about it without an end."""

import asyncio
from collections import Counter

import msgspec
import pytest

from shared.kube.http import MERGE_PATCH, Request
from shared.messages import AnyIntent
from shared.model import names
from tests.agents.executor.world import pod_object, pod_path
from tests.simulation.fleet import Fleet

WATCHED_S = 60


class Counting(Fleet):
    """A calm fleet that counts what is ordered."""

    def __init__(self) -> None:
        super().__init__(1)
        self.trouble, self.ordered = False, Counter[str]()

    def _send(self, name: str, intents: tuple[AnyIntent, ...]) -> None:
        self.ordered.update(type(intent).__name__ for intent in intents)
        super()._send(name, intents)


STRIPS = {
    "the proof": {"annotations": {names.DELEGATE_PROOF: None}},
    "the label": {"labels": {names.DELEGATE_LABEL: None}},
}


async def _strip(what: str, *, ended: bool = False) -> Counter[str]:
    fleet = Counting()
    north, west = fleet.clusters["north"], fleet.clusters["west"]
    pod = pod_object("web")
    pod["metadata"]["annotations"] = {names.CLUSTERS: "west"}
    north.api.put_pod(pod)
    for _ in range(30):
        await fleet.step()
    (delegate,) = west.delegates()
    path = pod_path(delegate["metadata"]["name"])
    if ended:  # before a watch shows either
        phase = msgspec.json.encode({"status": {"phase": "Succeeded"}})
        west.api.answer(Request("PATCH", f"{path}/status", phase, MERGE_PATCH))
    west.api.answer(Request("PATCH", path, msgspec.json.encode({"metadata": STRIPS[what]}), MERGE_PATCH))
    fleet.ordered.clear()
    for _ in range(WATCHED_S):
        await fleet.step()
    left = west.api.pod(delegate["metadata"]["name"])
    assert left is not None
    assert left["metadata"]["uid"] == delegate["metadata"]["uid"]
    source = north.api.pod("web")
    assert source is not None, "its source was let go"
    assert names.FINALIZER in source["metadata"]["finalizers"]
    for cluster in fleet.clusters.values():
        await cluster.executor.stop()
    return fleet.ordered


def test_a_delegate_without_its_proof_is_asked_for_now_and_then() -> None:
    ordered = asyncio.run(_strip("the proof"))
    assert 1 <= ordered["ConfirmNoDelegate"] <= WATCHED_S // 5


@pytest.mark.parametrize("what", STRIPS)
def test_a_delegate_that_has_ended_and_lost_its_marks_was_not_deleted(what: str) -> None:
    ordered = asyncio.run(_strip(what, ended=True))
    assert ordered["ConfirmNoDelegate"] >= 1
    assert not ordered["FinishSource"]
