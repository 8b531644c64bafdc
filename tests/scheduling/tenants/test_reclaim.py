"""Who gives back what was borrowed: worked examples, and laws over trees, pods and claimants."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.tenants.reclaim import Candidate, Claimant, min_runtime_of, policy_of, victims
from dispatcher.scheduling.tenants.shares import NO_SHARE
from dispatcher.scheduling.tenants.tree import TenantTree
from shared.model.tenant import (
    ANY_PRIORITY,
    FINAL_SHARE,
    INITIAL_SHARE,
    LOWER_PRIORITY,
    NEVER,
    RECLAIM_STRATEGIES,
    Share,
    Tenant,
)
from tests.scheduling.tenants.naive import TOTALS, trees

ALL = Tenant("all", (), {}, reclaim=ANY_PRIORITY)


def team(name: str, cpu: int, weight: int = 1000, **said: object) -> Tenant:
    return msgspec.structs.replace(
        Tenant(name, (name,), {"cpu": Share(absolute=cpu)}, parent="all", weight=weight), **said
    )


def tree_of(*teams: Tenant, top: Tenant = ALL) -> TenantTree:
    tree = TenantTree([top, *teams])
    tree.settle({})
    return tree


def pods(
    tree: TenantTree, tenant: str, count: int, cpu: int = 1, priority: int = 0, group: str = "", **amounts: int
) -> list[Candidate]:
    """Placed pods, each of which started a second after the one before it."""
    found = [
        Candidate(
            ("a", f"{tenant}-{priority}-{at}"), tenant, priority, 1.0 + at, {"cpu": cpu, **amounts}, group or None
        )
        for at in range(count)
    ]
    for one in found:
        tree.nodes[tenant].charge(one.amounts)
    return found


def names(found: list[Candidate] | None) -> list[str] | None:
    return None if found is None else [one.pod_id[1] for one in found]


def test_a_lender_gets_back_its_own_from_who_has_borrowed_most_the_last_started_first() -> None:
    tree = tree_of(team("red", 4), team("green", 2), team("blue", 2))
    there = [*pods(tree, "green", 3), *pods(tree, "blue", 5)]
    found = victims(tree, Claimant("red", 0, {"cpu": 3}), there)
    assert names(found) == ["blue-0-4", "blue-0-3", "green-0-2"]


def test_nobody_goes_where_there_is_room() -> None:
    tree = tree_of(team("red", 4), team("blue", 2))
    assert victims(tree, Claimant("red", 0, {"cpu": 3}), pods(tree, "blue", 3)) == []


@pytest.mark.parametrize(
    ("policy", "priority", "want"),
    [
        (NEVER, 9, None),
        (LOWER_PRIORITY, 5, None),
        (LOWER_PRIORITY, 6, ["blue-5-3"]),
        (ANY_PRIORITY, 0, ["blue-5-3"]),
    ],
)
def test_the_policy_says_which_pods_may_go(policy: str, priority: int, want: list[str] | None) -> None:
    tree = tree_of(team("red", 2), team("blue", 2), top=msgspec.structs.replace(ALL, reclaim=policy))
    assert names(victims(tree, Claimant("red", priority, {"cpu": 1}), pods(tree, "blue", 4, priority=5))) == want


def test_who_has_borrowed_nothing_gives_nothing() -> None:
    tree = tree_of(team("red", 2), team("green", 2), team("blue", 2))
    there = [*pods(tree, "green", 2), *pods(tree, "blue", 4)]
    found = victims(tree, Claimant("red", 0, {"cpu": 2}), there)
    assert names(found) == ["blue-0-3", "blue-0-2"]
    assert victims(tree, Claimant("red", 0, {"cpu": 5}), there) is None, "more than its own would take green's"


def test_own_pods_of_lower_priority_go_too_and_never_others_of_its_own() -> None:
    tree = tree_of(team("red", 4))
    there = [*pods(tree, "red", 2, priority=5), *pods(tree, "red", 2)]
    assert names(victims(tree, Claimant("red", 5, {"cpu": 2}), there)) == ["red-0-1", "red-0-0"]
    assert victims(tree, Claimant("red", 0, {"cpu": 1}), there) is None


def test_of_two_borrowers_only_a_larger_share_gives_and_not_below_that_of_the_claimant() -> None:
    """Ten are there to be borrowed. Blue uses eight of them, red wants to have its third or fifth."""
    top = replace_nominal(ALL, 10)
    tree = tree_of(team("red", 0), team("blue", 0), top=top)
    there = [*pods(tree, "red", 2), *pods(tree, "blue", 8)]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 1}), there)) == ["blue-0-7"]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 3}), there)) == ["blue-0-7", "blue-0-6", "blue-0-5"]
    only_final = msgspec.structs.replace(top, reclaim_strategies=(FINAL_SHARE,))
    tree = tree_of(team("red", 0), team("blue", 0), top=only_final)
    there = [*pods(tree, "red", 4), *pods(tree, "blue", 6)]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 1}), there)) == ["blue-0-5"]
    tree = tree_of(team("red", 0), team("blue", 0), top=only_final)
    there = [*pods(tree, "red", 5), *pods(tree, "blue", 5)]
    assert victims(tree, Claimant("red", 0, {"cpu": 1}), there) is None, "equal shares stay so"


def test_the_initial_share_lets_a_large_pod_go_that_the_final_one_spares() -> None:
    for strategy, want in ((FINAL_SHARE, None), (INITIAL_SHARE, ["blue-0-0"])):
        top = msgspec.structs.replace(replace_nominal(ALL, 10), reclaim_strategies=(strategy,))
        tree = tree_of(team("red", 0), team("blue", 0), top=top)
        there = [*pods(tree, "red", 3), *pods(tree, "blue", 1, cpu=6)]
        assert names(victims(tree, Claimant("red", 0, {"cpu": 2}), there)) == want


def test_of_equal_pods_one_goes_that_leaves_its_tenant_what_that_was_given() -> None:
    tree = tree_of(team("red", 4), team("blue", 4))
    large = [replace(one, pod_id=("a", "large"), started=9.0) for one in pods(tree, "blue", 1, cpu=4)]
    there = [*pods(tree, "blue", 1), *large]
    assert tree.nodes["blue"].borrowed("cpu") == 1
    assert names(victims(tree, Claimant("red", 0, {"cpu": 4}), there)) == ["blue-0-0"]


def test_who_borrows_itself_takes_nothing_of_what_another_was_given() -> None:
    tree = tree_of(team("red", 2, weight=9000), team("blue", 4))
    there = [*pods(tree, "red", 1), *pods(tree, "blue", 1, cpu=5)]
    claimant = Claimant("red", 0, {"cpu": 2})
    assert tree.nodes["blue"].share() > tree.nodes["red"].share(claimant.asked)
    assert victims(tree, claimant, there) is None


def replace_nominal(tenant: Tenant, cpu: int) -> Tenant:
    return msgspec.structs.replace(tenant, nominal={"cpu": Share(absolute=cpu)})


def test_victims_are_few_whoever_can_stay_does() -> None:
    tree = tree_of(team("red", 4), team("blue", 4))
    there = [*pods(tree, "blue", 1, cpu=4), *pods(tree, "blue", 4, priority=-1)]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 4}), there)) == [
        "blue--1-3",
        "blue--1-2",
        "blue--1-1",
        "blue--1-0",
    ]
    tree = tree_of(team("red", 4), team("blue", 4))
    there = [*pods(tree, "blue", 1, cpu=6), *pods(tree, "blue", 2, priority=-1)]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 4}), there)) == ["blue-0-0"], "the small ones stay after all"


def test_a_group_that_is_evicted_whole_goes_with_all_its_members() -> None:
    tree = tree_of(team("red", 4), team("blue", 2))
    there = [*pods(tree, "blue", 3, group="gang"), *pods(tree, "blue", 3, priority=5)]
    assert names(victims(tree, Claimant("red", 0, {"cpu": 1}), there)) == ["blue-0-0", "blue-0-1", "blue-0-2"]


def test_a_tenant_that_names_gpus_alone_reclaims_for_pods_that_ask_for_cpu_too() -> None:
    gpu = {"gpu": Share(absolute=2)}
    tree = TenantTree([ALL, Tenant("red", ("red",), gpu, parent="all"), Tenant("blue", ("blue",), {}, parent="all")])
    there = [*pods(tree, "blue", 2, cpu=9, gpu=1), *pods(tree, "blue", 2, cpu=50, priority=-9)]
    found = victims(tree, Claimant("red", 0, {"cpu": 16, "gpu": 1}), there)
    assert names(found) == ["blue-0-1"], "and not those that have no GPU"


def test_what_a_sibling_has_borrowed_of_something_else_keeps_nobody_from_its_own() -> None:
    top = msgspec.structs.replace(ALL, nominal={"gpu": Share(absolute=2)})
    org = Tenant("org", (), {}, parent="all")
    tree = tree_of(org, team("red", 4, parent="org"), team("green", 0, parent="org"), team("blue", 0), top=top)
    pods(tree, "green", 2, cpu=0, gpu=1)
    there = pods(tree, "blue", 4)
    assert tree.nodes["org"].share() > NO_SHARE
    assert names(victims(tree, Claimant("red", 0, {"cpu": 2}), there)) == ["blue-0-3", "blue-0-2"]
    assert victims(tree, Claimant("red", 0, {"cpu": 5}), there) is None, "one of which it would borrow"


def test_policy_strategies_and_runtime_are_those_of_the_nearest_that_says_so() -> None:
    tree = tree_of(
        team("red", 1),
        team("blue", 1, reclaim=NEVER, min_runtime_s=5.0),
        top=msgspec.structs.replace(ALL, min_runtime_s=60.0),
    )
    assert policy_of(tree.nodes["red"]) == (ANY_PRIORITY, RECLAIM_STRATEGIES)
    assert policy_of(tree.nodes["blue"])[0] == NEVER
    assert [min_runtime_of(tree.nodes[one]) for one in ("red", "blue")] == [60.0, 5.0]


ASKED = st.fixed_dictionaries({"cpu": st.integers(0, 12)}, optional={"gpu": st.integers(0, 3)})
PODS = st.lists(
    st.tuples(st.integers(0, 6), ASKED, st.sampled_from((-1, 0, 5)), st.integers(0, 3), st.sampled_from(("", "", "g"))),
    max_size=14,
)


@given(
    trees(), PODS, st.integers(0, 6), ASKED, st.sampled_from((0, 5)), st.sampled_from((LOWER_PRIORITY, ANY_PRIORITY))
)
def test_laws_of_reclaim(
    tenants: list[Tenant],
    placed: list[tuple[int, dict[str, int], int, int, str]],
    whose: int,
    asked: dict[str, int],
    priority: int,
    policy: str,
) -> None:
    """The claimant fits without its victims, and without all but one of them it does not; the tree is as it was; who
    has borrowed nothing of what is missing gives nothing; the lender gets no more than its own where others have
    borrowed nothing; only whom the policy lets go, and groups whole.
    """
    tree = TenantTree([msgspec.structs.replace(one, reclaim=policy) for one in tenants])
    tree.settle(TOTALS)
    there = []
    for at, (tenant, amounts, importance, started, group) in enumerate(placed):
        name = tenants[tenant % len(tenants)].name
        there.append(Candidate(("a", f"p{at}"), name, importance, float(started), amounts, group or None))
        tree.nodes[name].charge(amounts)
    before = {name: dict(node.usage) for name, node in tree.nodes.items()}
    claimant = Claimant(tenants[whose % len(tenants)].name, priority, asked)
    node = tree.nodes[claimant.tenant]
    missing = [name for name, amount in asked.items() if amount and node.binding(name, amount)]
    found = victims(tree, claimant, there)
    assert {name: dict(one.usage) for name, one in tree.nodes.items()} == before
    if not missing:
        assert found == []
    if not found:
        return
    assert len({one.pod_id for one in found}) == len(found)
    units = {(one.tenant, one.group or one.pod_id[1]) for one in found}
    assert {one.pod_id for one in found} == {
        one.pod_id for one in there if (one.tenant, one.group or one.pod_id[1]) in units
    }, "groups whole"
    for one in found:
        assert one.priority < priority or policy == ANY_PRIORITY
        assert one.priority < priority or one.tenant != claimant.tenant
        own = one.tenant == claimant.tenant
        assert own or any(tree.nodes[one.tenant].borrowed(name) for name in missing)
    assert fits(tree, claimant, found)
    for unit in units:
        rest = [one for one in found if (one.tenant, one.group or one.pod_id[1]) != unit]
        assert not fits(tree, claimant, rest), "minimal"


def fits(tree: TenantTree, claimant: Claimant, gone: list[Candidate]) -> bool:
    for one in gone:
        tree.nodes[one.tenant].charge(one.amounts, -1)
    node = tree.nodes[claimant.tenant]
    found = all(node.binding(name, amount) is None for name, amount in claimant.asked.items() if amount)
    for one in gone:
        tree.nodes[one.tenant].charge(one.amounts)
    return found
