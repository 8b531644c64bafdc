"""Preemption in the core, where quota, too, has a word in it."""

import msgspec

from dispatcher.model.messages import Bind
from dispatcher.model.node import Node
from dispatcher.model.tenant import Share, Tenant
from dispatcher.scheduling.events import Tick
from dispatcher.scheduling.quota import QuotaLedger
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import FULL, NODE, bound, change, intents, pod, report


def test_room_that_was_promised_to_a_pod_which_quota_stops_goes_to_the_next_pod() -> None:
    core = make_core(("east",), ledger=QuotaLedger((Tenant("team", ("default",), {"cpu": Share(absolute=3000)}),)))
    more = Node("n2", ready=True, allocatable=NODE.allocatable)
    low, other, meek = (
        msgspec.structs.replace(one, namespace="other")
        for one in (bound("low1"), pod("low2", node="n2", phase="Running", **FULL), pod("meek", **FULL))
    )
    report(core, low, other, pod("a", priority=10, **FULL), pod("b", priority=10, **FULL), nodes=(NODE, more))
    core.handle(Tick(), 1.0)
    assert len(core.profiles.nominations) == 2
    change(core, meek, gone=("uid-low1", "uid-low2"), now=2.0)
    effects = [one for second in range(3, 20) for one in core.handle(Tick(), float(second))]
    placed = [bind.pod.name for bind in intents(effects, Bind)]  # type: ignore[attr-defined]
    assert sorted(placed) in (["a", "meek"], ["b", "meek"])


def test_room_that_was_promised_to_a_pod_which_is_deleted_goes_to_who_waits() -> None:
    core = make_core(("east",))
    large, small = ({"requests": {"cpu": cpu}} for cpu in (3000, 1500))
    low = pod("low", node="n1", phase="Running", requests={"cpu": 2000})
    report(core, low, pod("a", priority=10, **large))
    core.handle(Tick(), 1.0)
    change(core, pod("meek", **small), now=1.5)
    assert not intents(core.handle(Tick(), 1.6), Bind)
    change(core, gone=("uid-a",), now=3.0)
    effects = [one for second in range(4, 20) for one in core.handle(Tick(), float(second))]
    assert [bind.pod.name for bind in intents(effects, Bind)] == ["meek"]  # type: ignore[attr-defined]
