"""Bytes a second that namespaces share: a few of them keep no others out."""

from agents.executor.bounds.byte_budget import ALL_BUT_KEPT, OF_CLUSTER, OF_NAMESPACE, ByteRate, SharedBudget


def used_up(budget: SharedBudget, namespace: str, size: int, now: float = 0.0, cluster: str = "b") -> tuple[int, str]:
    """How often that much is written until no more may be, and why not then."""
    for written in range(10_000):
        if spent := budget.spent(cluster, namespace, now):
            return written, spent
        budget.spend(cluster, namespace, now, size)
    raise AssertionError("nothing bounds it")


def test_a_namespace_has_its_own_rate_and_two_leave_a_quarter_to_those_with_little() -> None:
    budget = SharedBudget(ByteRate(1280, 5.0), ByteRate(2560, 10.0))
    assert used_up(budget, "first", 10) == (129, OF_NAMESPACE)
    assert used_up(budget, "second", 10) == (64, ALL_BUT_KEPT)
    assert used_up(budget, "third", 10) == (9, ALL_BUT_KEPT), "a 32nd"
    assert used_up(budget, "third", 10, cluster="c") == (129, OF_NAMESPACE)


def test_what_is_kept_has_an_end_and_what_namespaces_may_comes_back_with_time() -> None:
    budget = SharedBudget(ByteRate(1280, 5.0), ByteRate(2560, 10.0))
    for name in ("first", "second"):
        used_up(budget, name, 10)
    whys = [used_up(budget, f"n-{number}", 10)[1] for number in range(10)]
    assert (whys[0], whys[-1]) == (ALL_BUT_KEPT, OF_CLUSTER)
    assert [budget.spent("b", name, 40.0) for name in ("n-0", "second")] == ["", ALL_BUT_KEPT]
    assert budget.spent("b", "second", 200.0) == ""
