"""Classes of pods are kept as far as their memory allows, that of the counts which they look at included."""

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.equivalence import cache
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.labels import LabelSelector, Requirement
from tests.builders import fleet, node, pod

NODES = 64


def spread_by(at: int, selectors: int) -> PodInfo:
    """A pod that is spread softly over hosts by so many selectors of its own."""
    built = pod(f"p{at}")
    for one in range(selectors):
        own = LabelSelector({}, (Requirement("app", "In", (f"a{one}", f"own{at}")),))
        built = built.spread("host", hard=False, selector=own)
    return built.placed("a")


@pytest.mark.parametrize(("selectors", "kept"), [(1, 8), (16, 1)])
def test_pods_that_count_much_by_host_leave_room_for_fewer_classes(
    monkeypatch: pytest.MonkeyPatch, selectors: int, kept: int
) -> None:
    monkeypatch.setattr(cache, "_LARGE", 1)
    plugins = build(DEFAULT_PROFILE, PluginContext())
    state = fleet(a=[node(f"n{at}").cpu(8) for at in range(NODES)])
    scheduler = Scheduler(DEFAULT_PROFILE, plugins, state, class_bytes=16 * 1024)
    for at in range(8):
        assert isinstance(scheduler.schedule(spread_by(at, selectors), ("a", f"p{at}")), Decision)
    assert scheduler.class_counts.kept <= kept + 1
    assert (scheduler.class_counts.dropped > 4) == (kept < 8)
