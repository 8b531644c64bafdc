"""Who of a tenant that has borrowed goes first, as `tenants explain` is told: the very one whom reclaim evicts."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.views import victims_view, whole
from shared.model.tenant import ANY_PRIORITY, LOWER_PRIORITY, NEVER, Tenant
from tests.laws.examples import examples
from tests.scheduling.core.test_reclaiming import World, lent, team, with_a_whole_group


def told(world: World, tenant: str = "blue") -> list[str]:
    return [row["text"] for row in whole(victims_view(world.core, world.ledger, tenant))]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (ANY_PRIORITY, "pod blue/blue-0 on a/n{} (priority 0), for pods of red"),
        (LOWER_PRIORITY, "pod blue/blue-0 on a/n{} (priority 0), for pods of a higher priority of red"),
        (NEVER, "none: `reclaim` is 'never' for all others of its tree"),
    ],
)
def test_of_a_tenant_that_has_borrowed_the_next_victim_is_told(policy: str, said: str) -> None:
    world = lent(policy=policy)
    place = world.pods["blue-0"].node.removeprefix("n")
    assert told(world) == [said.format(place)]


def test_who_has_borrowed_nothing_has_no_next_victim() -> None:
    assert told(lent(), "red") == []
    assert told(World(), "nobody") == []


def test_nobody_goes_for_those_who_have_lent_nothing() -> None:
    world = World(team("red", 2), team("green", 2, reclaim=NEVER), team("blue", 2))
    world.come("red-1", "red-2", "red-3", "blue-1", "blue-2", "blue-3")
    assert told(world) == ["none: all that may reclaim use what they were given themselves: all, red"]


def test_pods_that_may_not_go_are_no_victims() -> None:
    world = World(team("red", 4), team("blue", 2, min_runtime_s=50.0))
    world.come(*(f"blue-{at}" for at in range(6)))
    world.report(pods=[msgspec.structs.replace(one, started=world.now) for one in world.pods.values()])
    (said,) = told(world)
    assert said.startswith("none: none of its pods may be evicted now")
    world.run(60)
    assert told(world)[0].startswith("pod blue/blue-0 on")


def test_a_group_that_goes_whole_is_told_whole() -> None:
    world = with_a_whole_group()
    (row,) = whole(victims_view(world.core, world.ledger, "blue"))
    assert (row["count"], {one["name"] for one in row["pods"]}) == (3, {"blue-0", "blue-1", "blue-2"})
    assert row["text"].endswith("and the others of its group, 3 pods (priority 0), for pods of red")


def test_whoever_goes_already_is_not_the_next() -> None:
    world = lent(goes_after=60)
    world.come("red-1")
    world.run(3)
    (gone,) = world.names()
    (row,) = whole(victims_view(world.core, world.ledger, "blue"))
    assert [one["name"] for one in row["pods"]] != [gone]


def test_what_changes_between_two_pieces_ends_the_list() -> None:
    world = lent()
    pieces = victims_view(world.core, world.ledger, "blue")
    assert next(pieces) == []
    world.ledger.take((Tenant("else", ("blue",), {}),))
    assert whole(pieces) == []


@settings(max_examples=examples(25), deadline=None)
@given(
    blue=st.lists(st.tuples(st.integers(1, 3), st.sampled_from((0, 5)), st.integers(0, 3)), min_size=1, max_size=8),
    kept=st.integers(0, 6),
)
def test_the_next_victim_is_whom_a_lender_that_asks_then_has_evicted(
    blue: list[tuple[int, int, int]], kept: int
) -> None:
    """Of one tenant, all of whose tree's quota is in use: for one CPU more of the lender one unit goes at least, and
    of it is who was told.
    """
    used = sum(cpu for cpu, *_ in blue)
    world = World(team("red", max(used - kept, 0)), team("blue", min(used, kept)), room=(40,))
    for at, (cpu, priority, started) in enumerate(blue):
        world.submit(world.built(f"blue-{at}", cpu).priority(priority).build())
        world.run(1)
        running = world.pods[f"blue-{at}"] = msgspec.structs.replace(
            world.pods[f"blue-{at}"], started=50.0 + started if started else 0.0
        )
        world.report(pods=(running,))
    rows = whole(victims_view(world.core, world.ledger, "blue"))
    world.come("red-1")
    world.run(2)
    if used <= kept:
        assert (rows, world.evicted) == ([], [])
        return
    (row,) = rows
    assert row["pods"][0]["name"] in world.names()
