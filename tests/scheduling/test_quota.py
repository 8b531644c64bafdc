from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.quota import Charge, QuotaLedger, charge_of, without_figures
from dispatcher.scheduling.quota_claims import QuotaClaims
from dispatcher.scheduling.tenants.shares import limit_of
from dispatcher.scheduling.unsynced_usage import UnsyncedUsage
from shared.model.tenant import Share, Tenant
from tests.builders import pod

TOTALS = {"cpu": 100_000, "memory": 1000, "pods": 110}


@pytest.mark.parametrize(
    ("share", "total", "want"),
    [
        (Share(absolute=7), 0, 7),
        (Share(ratio=0.4), 100_000, 40_000),
        (Share(ratio=0.57), 100, 57),
        (Share(ratio=0.29), 100, 29),
        (Share(ratio=1 / 3), 100, 33),
        (Share(ratio=0.999), 10, 9),
        (Share(ratio=1.0), 2**62, 2**62),
        (Share(ratio=0.5), 0, 0),
        (Share(), 100, 0),
    ],
    ids=["amount", "40%", "57% is not 56", "29%", "a third", "down", "all of the most", "no fleet", "nothing"],
)
def test_limit_rounds_down_and_knows_no_float_error(share: Share, total: int, want: int) -> None:
    assert limit_of(share, total) == want


@given(st.integers(0, 10_000), st.integers(0, 2**62))
def test_limit_of_hundredths_of_a_percent_is_exact(hundredths: int, total: int) -> None:
    assert limit_of(Share(ratio=hundredths / 10_000), total) == int(total * Fraction(hundredths, 10_000))


def test_a_pod_is_charged_its_requests_and_one_pod() -> None:
    assert charge_of(pod().cpu("500m").memory(0).build()) == {"cpu": 500, "pods": 1}


@pytest.mark.parametrize(
    ("cluster", "namespace", "want"),
    [
        ("a", "web", "one"),
        ("b", "web", "one"),
        ("a", "shared", "two"),
        ("b", "shared", None),
        ("a", "ml-train", "two"),
        ("a", "ml", None),
        ("a", "other", None),
    ],
)
def test_tenant_is_the_first_that_owns_the_namespace(cluster: str, namespace: str, want: str | None) -> None:
    tenants = [Tenant("one", ("web",), {}), Tenant("two", ("a/shared", "ml-*", "web"), {})]
    assert QuotaLedger(tenants).tenant_of(cluster, namespace) == want


def test_exceeded_names_the_first_limit_that_would_break() -> None:
    ledger = QuotaLedger([Tenant("t", ("t",), {"cpu": Share(ratio=0.4), "memory": Share(absolute=10)})])
    assert ledger.exceeded("t", {"cpu": 40_000, "memory": 10, "gpu": 99}, TOTALS) is None
    both = ledger.exceeded("t", {"memory": 11, "cpu": 40_001}, TOTALS)
    assert both is not None
    assert both.text == "tenant t: cpu asked 40001m, used 0, limit 40"


def test_a_pod_that_asks_nothing_fits_a_tenant_that_is_over_its_limit() -> None:
    ledger = QuotaLedger([Tenant("t", ("t",), {"cpu": Share(absolute=10)})])
    ledger.charge(("a", "1"), "t", {"cpu": 50, "pods": 1})
    assert ledger.exceeded("t", {"pods": 1, "cpu": 0}, TOTALS) is None
    assert ledger.exceeded("t", {"cpu": 1}, TOTALS) is not None


def test_release_is_exact_and_only_once() -> None:
    ledger = QuotaLedger([Tenant("t", ("t",), {})])
    ledger.charge(("a", "1"), "t", {"cpu": 5})
    assert ledger.release(("a", "1")) == Charge("t", {"cpu": 5})
    assert ledger.release(("a", "1")) is None
    assert ledger.usage("t") == {}


def test_equal_charges_are_kept_once() -> None:
    ledger = QuotaLedger([Tenant("t", ("t",), {}), Tenant("other", ("o",), {})])
    for number in range(2):
        ledger.charge(("a", str(number)), "t", {"cpu": 5, "pods": 1})
    ledger.charge_all([("b", "1")], "t", {"pods": 1, "cpu": 5})
    ledger.charge(("b", "2"), "other", {"cpu": 5, "pods": 1})
    alike = [ledger.charged(one) for one in (("a", "0"), ("a", "1"), ("b", "1"))]
    assert all(one is alike[0] for one in alike)
    assert ledger.charged(("b", "2")) == Charge("other", {"cpu": 5, "pods": 1})
    assert ledger.usage("t") == {"cpu": 15, "pods": 3}


pods = st.integers(0, 5).map(lambda number: ("a", str(number)))
charges = st.tuples(pods, st.sampled_from(["one", "two"]), st.dictionaries(st.sampled_from("cm"), st.integers(0, 60)))
moves = st.lists(st.one_of(charges, pods), max_size=40)


@given(moves)
def test_usage_is_always_the_sum_of_what_is_charged(history: list[tuple[object, ...]]) -> None:
    """In any order of charging, charging anew and giving back; and nothing is left when all is given back."""
    ledger = QuotaLedger([Tenant("one", (), {}), Tenant("two", (), {})])
    held: dict[object, tuple[str, dict[str, int]]] = {}
    for move in history:
        if len(move) == 3:
            pod_id, tenant, amounts = move
            ledger.charge(pod_id, tenant, amounts)  # type: ignore[arg-type]
            held[pod_id] = (tenant, amounts)  # type: ignore[assignment]
        else:
            ledger.release(move)  # type: ignore[arg-type]
            held.pop(move, None)
        for name in ("one", "two"):
            want: dict[str, int] = {}
            for tenant, amounts in held.values():
                for resource, amount in amounts.items():
                    want[resource] = want.get(resource, 0) + amount * (tenant == name)
            assert ledger.usage(name) == {resource: amount for resource, amount in want.items() if amount}
    for pod_id in list(held):
        ledger.release(pod_id)  # type: ignore[arg-type]
    assert ledger.usage("one") == ledger.usage("two") == {}


@given(moves, st.floats(0, 1))
def test_a_charge_that_fits_never_takes_usage_above_nominal(history: list[tuple[object, ...]], ratio: float) -> None:
    shares = {"c": Share(ratio=ratio), "m": Share(absolute=100)}
    totals = {"c": 150, "m": 1}
    ledger = QuotaLedger([Tenant("one", (), shares), Tenant("two", (), shares)])
    for move in history:
        if len(move) == 2:
            ledger.release(move)  # type: ignore[arg-type]
            continue
        pod_id, tenant, amounts = move
        ledger.release(pod_id)  # type: ignore[arg-type]
        if ledger.exceeded(tenant, amounts, totals) is None:  # type: ignore[arg-type]
            ledger.charge(pod_id, tenant, amounts)  # type: ignore[arg-type]
        for name in ("one", "two"):
            limits, usage = ledger.limits(name, totals), ledger.usage(name)
            assert all(usage.get(resource, 0) <= limit for resource, limit in limits.items())


amounts = st.dictionaries(st.sampled_from("cm"), st.integers(0, 60))


@given(amounts, amounts, st.integers(0, 300), st.integers(0, 300), st.integers(0, 9))
def test_many_are_charged_as_one_by_one(
    there: dict[str, int], asked: dict[str, int], most_c: int, most_m: int, wanted: int
) -> None:
    limits = {"c": Share(absolute=most_c), "m": Share(absolute=most_m)}
    ledgers = [QuotaLedger([Tenant("t", ("t",), limits)]) for _ in range(2)]
    for ledger in ledgers:
        ledger.charge(("a", "there"), "t", there)
    many, one_by_one = ledgers
    pod_ids = [("ab"[at % 2], str(at)) for at in range(wanted)]
    fits = many.times("t", asked, TOTALS, wanted)
    many.charge_all(pod_ids[:fits], "t", asked)
    charged = 0
    while charged < wanted and one_by_one.exceeded("t", asked, TOTALS) is None:
        one_by_one.charge(pod_ids[charged], "t", asked)
        charged += 1
    assert fits == charged
    assert many.usage("t") == one_by_one.usage("t")
    assert [many.charged(one) for one in pod_ids] == [one_by_one.charged(one) for one in pod_ids]
    assert [many.unsynced.charged("t", home) for home in "ab"] == [
        one_by_one.unsynced.charged("t", home) for home in "ab"
    ]


def test_what_a_refusal_says_beside_moving_figures_is_kept() -> None:
    over = "tenant quota exceeded: tenant a: cpu asked 1, used 2, limit 2; cluster c refused it: {}"
    assert without_figures(over.format("x")) != without_figures(over.format("y"))
    assert without_figures(over.format("x")) == without_figures(over.format("x").replace("used 2", "used 1500m"))


def test_what_no_pod_waits_for_any_more_is_forgotten_by_name() -> None:
    claims = QuotaClaims()
    claims.put(("a", "stays"), "t", 5, {"cpu": 1, "pods": 1})
    claims.put(("a", "goes"), "t", 5, {"cpu": 2, "odd": 3, "pods": 1})
    claims.drop(("a", "goes"))
    assert claims.above("t", 0) == {"cpu": 1, "pods": 1}
    claims.drop(("a", "stays"))
    assert not claims.of(["t"])


def test_of_what_is_given_back_not_even_the_name_is_kept() -> None:
    unsynced = UnsyncedUsage()
    unsynced.note("t", "a", {"cpu": 2, "odd": 3}, 1)
    unsynced.note("t", "a", {"cpu": 1, "odd": 3}, -1)
    assert unsynced.charged("t", "a") == {"cpu": 1}


def all_of(ledger: QuotaLedger) -> int:
    return ledger.tree.nodes["all"].usage.get("cpu", 0)


TEAMS = [
    Tenant("all", (), {"cpu": Share(absolute=6)}),
    Tenant("red", ("red",), {}, parent="all"),
    Tenant("blue", ("blue",), {}, parent="all"),
]


def test_quota_that_is_kept_for_one_and_still_used_by_another_counts_once() -> None:
    """The example of `quota_holds`."""
    ledger = QuotaLedger(TEAMS)
    for at in range(6):
        ledger.charge(("a", f"{at}"), "blue", {"cpu": 1})
    ledger.hold(("a", "red"), "red", {"cpu": 3}, [("a", f"{at}") for at in range(3)])
    assert (all_of(ledger), ledger.tree.nodes["red"].usage) == (6, {"cpu": 3})
    ledger.release(("a", "0"))
    assert all_of(ledger) == 6
    ledger.release(("a", "5"))
    assert all_of(ledger) == 5, "one is free"
    with ledger.holds_aside([("a", "red")]):
        assert all_of(ledger) == 4, "what the pod itself has to wait for"
    ledger.charge(("a", "red"), "red", {"cpu": 3})
    assert all_of(ledger) == 7


def test_below_a_tenant_that_lends_not_all_both_count() -> None:
    lends = Share(absolute=1)
    red = Tenant("red", ("red",), {"cpu": Share(absolute=3)}, "all", lending_limit={"cpu": lends})
    ledger = QuotaLedger([TEAMS[0], red, TEAMS[2]])
    ledger.charge(("a", "0"), "blue", {"cpu": 3})
    ledger.hold(("a", "red"), "red", {"cpu": 3}, [("a", "0")])
    assert all_of(ledger) == 3 + 1


def test_below_such_a_tenant_no_two_wait_for_the_same() -> None:
    """The second waits for the pod that nobody waits for yet, though the other leaves, too."""
    red = Tenant("red", ("red",), {"cpu": Share(absolute=3)}, "all", lending_limit={"cpu": Share(absolute=1)})
    ledger = QuotaLedger([TEAMS[0], red, TEAMS[2]])
    leaving = [("a", "0"), ("a", "1")]
    for one in leaving:
        ledger.charge(one, "blue", {"cpu": 2})
    assert ledger.hold(("a", "first"), "red", {"cpu": 2}, leaving) == leaving[:1]
    assert ledger.hold(("a", "second"), "red", {"cpu": 2}, leaving) == leaving[1:]


STEPS = st.lists(st.tuples(st.sampled_from(("charge", "release", "try", "hold", "drop", "aside")), st.integers(0, 5)))


@given(STEPS, st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_what_counts_is_what_is_used_and_of_what_is_kept_no_less_than_those_that_leave_do_not_use(
    steps: list[tuple[str, int]], sizes: list[int]
) -> None:
    """Whatever is charged, given back, tried and kept in which order; and at the end all is as at first."""
    ledger = QuotaLedger(TEAMS)
    used: dict[int, int] = {}
    kept: dict[int, int] = {}
    for step, at in steps:
        pod_id, waits = ("a", f"{at}"), ("a", f"waits-{at}")
        if step == "charge":
            ledger.charge(pod_id, "blue", {"cpu": sizes[at]})
            used[at] = sizes[at]
        elif step == "release":
            ledger.release(pod_id)
            used.pop(at, None)
        elif step == "try":
            ledger.put_back(pod_id, ledger.release(pod_id))
        elif step == "hold":
            ledger.hold(waits, "red", {"cpu": sizes[at]}, [("a", f"{one}") for one in (at, (at + 1) % 6)])
            kept[at] = sizes[at]
        elif step == "drop":
            ledger.drop_hold(waits)
            kept.pop(at, None)
        else:
            with ledger.holds_aside([("a", f"waits-{one}") for one in kept]):
                assert all_of(ledger) == sum(used.values())
        assert max(sum(used.values()), sum(kept.values())) <= all_of(ledger) <= sum(used.values()) + sum(kept.values())
        assert ledger.tree.nodes["red"].usage.get("cpu", 0) == sum(kept.values())
    for at in range(6):
        ledger.drop_hold(("a", f"waits-{at}"))
        ledger.release(("a", f"{at}"))
    assert all_of(ledger) == 0
