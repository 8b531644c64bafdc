"""A delegate whose owner takes the proof off it runs on, and its API server is not asked about it without an end."""

import asyncio
from collections import Counter

import msgspec

from agents.executor.http import MERGE_PATCH, Request
from dispatcher.model import names
from dispatcher.model.messages import AnyIntent
from tests.agents.executor_world import pod_object, pod_path
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


async def _strip() -> Counter[str]:
    fleet = Counting()
    north, west = fleet.clusters["north"], fleet.clusters["west"]
    pod = pod_object("web")
    pod["metadata"]["annotations"] = {names.CLUSTERS: "west"}
    north.api.put_pod(pod)
    for _ in range(30):
        await fleet.step()
    (delegate,) = west.delegates()
    patch = msgspec.json.encode({"metadata": {"annotations": {names.DELEGATE_PROOF: None}}})
    west.api.answer(Request("PATCH", pod_path(delegate["metadata"]["name"]), patch, MERGE_PATCH))
    fleet.ordered.clear()
    for _ in range(WATCHED_S):
        await fleet.step()
    assert [pod["metadata"]["uid"] for pod in west.delegates()] == [delegate["metadata"]["uid"]]
    for cluster in fleet.clusters.values():
        await cluster.executor.stop()
    return fleet.ordered


def test_a_delegate_without_its_proof_is_asked_for_now_and_then() -> None:
    ordered = asyncio.run(_strip())
    assert 1 <= ordered["ConfirmNoDelegate"] <= WATCHED_S // 5
