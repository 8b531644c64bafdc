import pytest

from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.shares import NO_SHARE, FairShare, fair_share
from dispatcher.scheduling.tenants.tree import TenantTree
from shared.model.bounds import MAX_AMOUNT
from shared.model.tenant import Share, Tenant


def tenant(
    name: str,
    cpu: int | str | None = None,
    parent: str = "",
    *,
    borrow: int | None = None,
    lend: int | None = None,
    weight: int = 1000,
) -> Tenant:
    """A tenant of namespace `name`, with so much CPU of its own, or so much percent."""
    return Tenant(
        name,
        (name,),
        {} if cpu is None else {"cpu": share(cpu)},
        parent=parent,
        borrowing_limit={} if borrow is None else {"cpu": Share(absolute=borrow)},
        lending_limit={} if lend is None else {"cpu": Share(absolute=lend)},
        weight=weight,
    )


def share(cpu: int | str) -> Share:
    return Share(ratio=int(cpu[:-1]) / 100) if isinstance(cpu, str) else Share(absolute=cpu)


def left(ledger: QuotaLedger, name: str, totals: int = 0) -> int | None:
    return ledger.node(name, {"cpu": totals}).available("cpu")


def charge(ledger: QuotaLedger, name: str, cpu: int) -> None:
    ledger.charge(("home", f"{name}-{cpu}"), name, {"cpu": cpu})


def test_what_one_does_not_use_another_of_the_same_tree_may_borrow() -> None:
    ledger = QuotaLedger([tenant("all"), tenant("a", 10, "all"), tenant("b", 20, "all"), tenant("c", parent="all")])
    assert [left(ledger, name) for name in ("a", "b", "c", "all")] == [30, 30, 30, 30]
    charge(ledger, "c", 25)
    assert [left(ledger, name) for name in ("a", "b", "c")] == [5, 5, 5]


def test_a_lender_keeps_what_it_does_not_lend() -> None:
    ledger = QuotaLedger([tenant("all"), tenant("a", 10, "all", lend=4), tenant("b", 20, "all")])
    assert [left(ledger, name) for name in ("a", "b")] == [30, 24]
    charge(ledger, "b", 24)
    assert [left(ledger, name) for name in ("a", "b")] == [6, 0]
    charge(ledger, "a", 6)
    assert left(ledger, "a") == 0


def test_a_borrower_borrows_no_more_than_it_may() -> None:
    ledger = QuotaLedger([tenant("all"), tenant("a", 10, "all", borrow=5), tenant("b", 20, "all")])
    assert left(ledger, "a") == 15
    charge(ledger, "a", 12)
    assert [left(ledger, name) for name in ("a", "b")] == [3, 18]


def test_what_a_parent_has_is_shared_by_its_children_beside_their_own() -> None:
    ledger = QuotaLedger([tenant("all", 100, borrow=0), tenant("a", 10, "all"), tenant("b", 20, "all")])
    assert left(ledger, "a") == 130


def test_percentages_are_of_the_fleet_at_every_depth() -> None:
    ledger = QuotaLedger([tenant("all", "10%"), tenant("lab", "20%", "all"), tenant("a", "30%", "lab")])
    assert [left(ledger, name, 1000) for name in ("all", "lab", "a")] == [600, 600, 600]
    assert left(ledger, "a", 2000) == 1200
    charge(ledger, "a", 700)
    assert left(ledger, "lab", 1000) == -100


@pytest.mark.parametrize(
    ("used", "asked", "text"),
    [
        ({"a": 14}, 2, "tenant a: cpu asked 2m, used 14m, limit 15m"),
        ({"b": 29}, 2, "tenant a: cpu asked 2m; of tenant all, which it is part of: used 29m, limit 30m"),
        (
            {"k": 5, "b": 24},
            3,
            "tenant k: cpu asked 3m (2m more than what is kept for it); of tenant all, which it is part of: "
            "used 24m, limit 24m",
        ),
    ],
    ids=["its own", "of the whole", "beyond what it keeps"],
)
def test_a_refusal_names_the_node_whose_limit_would_break(used: dict[str, int], asked: int, text: str) -> None:
    tree = [tenant("all"), tenant("b", 20, "all")]
    tree += [tenant("k", 10, "all", lend=4)] if "k" in used else [tenant("a", 10, "all", borrow=5)]
    ledger = QuotaLedger(tree)
    for name, cpu in used.items():
        charge(ledger, name, cpu)
    found = ledger.exceeded("k" if "k" in used else "a", {"cpu": asked}, {})
    assert found is not None
    assert found.text == text


def test_only_what_some_node_of_its_tree_has_is_limited() -> None:
    ledger = QuotaLedger([tenant("all"), tenant("a", parent="all"), tenant("other", 3)])
    assert left(ledger, "a") is None
    assert ledger.exceeded("a", {"cpu": 10**9}, {}) is None


@pytest.mark.parametrize(
    ("borrowed", "lendable", "weight", "want"),
    [
        (0, 100, 0, NO_SHARE),
        (-5, 100, 1000, NO_SHARE),
        (50, 100, 1000, FairShare(endless=False, billionths=500_000_000)),
        (50, 100, 2000, FairShare(endless=False, billionths=250_000_000)),
        (1, MAX_AMOUNT, 1000, FairShare(endless=False, billionths=1)),
        (50, 100, 0, FairShare(endless=True, billionths=500_000_000)),
        (5, 0, 1000, FairShare(endless=False, billionths=5_000_000_000)),
        (MAX_AMOUNT, 0, 1, FairShare(endless=False, billionths=MAX_AMOUNT)),
    ],
    ids=[
        "nothing",
        "less than it has",
        "half",
        "half, of weight 2",
        "the least",
        "without weight",
        "of nothing",
        "bounded",
    ],
)
def test_share_is_borrowed_of_what_can_be_by_weight(borrowed: int, lendable: int, weight: int, want: FairShare) -> None:
    assert fair_share(borrowed, lendable, weight) == want


def test_share_is_that_of_the_resource_of_which_most_was_borrowed() -> None:
    nominal = {"cpu": Share(absolute=100), "gpu": Share(absolute=8)}
    ledger = QuotaLedger(
        [Tenant("all", (), nominal), tenant("a", parent="all", weight=2000), tenant("b", parent="all")]
    )
    ledger.charge(("home", "1"), "a", {"cpu": 10, "gpu": 4})
    assert ledger.share("a", {}).number == 0.25
    assert ledger.node("a", {}).dominant() == "gpu"
    assert ledger.share("b", {}) == NO_SHARE
    assert ledger.share("a", {}, {"gpu": -4}).number == 0.05
    assert ledger.share("b", {}, {"cpu": 5}).number == 0.05


def test_two_tenants_compare_where_their_branches_part() -> None:
    tree = [tenant("all", 100), tenant("left", parent="all"), tenant("right", 50, "all")]
    tree += [tenant("l", parent="left"), tenant("r", parent="right"), tenant("q", 10, parent="right")]
    ledger = QuotaLedger(tree)
    charge(ledger, "l", 1)
    charge(ledger, "r", 40)
    assert ledger.share("l", {}) < ledger.share("r", {})
    assert ledger.shares("r", {}) < ledger.shares("l", {}), "right has borrowed nothing"
    assert ledger.shares("q", {}) == (), "zeros at the end say nothing"
    assert ledger.shares("q", {}) < ledger.shares("r", {})


def test_a_fleet_that_shrinks_and_grows_again_leaves_every_sum_as_it_was() -> None:
    ledger = QuotaLedger([tenant("all"), tenant("a", "50%", "all", lend=10), tenant("b", "50%", "all")])
    charge(ledger, "a", 45)
    before = dict(ledger.node("all", {"cpu": 100}).usage)
    assert before == {"cpu": 5}
    assert ledger.node("all", {"cpu": 40}).usage == {"cpu": 35}
    charge(ledger, "b", 7)
    ledger.release(("home", "b-7"))
    assert ledger.node("all", {"cpu": 100}).usage == before


@pytest.mark.parametrize(
    ("tenants", "why"),
    [
        ([tenant("a"), tenant("a")], "defined twice"),
        ([tenant("a", parent="b")], "no tenant"),
        ([tenant("a", parent="b"), tenant("b", parent="a"), tenant("c")], "below themselves"),
    ],
)
def test_what_is_no_tree_is_refused(tenants: list[Tenant], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TenantTree(tenants)
