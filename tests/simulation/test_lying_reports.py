"""A captured observer, or whoever carries its reports, lies about what it sees: no pod runs twice by it, and none ends.

The dispatcher's core is honest, the executors are the product's own, and each looks for itself.
"""

from collections.abc import Callable

import msgspec
import pytest

from dispatcher.model import names
from dispatcher.model.messages import Changes
from dispatcher.scheduling import events
from tests.simulation.fleet import GRACE_S
from tests.simulation.test_other_hands import Calm, deleted, patch, source

LIED_S = 60  # longer than all that the core waits for here but the second question about orphans


class Lying(Calm):
    """The observer of cluster `liar` says that the pod `uid` was deleted, and shows it no more."""

    liar, uid = "", ""

    def _feed(self, event: events.Event) -> None:
        if isinstance(event, events.ClusterChanged) and event.changes.cluster == self.liar:
            event = events.ClusterChanged(self._without(event.changes), event.executor)
        super()._feed(event)

    def _without(self, told: Changes) -> Changes:
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
    fleet.liar = ""
    fleet.core.clusters[liar].incarnation = ""  # the next report is whole, and true
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
