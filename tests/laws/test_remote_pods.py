"""A look at a pod that runs in another cluster is spared where it would find nothing to do."""

from collections.abc import Callable
from itertools import product
from unittest.mock import Mock, patch

import msgspec
import pytest

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.protocol import NOTHING, next_step
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.delegation.tracking import ClusterReachability, Tracked, observed_state
from dispatcher.scheduling.events import Answered, ClusterChanged, ClusterSilent, SendIntents, Tick
from shared.messages import DONE, Changes, MirrorStatus, Outcome
from shared.model.names import CLAIM, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim, Pod, SourceRef
from tests.laws.cores import make_core

SOURCE = Pod(
    "u", "default", "web", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME, node=proxy_node_name("west"),
    claim=Claim("west", "w1", 3), has_finalizer=True,
)  # fmt: skip
OF = SourceRef("east", "uid-east", "default", "web", "u", 3)
COPY = Pod("d", "default", "copy", requests={"cpu": 1}, node="w1", source=OF, status=b"old")
NODE = Node("w1", "u-w1", ready=True, allocatable={"cpu": 10, "memory": 1 << 30, "pods": 10})
NOW, LATER = 10.0, 10.5
changed = msgspec.structs.replace

SOURCES: list[dict[str, object]] = [
    {}, {"phase": "Running"}, {"phase": "Failed"}, {"ready": True}, {"terminating": True}, {"has_finalizer": False},
    {"claim": None}, {"claim": Claim("north", "n1", 3)}, {"node": ""}, {"node": "e1"},
    {"node": proxy_node_name("north")}, {"annotations": {CLAIM: "unread"}},
    {"files": "new"}, {"live": "1a"},
]  # fmt: skip
COPIES: list[dict[str, object]] = [
    {}, {"status": b""}, {"status": b"new"}, {"phase": "Running"}, {"phase": "Succeeded"}, {"terminating": True},
    {"node": ""}, {"files": "old"}, {"files": "new"}, {"live": "1b"},
]  # fmt: skip
VIEWS: list[dict[str, object]] = [
    {}, {"silent": True}, {"silent": True, "executor": True}, {"executor": False}, {"api_ok": False},
    {"restored": True},
]  # fmt: skip


@pytest.mark.parametrize("fenced", [False, True], ids=["no fence", "fenced"])
def test_a_look_is_spared_only_where_it_would_find_nothing(fenced: bool) -> None:
    core = make_core(["east", "west", "north"])
    state, spared, fence = core._state, set[bool](), {"west"} if fenced else set[str]()
    for source, copy, mirrored, until in product(SOURCES, COPIES, (b"", b"old"), (0.0, 99.0)):
        for home, west in product(VIEWS, VIEWS):
            for name, how in (("east", home), ("west", west), ("north", {})):
                view = ClusterView(name, f"uid-{name}", synced=True, api_ok=True, silent=False)
                state.clusters[name] = _changed(view, how)
            state.clusters["east"].fenced = frozenset(fence)
            tracked = Tracked(("east", "u"), changed(SOURCE, **source), {"west": changed(COPY, **copy)})
            tracked.mirrored, tracked.mirrored_until = mirrored, until
            core._reconciler._reachability = None
            core._reconciler._cached_step(tracked, NOW)
            spared.add(state.only_waits(tracked, NOW))
            if state.only_waits(tracked, NOW):
                reach = ClusterReachability.of(state.clusters)
                more = {"reach": reach, "orphans_may_go": True}
                seen = observed_state(tracked, state.clusters, NOW, CoreTiming(), **more)  # type: ignore[arg-type]
                assert next_step(seen) is NOTHING, (source, copy, mirrored, until, home, west)
    assert spared == ({False} if fenced else {False, True})


def test_a_look_is_not_spared_while_a_pause_lasts_nor_before_one_has_found_nothing() -> None:
    core, _ = _mirroring()
    tracked = core.tracked["east", "u"]
    tracked.in_flight, tracked.mirrored, tracked.mirrored_until = None, COPY.status, LATER
    assert not core._state.only_waits(tracked, NOW)
    core._reconciler._reconcile(tracked, NOW)
    assert core._state.only_waits(tracked, NOW)
    tracked.hold_until = LATER
    assert not core._state.only_waits(tracked, NOW)


def _changed(view: ClusterView, how: dict[str, object]) -> ClusterView:
    return ClusterView(
        **{**{name: getattr(view, name) for name in ("name", "uid", "synced", "api_ok", "silent")}, **how}
    )


def _report(core: SchedulerCore, cluster: str, now: float, **more: object) -> list[object]:
    view = core.clusters[cluster]
    changes = Changes(cluster, f"uid-{cluster}", "life", view.revision, view.revision + 1, not view.revision)
    return [*core.handle(ClusterChanged(changed(changes, **more)), now)]


def _mirroring(networks: tuple[str, str] = ("own", "own"), **copy: object) -> tuple[SchedulerCore, MirrorStatus]:
    """A remote pod whose status has just been ordered to be written; `networks` of its home and of its target."""
    core = make_core(["east", "west"])
    for cluster, network in zip(("east", "west"), networks, strict=True):
        core.pin(cluster, "", network=network)
    _report(core, "east", NOW, pods=(SOURCE,))
    told = _report(core, "west", NOW, nodes=(NODE,), pods=(changed(COPY, **copy),))
    sent = [one for one in told if isinstance(one, SendIntents)]
    order = sent[0].intents[0]
    assert isinstance(order, MirrorStatus)
    return core, order


@pytest.mark.parametrize(
    ("networks", "routed"),
    [(("own", "own"), False), (("flat", "own"), False), (("flat", "hall"), False), (("flat", "flat"), True)],
)
def test_addresses_lead_home_only_where_both_clusters_are_said_to_be_of_one_network(
    networks: tuple[str, str], routed: bool
) -> None:
    core, order = _mirroring(networks)
    assert order.routed is routed
    core._reports.forget("west")
    assert core.clusters["west"].network == networks[1]


def _shown(**source: object) -> Callable[[SchedulerCore], object]:
    return lambda core: _report(core, "east", NOW, pods=(changed(SOURCE, **source),))


def _copied(**copy: object) -> Callable[[SchedulerCore], object]:
    return lambda core: _report(core, "west", NOW, pods=(changed(COPY, **copy),))


def _failed_look(core: SchedulerCore) -> None:
    with patch.object(core._reconciler, "_occupy", side_effect=RuntimeError("scripted")):
        _copied(phase="Running")(core)


MEANWHILE: dict[str, Callable[[SchedulerCore], object]] = {
    "nothing": lambda core: None,
    "a look has failed": _failed_look,
    "the source shows more": _shown(phase="Running"),
    "the copy runs": _copied(phase="Running"),
    "another status": _copied(phase="Running", status=b"new"),
    "the copy has ended": _copied(phase="Succeeded"),
    "the copy ends": _copied(terminating=True),
    "the copy is gone": lambda core: _report(core, "west", NOW, pods_gone=("d",)),
    "the source ends": _shown(terminating=True),
    "the source has ended": _shown(phase="Failed"),
    "marks are gone": _shown(has_finalizer=False, claim=None),
    "its cluster is away": lambda core: core.handle(ClusterSilent("east", "away"), NOW),
    "the other is away": lambda core: core.handle(ClusterSilent("west", "away"), NOW),
    "the node is fenced": lambda core: _report(core, "east", NOW, nodes=(_fence(),)),
}  # fmt: skip


def _fence() -> Node:
    labels = {"global-dispatcher.io/fenced": "true"}
    return Node(proxy_node_name("west"), "u-proxy", labels, ready=True, proxy_for="west")


def _answered(core: SchedulerCore, order: MirrorStatus) -> list[object]:
    answer = Answered("east", (Outcome(order.id, order.pod.uid, order.epoch, DONE),))
    return [*core.handle(answer, LATER), *core.handle(Tick(None), LATER), *core.handle(Tick(None), LATER + 2.0)]


def _state(core: SchedulerCore) -> list[object]:
    found, state = core.fleet.occupant(("east", "u")), core._state
    place = None if found is None else (found.pod_info, found.cluster, found.node, found.assumed)
    return [
        list(core.tracked.values()),
        place,
        state.dirty,
        state.recheck_each_tick,
        state._alarms,
        core.queue.counts(),
    ]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_without_a_look_after_its_status_is_written_a_pod_comes_to_what_it_would_with_one(meanwhile: str) -> None:
    cores = []
    for looks in (False, True):
        core, order = _mirroring()
        if looks:
            core._state.only_waits = lambda tracked, now: False  # type: ignore[method-assign]
        MEANWHILE[meanwhile](core)
        cores.append((_answered(core, order), _state(core)))
    assert cores[0] == cores[1]


@pytest.mark.parametrize("shows", [False, True])
def test_a_pod_is_looked_at_again_only_if_its_written_status_does_not_show_in_time(shows: bool) -> None:
    core, order = _mirroring(phase="Running")
    core.handle(Answered("east", (Outcome(order.id, order.pod.uid, order.epoch, DONE),)), LATER)
    assert not any(isinstance(one, SendIntents) for one in core.handle(Tick(None), LATER))
    if shows:
        _shown(phase="Running")(core)
    late = LATER + core.timing.retry.first_s + 0.1
    core._reconciler._cached_step(core.tracked["east", "u"], late)  # as another pod had come to it before
    looked = core._reconciler._reconcile = Mock(wraps=core._reconciler._reconcile)  # type: ignore[method-assign]
    told = core.handle(Tick(None), late)
    assert looked.call_count == (not shows)
    assert any(isinstance(one, SendIntents) for one in told) == (not shows)
