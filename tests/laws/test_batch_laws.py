"""A batch that nobody books pod by pod goes where its pods would go one after the other, with the very same records."""

from collections.abc import Callable

import numpy as np
import pytest

from dispatcher.model.tenant import Share, Tenant
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch.lookahead import Lookahead
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from tests.builders import PodBuilder, pod
from tests.laws.test_pruning_laws import some_fleet, told

KINDS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "small": lambda one: one.cpu("700m").memory("900Mi"),
    "big, until nothing is left": lambda one: one.cpu(7).memory("3Gi"),
    "nothing requested": lambda one: one,
    "tolerant": lambda one: one.cpu(1).tolerates("dedicated", operator="Exists"),
}


def scheduler_of(state: FleetState, *tenants: Tenant) -> Scheduler:
    return Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(tenants))), state)


def decide(kind: str, *, batch: int, tenants: tuple[Tenant, ...] = ()) -> tuple[list[str], bytes]:
    state = some_fleet(np.random.default_rng(11))
    scheduler = scheduler_of(state, *tenants)
    items = [(("a", f"uid-p{at}"), KINDS[kind](pod(f"p{at}")).placed("a")) for at in range(300)]
    results = [
        one for start in range(0, len(items), batch) for one in scheduler.schedule_class(items[start : start + batch])
    ]
    return told(results), b"".join(column.tobytes() for column in (state.requested, state.nonzero, state.recent))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [300, 70], ids=["one batch", "several"])
def test_a_batch_equals_its_pods_one_by_one(kind: str, batch: int) -> None:
    assert decide(kind, batch=batch) == decide(kind, batch=1)


def test_a_batch_is_decided_in_one_go_only_where_nobody_books_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    run = Lookahead.select_all

    def counted(self: Lookahead, items: object) -> object:
        found = run(self, items)  # type: ignore[arg-type]
        counts.append(len(found))
        return found

    monkeypatch.setattr(Lookahead, "select_all", counted)
    decide("small", batch=300)
    assert sum(counts) == 300
    counts.clear()
    limited = (Tenant("team", ("default",), {"cpu": Share(absolute=100_000)}),)
    assert decide("small", batch=300, tenants=limited) == decide("small", batch=1, tenants=limited)
    assert not counts
