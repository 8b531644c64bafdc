"""A batch that nobody books pod by pod goes where its pods would go one after the other, with the same records, but for
counts, which are those at the beginning of the batch (see `as_in_batches`).
"""

from collections.abc import Callable

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch.count_merge import CountMerge
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.equivalence.rows import RowTable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import CycleState, Depends, FleetView, Plugin, PodInfo, Reserve
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.tenant import FleetPart, Share, Tenant, quota_key
from tests.builders import PodBuilder, pod
from tests.laws.grain import Record, as_in_batches, recorded
from tests.laws.test_one_pass_laws import some_fleet

pytestmark = pytest.mark.usefixtures("compiled")
KINDS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "small": lambda one: one.cpu("700m").memory("900Mi"),
    "big, until nothing is left": lambda one: one.cpu(7).memory("3Gi"),
    "nothing requested": lambda one: one,
    "of an app": lambda one: one.labels(app="web").cpu("700m"),
    "tolerant": lambda one: one.cpu(1).tolerates("dedicated", operator="Exists"),
}


def scheduler_of(state: FleetState, *tenants: Tenant) -> Scheduler:
    return Scheduler(DEFAULT_PROFILE, plugins_of(*tenants), state)


def plugins_of(*tenants: Tenant) -> list[Plugin]:
    return build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(tenants)))


def decide(
    kind: str, *, batch: int, pods: int = 300, tenants: tuple[Tenant, ...] = (), more: tuple[Plugin, ...] = ()
) -> tuple[list[Record], bytes]:
    state = some_fleet(np.random.default_rng(11))
    scheduler = Scheduler(DEFAULT_PROFILE, [*plugins_of(*tenants), *more], state)
    items = [(("a", f"uid-p{at}"), KINDS[kind](pod(f"p{at}")).placed("a")) for at in range(pods)]
    results = [
        one for start in range(0, len(items), batch) for one in scheduler.schedule_class(items[start : start + batch])
    ]
    return recorded(results), b"".join(column.tobytes() for column in (state.requested, state.nonzero, state.recent))


def assert_alike(together: tuple[list[Record], bytes], one_by_one: tuple[list[Record], bytes]) -> None:
    assert as_in_batches(one_by_one[0], together[0]) == together[0]
    assert together[1] == one_by_one[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_pods_one_by_one(kind: str) -> None:
    one_by_one = decide(kind, batch=1)
    assert_alike(decide(kind, batch=300), one_by_one)
    assert_alike(decide(kind, batch=70), one_by_one)


QUOTAS = {
    "by CPU": {"cpu": Share(absolute=40_000)},
    "by several, of the fleet": {"cpu": Share(ratio=0.2), "memory": Share(ratio=0.1), "pods": Share(absolute=80)},
    "without end": {"cpu": Share(absolute=2**60)},
    "none is left": {"pods": Share(absolute=3)},
}


PART = quota_key("cpu", FleetPart("a"))
TREES: dict[str, tuple[Tenant, ...]] = {
    **{name: (Tenant("team", ("default",), quota),) for name, quota in QUOTAS.items()},
    "borrowed": (
        Tenant("all", (), {}),
        Tenant("team", ("default",), {"pods": Share(absolute=20)}, "all", {"pods": Share(absolute=30)}),
        Tenant("lab", ("lab",), {"pods": Share(absolute=90)}, "all"),
    ),
    "of a part": (Tenant("team", ("default",), {PART: Share(absolute=20_000)}),),
    "spread, on some clusters": (Tenant("team", ("default",), {}, spread=True, clusters=("a", "b")),),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_a_tenant_with_quota_are_no_different(kind: str, tree: str) -> None:
    tenants = TREES[tree]
    one_by_one = decide(kind, batch=1, pods=120, tenants=tenants)
    assert_alike(decide(kind, batch=120, pods=120, tenants=tenants), one_by_one)
    assert_alike(decide(kind, batch=50, pods=120, tenants=tenants), one_by_one)


class Alone(Reserve[None]):
    """Books for each pod by itself."""

    name = "Alone"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> None: ...
    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None: ...
    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None: ...


def test_a_batch_is_decided_in_one_go_unless_somebody_books_pod_by_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    run = CountMerge.decisions

    def counted(self: CountMerge, items: object) -> object:
        found = run(self, items)  # type: ignore[arg-type]
        counts.append(len(found))
        return found

    monkeypatch.setattr(CountMerge, "decisions", counted)
    decide("small", batch=300)
    assert sum(counts) == 300
    counts.clear()
    limited = (Tenant("team", ("default",), {"cpu": Share(absolute=100_000)}),)
    assert_alike(decide("small", batch=300, tenants=limited), decide("small", batch=1, tenants=limited))
    assert sum(counts) == 142  # those that the quota is enough for
    counts.clear()
    assert decide("small", batch=300, more=(Alone(),)) == decide("small", batch=1)
    assert not counts


def test_a_new_app_is_looked_at_once_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Default spread skips the app until its first pod is placed; no row but that of the pod is evaluated again."""
    full, fill = list[RowTable](), RowTable.fill_all

    def filling(self: RowTable) -> None:
        full.append(self)
        fill(self)

    state = some_fleet(np.random.default_rng(11))
    scheduler = scheduler_of(state)
    items = [(("a", f"uid-p{at}"), pod(f"p{at}").labels(app="web").cpu(1).placed("a")) for at in range(20)]
    monkeypatch.setattr(RowTable, "fill_all", filling)
    found = recorded(scheduler.schedule_class(items))
    assert len(full) == 1
    alone = scheduler_of(some_fleet(np.random.default_rng(11)))
    one_by_one = recorded([one for item in items for one in alone.schedule_class([item])])
    assert as_in_batches(one_by_one, found) == found
