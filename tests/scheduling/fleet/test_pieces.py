"""What is found out of all rows piece by piece, since whole columns take new memory, is what it would be in one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.usual import learnt
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import memory
from dispatcher.scheduling.framework.domain_counts import Logarithms, least_count
from dispatcher.scheduling.rules.spread_domains import domains_of, with_domains
from tests.builders import fleet, node, pod, put, reading


def zones() -> FleetState:
    """Eleven nodes in three zones, one of them in none; one has gone."""
    nodes = [node(f"n{at}").cpu(10).labels(**({"zone": "xyz"[at % 3]} if at != 7 else {})) for at in range(12)]
    state = fleet(a=nodes)
    for at in range(12):
        put(state, pod(f"p{at}").cpu(1 + at % 5).on(f"n{at}"), "a", f"n{at}")
        state.put_reading("a", reading(f"n{at}", cpu=at / 24))
    state.remove_node("a", "n4")
    return state


def spread(state: FleetState) -> Any:
    seen = view_of(state)
    found = [domains_of(level, seen, with_domains(seen, ())) for level in ("zone", "host", "cluster")]
    assert all(one.counted is None for one in found)
    some = domains_of("zone", seen, seen.nodes.live & (np.arange(state.n) % 2 == 0))
    every = (*found, some)
    eligible = [[domain for piece in one.eligible() for domain in piece.tolist()] for one in every]
    told = [(one.size, one.shown.tolist(), domains) for one, domains in zip(every, eligible, strict=True)]
    return [one.present.tolist() for one in every], some.counted is not None and some.counted.tolist(), told


def least(state: FleetState) -> Any:
    """How few pods a host has."""
    seen = view_of(state)
    hosts = domains_of("host", seen, with_domains(seen, ()))
    present, span = hosts.present, hosts.span
    told = ([9, 7, *[5] * 9, 3], [9, 1, *[5] * 8, 0, 3])
    return [least_count(np.asarray(counts), present, *span) for counts in told]


def usual(state: FleetState) -> Any:
    more = np.asarray([0, 3, 6]), np.asarray([[-90, 400, -300], [0, -10, 7]])
    found = learnt(state, more, state.now)
    assert found is not None
    return found.tolist()


@pytest.mark.parametrize("found", [spread, usual, least])
def test_in_pieces_it_is_the_same(found: Callable[[FleetState], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    state = zones()
    whole = found(state)
    monkeypatch.setattr(memory, "BLOCK", 5)
    assert found(state) == whole


def test_a_domain_is_eligible_where_some_row_is_in_it() -> None:
    (zone, host, _, some), counted, told = spread(zones())
    assert zone == [True, True, True]
    assert host == [True] * 4 + [False] + [True] * 7
    assert sum(some) == 3
    assert counted == [0, 2, 6, 8, 10]
    assert told[1] == (11, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11], [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11])
    assert least(zones()) == [3, 0]


def test_logarithms_are_known_for_some_more_hosts_than_there_are() -> None:
    logarithms = Logarithms()
    assert logarithms.up_to(500_000) is logarithms.up_to(505_000)


def test_what_is_used_of_requests_does_not_rest_on_the_order_of_nodes() -> None:
    found = []
    for order in ((1, 2, 3), (3, 2, 1)):
        state = fleet(a=[node(f"n{at}").cpu(10) for at in order])
        for at in order:
            put(state, pod(f"p{at}").cpu(at).on(f"n{at}"), "a", f"n{at}")
            state.put_reading("a", reading(f"n{at}", cpu=at / 24))
        found.append(learnt(state, (np.zeros(0, dtype=np.intp), np.zeros((2, 0), dtype=np.int64)), state.now))
    first, second = found
    assert first is not None
    assert second is not None
    assert first.tolist() == second.tolist()


def test_logarithms_are_the_same_in_whatever_steps_they_came_to_be_known() -> None:
    steps, at_once = Logarithms(), Logarithms()
    for size in (3, 64, 65, 5000, 5001, 40_000):
        assert len(steps.up_to(size)) > size
    assert len(steps.up_to(40_000)) < 50_000
    assert steps.up_to(40_000)[:40_001].tolist() == at_once.up_to(40_000)[:40_001].tolist()
