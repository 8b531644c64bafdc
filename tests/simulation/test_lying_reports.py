"""A captured observer, or whoever carries its reports, lies about what it sees: no pod runs twice by it, and none ends.

The dispatcher's core is honest, the executors are the product's own, and each looks for itself.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling import events
from shared.kube.http import STRATEGIC_PATCH, Request
from shared.messages import Changes
from shared.model import names
from shared.model.pod import Pod
from tests.agents.executor.world import pod_path
from tests.simulation.fleet import GRACE_S
from tests.simulation.test_other_hands import Calm, deleted, patch, source

ORPHANED_S = 750  # until what has no source is deleted
LIED_S = 60  # longer than all that the core waits for here but the second question about orphans


class Lying(Calm):
    """The observer of cluster `liar` says that pod `uid` was deleted and shows it no more, or shows it `as_told`."""

    liar, uid = "", ""
    as_told: Pod | None = None

    def _feed(self, event: events.Event) -> None:
        if isinstance(event, events.ClusterChanged) and event.changes.cluster == self.liar:
            event = events.ClusterChanged(self._without(event.changes), event.executor)
        super()._feed(event)

    def tell_the_truth(self) -> None:
        """The next report is whole, and true."""
        self.core.clusters[self.liar].incarnation, self.liar = "", ""

    def _without(self, told: Changes) -> Changes:
        if self.as_told is not None:
            others = tuple(pod for pod in told.pods if pod.uid != self.uid)
            gone = tuple(uid for uid in told.pods_gone if uid != self.uid)
            return msgspec.structs.replace(told, pods=(*others, self.as_told), pods_gone=gone)
        gone = told.pods_gone if told.full else (*told.pods_gone, self.uid)
        return msgspec.structs.replace(
            told, pods=tuple(pod for pod in told.pods if pod.uid != self.uid), pods_gone=gone
        )


async def remote() -> Lying:
    fleet = Lying()
    await fleet.remote()
    return fleet


def copy_of(fleet: Calm) -> str:
    (copy,) = fleet.clusters["west"].delegates()
    return str(copy["metadata"]["uid"])


async def stop(fleet: Calm) -> None:
    for cluster in fleet.clusters.values():
        await cluster.executor.stop()


@pytest.mark.parametrize("liar", ["north", "west"], ids=["of its source's cluster", "of the cluster in which it runs"])
async def test_a_pod_that_an_observer_says_is_gone_runs_on_once_while_it_lies_and_after(liar: str) -> None:
    fleet = await remote()
    fleet.liar, fleet.uid = liar, copy_of(fleet) if liar == "west" else source(fleet)["metadata"]["uid"]
    await fleet.run(LIED_S)
    assert not [*deleted(fleet.clusters["north"]), *deleted(fleet.clusters["west"])]
    assert names.FINALIZER in source(fleet)["metadata"]["finalizers"]
    fleet.tell_the_truth()
    await fleet.run(5)
    assert source(fleet)["status"]["phase"] == "Running"
    fleet.clusters["north"].delete(source(fleet))
    await fleet.until(lambda: not fleet.clusters["west"].delegates() and not fleet.clusters["north"].api.pod("web"))
    await stop(fleet)


async def test_a_deletion_that_is_said_early_counts_once_it_is_true() -> None:
    fleet = await remote()
    fleet.liar, fleet.uid = "west", copy_of(fleet)
    await fleet.run(5)
    assert not deleted(fleet.clusters["north"])
    west = fleet.clusters["west"]
    west.delete(west.delegates()[0])
    await fleet.until(lambda: fleet.clusters["north"].api.pod("web") is None, most=30)
    await stop(fleet)


ENDS: dict[str, dict[str, Any]] = {
    "it has succeeded": {"phase": "Succeeded", "status": msgspec.json.encode({"phase": "Succeeded"})},
    "it has failed": {"phase": "Failed", "status": msgspec.json.encode({"phase": "Failed"})},
    "it has succeeded, in its status alone": {"status": msgspec.json.encode({"phase": "Succeeded"})},
    "it has failed, by another field beside": {"status": b'{"phase":"Running","phase":"Failed"}'},
    "it is being deleted": {"terminating": True},
}


@pytest.mark.parametrize("lie", ENDS)
async def test_a_pod_that_an_observer_says_is_at_its_end_is_not_replaced_while_it_runs(lie: str) -> None:
    fleet = await remote()
    fleet.liar, fleet.uid = "west", copy_of(fleet)
    fleet.as_told = msgspec.structs.replace(fleet.core.clusters["west"].pods[fleet.uid], **ENDS[lie])
    await fleet.run(LIED_S)
    assert source(fleet)["status"]["phase"] == "Running"
    assert not source(fleet)["metadata"].get("deletionTimestamp")
    assert len(fleet.clusters["west"].delegates()) == 1
    fleet.tell_the_truth()
    fleet.clusters["north"].delete(source(fleet))
    await fleet.until(lambda: not fleet.clusters["west"].delegates() and not fleet.clusters["north"].api.pod("web"))
    await stop(fleet)


def fails(fleet: Calm) -> None:
    _comes_to(fleet, "Failed")


def succeeds(fleet: Calm) -> None:
    _comes_to(fleet, "Succeeded")


def is_being_deleted(fleet: Calm) -> None:
    west = fleet.clusters["west"]
    (copy,) = west.delegates()
    patch(west, copy["metadata"]["name"], {"finalizers": ["example.com/hold"]})
    west.delete(copy)


def is_gone(fleet: Calm) -> None:
    west = fleet.clusters["west"]
    west.delete(west.delegates()[0])


def _comes_to(fleet: Calm, phase: str) -> None:
    (copy,) = fleet.clusters["west"].delegates()
    path = pod_path(copy["metadata"]["name"]) + "/status"
    body = msgspec.json.encode({"status": {"phase": phase}})
    assert fleet.clusters["west"].api.answer(Request("PATCH", path, body, STRATEGIC_PATCH)).ok


SHOWN_AT_LAST: dict[Callable[[Calm], None], tuple[str, bool]] = {  # phase, and whether it is being deleted
    fails: ("Failed", False),
    succeeds: ("Succeeded", False),
    is_being_deleted: ("Running", True),
}
SUCCEEDED, FAILED, DELETED = "it has succeeded", "it has failed", "it is being deleted"
OTHER_ENDS = [
    (fails, SUCCEEDED),
    (fails, "it has succeeded, in its status alone"),
    (fails, DELETED),
    (succeeds, FAILED),
    (succeeds, DELETED),
    (is_being_deleted, SUCCEEDED),
    (is_being_deleted, FAILED),
    (is_gone, SUCCEEDED),
    (is_gone, FAILED),
    (is_gone, DELETED),
]


@pytest.mark.parametrize(("end", "lie"), OTHER_ENDS)
async def test_a_pod_that_comes_to_one_end_is_not_shown_at_another_that_an_observer_tells(
    end: Callable[[Calm], None], lie: str
) -> None:
    fleet = await remote()
    fleet.liar, fleet.uid = "west", copy_of(fleet)
    fleet.as_told = msgspec.structs.replace(fleet.core.clusters["west"].pods[fleet.uid], **ENDS[lie])
    end(fleet)
    await fleet.run(LIED_S)
    assert source(fleet)["status"]["phase"] == "Running"
    assert not source(fleet)["metadata"].get("deletionTimestamp")
    fleet.tell_the_truth()
    await fleet.run(LIED_S)
    shown = fleet.clusters["north"].api.pod("web")
    now = shown and (shown["status"]["phase"], bool(shown["metadata"].get("deletionTimestamp")))
    assert now == SHOWN_AT_LAST.get(end)
    await stop(fleet)


def _local(fleet: Calm) -> str:
    return str(source(fleet, "local")["metadata"]["uid"])


def _remote(fleet: Calm) -> str:
    return str(source(fleet, "other")["metadata"]["uid"])


LABELS: dict[str, Callable[[Calm], str]] = {
    "a pod of its home that runs there": _local,
    "another pod that runs in its cluster": _remote,
    "a pod that was made up": lambda _: "made-up",
}


@pytest.mark.parametrize("whose", LABELS)
@pytest.mark.parametrize("claim", ["its own claim", "the claim of the other"])
async def test_a_delegate_that_an_observer_says_is_of_another_source_goes_on_and_its_own_source_too(
    whose: str, claim: str
) -> None:
    fleet = await remote()
    fleet.liar, fleet.uid = "west", copy_of(fleet)
    copy = fleet.core.clusters["west"].pods[fleet.uid]
    await fleet.remote("other")
    fleet.submit("local", clusters="north")
    await fleet.until(lambda: source(fleet, "local")["status"].get("phase") == "Running")
    (other,) = [one for one in fleet.core.clusters["west"].pods.values() if one.source and one.uid != fleet.uid]
    told = copy if claim == "its own claim" else other
    assert told.source is not None
    of_another = msgspec.structs.replace(told.source, uid=LABELS[whose](fleet))
    fleet.as_told = msgspec.structs.replace(copy, source=of_another, annotations=told.annotations)
    fleet.warnings = []
    await fleet.run(5)
    fleet.clusters["north"].delete(source(fleet, "other"))  # it may not take the other's delegate along
    await fleet.run(ORPHANED_S if whose == "a pod that was made up" else LIED_S)
    assert source(fleet)["status"]["phase"] == "Running"
    assert not source(fleet)["metadata"].get("deletionTimestamp")
    uid = fleet.uid
    fleet.tell_the_truth()
    await fleet.until(lambda: not fleet.clusters["north"].api.pod("other"))  # which its delegate's end has let go
    (runs,) = fleet.clusters["west"].delegates()
    assert (runs["metadata"]["uid"], runs["metadata"].get("deletionTimestamp")) == (uid, None)
    assert source(fleet)["status"]["phase"] == "Running"
    await stop(fleet)


async def test_a_pod_that_has_ended_shows_it_in_seconds() -> None:
    fleet = await remote()
    succeeds(fleet)
    await fleet.until(lambda: source(fleet)["status"]["phase"] == "Succeeded", most=3)
    await stop(fleet)


def end_of_source(fleet: Calm) -> None:
    fleet.clusters["north"].delete(source(fleet))


def drain(fleet: Calm) -> None:
    west = fleet.clusters["west"]
    west.delete(west.delegates()[0])


def end_by_force(fleet: Calm) -> None:
    patch(fleet.clusters["north"], "web", {"finalizers": []})
    end_of_source(fleet)


@pytest.mark.parametrize(("end", "within_s"), [(end_of_source, 4), (drain, 8), (end_by_force, 4)])
async def test_a_pod_that_was_deleted_is_gone_on_both_sides_in_seconds(
    end: Callable[[Calm], None], within_s: int
) -> None:
    fleet = await remote()
    end(fleet)
    await fleet.until(
        lambda: fleet.clusters["north"].api.pod("web") is None and not fleet.clusters["west"].delegates(), most=within_s
    )
    await stop(fleet)


async def test_nothing_is_asked_about_a_deleted_pod_that_nobody_runs_elsewhere() -> None:
    fleet = Calm()
    fleet.submit(clusters="")
    await fleet.until(lambda: source(fleet)["status"].get("phase") == "Running")
    answers = dict(fleet.heard)
    fleet.clusters["north"].delete(source(fleet))
    await fleet.run(int(GRACE_S) + 5)
    assert fleet.heard == answers
    await stop(fleet)
