"""The rows `mixed_*`. Each case is given the share of the work to do, 1 for all of it, 10 for a
tenth.
"""

from dataclasses import replace

from benchmarks.mixed.measures import bound_rate, ended_pod_ms, preemption_ms, refusal_rate
from benchmarks.report.rows import Row
from benchmarks.workloads.mixed import Mix

_THROUGH = "core with queue, quota, reports, answers and records, by CPU time"
_ENDED = "CPU time for each pod that ends while others wait for room"
_BESIDE = "one template in the same run"


def _bound_row(
    name: str, mix: Mix, target: float | None, one: float, *, burst: int | None = None
) -> Row:
    rate = bound_rate(mix, burst=burst)
    return Row(name, mix.nodes, mix.pods, rate, "bound/s", target, one, _THROUGH, _BESIDE)


def _one(share: int) -> tuple[Mix, float]:
    mix = Mix(pods=20_000 // share, nodes=max(5000 // share, 100))
    return mix, bound_rate(mix)


def mixed_classes(share: int) -> list[Row]:
    """200 and 1,000 templates in turn."""
    mix, one = _one(share)
    return [
        Row("mixed_one_template", mix.nodes, mix.pods, one, "bound/s", 100_000, None, _THROUGH),
        _bound_row("mixed_200_classes", replace(mix, classes=200), 20_000, one),
        _bound_row("mixed_1000_classes", replace(mix, classes=1000), 10_000, one),
    ]


def mixed_tenants(share: int) -> list[Row]:
    """200 templates of 50 tenants with ratio quotas, readings coming in, pods ending."""
    mix, one = _one(share)
    mix = replace(mix, classes=200, tenants=50)
    return [
        _bound_row("mixed_50_tenants", mix, None, one),
        _bound_row("mixed_50_tenants_readings", replace(mix, readings=50), 15_000, one),
        _bound_row("mixed_50_tenants_churn", replace(mix, churn=20), None, one),
        _bound_row("mixed_50_tenants_tree", replace(mix, tree=True), 20_000, one),
    ]


def mixed_claims(share: int) -> list[Row]:
    """Pods with a claim each that waits for its pod: a node is written on it, its volume made, the
    pod bound.
    """
    mix, one = _one(share)
    return [
        _bound_row(
            "mixed_claims_that_wait", replace(mix, pods=mix.pods // 4, claims=True), 5000, one
        )
    ]


def mixed_small_pods(share: int) -> list[Row]:
    """Pods of 50m and 64Mi, of one template."""
    mix, one = _one(share)
    small = replace(mix, cpu=50, memory=64 * 2**20)
    return [_bound_row("mixed_small_pods", small, 100_000, one)]


def mixed_rules(share: int) -> list[Row]:
    """Templates with anti-affinity by hostname, or that prefer to spread over zones and hosts: all
    pods at once, then in bursts of about one pod a template, so that each is decided by itself.
    """
    mix, one = _one(share)
    soft, few = replace(mix, soft_spread=100, classes=1000), mix.pods // 4
    return [
        _bound_row(
            "mixed_500_classes_20_anti_affinity",
            replace(mix, classes=500, anti_affinity=20),
            5000,
            one,
        ),
        _bound_row("mixed_200_soft_spread", replace(soft, classes=200), 8000, one),
        _bound_row("mixed_1000_soft_spread", soft, 4000, one),
        _bound_row(
            "mixed_1000_soft_spread_bursts", replace(soft, pods=few), None, one, burst=few // 5
        ),
    ]


def mixed_refusals(share: int) -> list[Row]:
    """30,000 pods of 200 templates, none of which fits anywhere."""
    mix = Mix(pods=30_000 // share, nodes=max(5000 // share, 100), classes=200)
    one, found = refusal_rate(replace(mix, classes=1)), refusal_rate(mix)
    return [
        Row(name, mix.nodes, mix.pods, value, "refusals/s", target, beside, _THROUGH, _BESIDE)
        for name, target, value, beside in (
            ("mixed_refusals", 50_000, found.pending, one.pending),
            ("mixed_refusals_with_report", None, found.with_report, one.with_report),
            ("mixed_refusals_again", 50_000, found.again, one.again),
        )
    ]


def mixed_full_queue(share: int) -> list[Row]:
    """30,000 pods of 200 templates wait for room, of which pods that end leave some: one at a time,
    or 20.
    """
    mix = Mix(pods=30_000 // share, nodes=max(1000 // share, 20), classes=200)
    rows = []
    for name, at_a_time, ended in (
        ("mixed_full_queue_ended_pod", 1, 400),
        ("mixed_full_queue_20_ended_pods", 20, 8000),
    ):
        one, cost = (
            ended_pod_ms(some, pods_each=8, at_a_time=at_a_time, ended=ended // share)
            for some in (replace(mix, classes=1), mix)
        )
        rows.append(Row(name, mix.nodes, mix.pods, cost, "ms", None, one, _ENDED, _BESIDE))
    return rows


def mixed_preemption(share: int) -> list[Row]:
    """One preemptor at a time, beside budgets."""
    nodes = 1000 // share
    none, *others = (preemption_ms(nodes, 4, budgets) for budgets in (0, 20, 200))
    counts, beside = (
        "the tick that nominates, by CPU time, median of 5",
        "without budgets in the same run",
    )
    return [
        Row("mixed_preemption_0_budgets", nodes, 4 * nodes, none, "ms", 10, None, counts),
        *(
            Row(
                f"mixed_preemption_{budgets}_budgets",
                nodes,
                4 * nodes,
                one,
                "ms",
                10,
                none,
                counts,
                beside,
            )
            for budgets, one in zip((20, 200), others, strict=True)
        ),
    ]


def mixed_records(share: int) -> list[Row]:
    """What it costs more to journal the record of every decision."""
    mix, one = _one(share)
    recorded = bound_rate(mix, recorded=True)
    cost = (1 / recorded - 1 / one) * 1e6
    name, counts = (
        "mixed_record_cost",
        "more CPU time a decision, made words and written to the journal",
    )
    return [Row(name, mix.nodes, mix.pods, cost, "us", 15, None, counts)]


CASES = (
    mixed_classes,
    mixed_tenants,
    mixed_claims,
    mixed_small_pods,
    mixed_rules,
    mixed_refusals,
    mixed_full_queue,
    mixed_preemption,
    mixed_records,
)
