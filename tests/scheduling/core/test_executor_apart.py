"""Observer and executor of a cluster as two processes: what goes on when the core hears of one of them alone."""

from itertools import product
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.protocol import ObservedState, Step, next_step
from dispatcher.scheduling.delegation.tracking import ClusterReachability
from dispatcher.scheduling.events import (
    ClusterChanged,
    ClusterSilent,
    Event,
    PeersAcknowledged,
    PeersRefused,
    SendPeers,
    Tick,
)
from shared.messages import Bind, Changes, Claim
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import NODE, intents, pod
from tests.scheduling.delegation.test_protocol import (
    CLAIMED,
    DELEGATE,
    DONE,
    DYING,
    ENDED,
    ENDING,
    PENDING,
    REMOTE,
    seen,
)

BLIND_EAST: dict[str, Any] = {"reachable": frozenset(("west",)), "executor_only": frozenset(("east",))}


@pytest.mark.parametrize(
    ("situation", "want"),
    [
        pytest.param(seen(REMOTE, DELEGATE, **BLIND_EAST), Step.MIRROR, id="news of a copy is written"),
        pytest.param(seen(REMOTE, DONE, **BLIND_EAST), Step.CONFIRM_END, id="whether it has ended is asked"),
        pytest.param(seen(REMOTE, DONE, **ENDED, **BLIND_EAST), Step.MIRROR, id="and its end is written, too"),
        pytest.param(seen(REMOTE, DELEGATE, mirrored=b"{}", **BLIND_EAST), Step.NOTHING, id="once"),
        pytest.param(seen(REMOTE, DYING, **BLIND_EAST), Step.NOTHING, id="nothing is deleted for a copy that goes"),
        pytest.param(seen(REMOTE, **BLIND_EAST), Step.NOTHING, id="nothing follows from a copy that is missing"),
        pytest.param(seen(ENDING, DELEGATE, mirrored=b"{}", **BLIND_EAST), Step.NOTHING, id="nor from a deletion"),
        pytest.param(seen(CLAIMED, DELEGATE, **BLIND_EAST), Step.NOTHING, id="nothing is bound"),
        pytest.param(seen(PENDING, **BLIND_EAST), Step.NOTHING, id="nothing is placed"),
        pytest.param(
            seen(REMOTE, DELEGATE, executor_only=frozenset(("east",)), reachable=frozenset()),
            Step.NOTHING,
            id="what was last heard of a target that is away is no news",
        ),
    ],
)
def test_where_the_observer_is_away_statuses_go_on_and_nothing_else_does(situation: ObservedState, want: Step) -> None:
    assert next_step(situation).step is want


@pytest.mark.parametrize("situation", [seen(PENDING), seen(REMOTE, DELEGATE), seen(CLAIMED, decided=True)])
def test_where_the_executor_of_its_cluster_is_away_nothing_is_asked_for_a_pod(situation: ObservedState) -> None:
    assert next_step(msgspec.structs.replace(situation, observer_only=frozenset(("east",)))).step is Step.NOTHING
    assert next_step(situation).step is not Step.NOTHING


@pytest.mark.parametrize(
    ("silent", "executor", "executor_only", "observer_only"),
    [
        pytest.param(False, None, False, False, id="one process, there"),
        pytest.param(True, None, False, False, id="one process, away"),
        pytest.param(False, True, False, False, id="both there"),
        pytest.param(False, False, False, True, id="the observer alone"),
        pytest.param(True, True, True, False, id="the executor alone"),
        pytest.param(True, False, False, False, id="both away"),
    ],
)
def test_who_is_there_says_what_a_cluster_can_do(
    silent: bool, executor: bool | None, executor_only: bool, observer_only: bool
) -> None:
    view = ClusterView("east", silent=silent, executor=executor, synced=True, api_ok=True)
    reach = ClusterReachability.of({"east": view})
    assert (("east" in reach.executor_only), ("east" in reach.observer_only)) == (executor_only, observer_only)


def test_what_clusters_can_do_is_found_for_all_of_them_as_each_says_of_itself() -> None:
    flags, views = (False, True), dict[str, ClusterView]()
    for silent, synced, api_ok, restored, executor in product(flags, flags, flags, flags, (None, *flags)):
        name = f"c{len(views)}"
        views[name] = ClusterView(
            name, silent=silent, synced=synced, api_ok=api_ok, restored=restored, executor=executor
        )
    reach = ClusterReachability.of(views)
    for name, view in views.items():
        found = [name in one for one in reach]
        executor_only, observer_only = view.silent and view.takes_orders, view.ready and not view.takes_orders
        assert found == [view.ready, view.restored, executor_only, observer_only], view


def report(executor: bool | None, revision: int = 1, **more: object) -> ClusterChanged:
    changes = Changes("east", "east-uid", "life-1", revision - 1, revision, full=revision == 1)
    return ClusterChanged(msgspec.structs.replace(changes, **more), executor)


def test_peers_are_told_to_an_executor_whose_observer_is_away_and_to_none_that_is_away() -> None:
    core = make_core(("east",))

    def told(now: float) -> bool:
        return any(isinstance(effect, SendPeers) for effect in core.handle(Tick(), now))

    core.handle(report(True, nodes=(NODE,)), 0.0)
    assert told(0.0)
    core.handle(ClusterSilent("east", "away", executor=True), 10.0)
    assert told(20.0)
    core.handle(ClusterSilent("east", "away", executor=False), 30.0)
    assert not told(40.0)


def test_nothing_is_placed_where_the_executor_is_away_until_it_is_back() -> None:
    core = make_core(("east",))
    core.handle(report(False, nodes=(NODE,), pods=(pod("web"),)), 0.0)
    assert not intents(core.handle(Tick(), 1.0), Bind)
    core.handle(report(True, revision=2), 2.0)
    assert intents(core.handle(Tick(), 3.0), Bind)


@pytest.mark.parametrize("executor", [None, True], ids=["one process", "two processes"])
def test_nothing_is_placed_where_all_that_is_signed_is_refused_until_it_is_obeyed_again(executor: bool | None) -> None:
    core = make_core(("east",))
    core.handle(report(executor, nodes=(NODE,)), 0.0)
    core.handle(PeersRefused("east"), 1.0)
    core.handle(report(executor, revision=2, pods=(pod("web"),)), 2.0)
    effects = core.handle(Tick(), 10.0)
    assert not intents(effects, Bind)
    assert any(isinstance(effect, SendPeers) for effect in effects), "it is asked on whether it obeys"
    core.handle(PeersRefused("east"), 11.0)
    core.handle(PeersAcknowledged("east"), 12.0)
    assert intents(core.handle(Tick(), 13.0), Bind)


@pytest.mark.parametrize(
    "refused", [PeersRefused("west"), PeersAcknowledged("west", refuses=True)], ids=["all", "by word"]
)
def test_a_pod_goes_to_another_cluster_than_the_one_that_refuses_orders(refused: Event) -> None:
    core = make_core(("east", "west"))
    core.handle(report(None, pods=(pod("web"),)), 0.0)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 0.0)
    core.handle(refused, 0.5)
    assert not intents(core.handle(Tick(), 1.0), Claim)
    core.handle(PeersAcknowledged("west"), 12.0)
    assert intents(core.handle(Tick(), 13.0), Claim)
