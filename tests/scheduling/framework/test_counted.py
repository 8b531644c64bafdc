"""Filter and score of a policy that is stated as rules over counts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.counted import CountedPlugin, pods_by_domain
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    Scale,
    ScoreTerm,
    constant,
)
from dispatcher.scheduling.framework.sound_rules import flaw_of
from shared.model.names import HOSTNAME, ZONE
from shared.model.reasons import Reasons, ReasonTable
from tests.builders import fleet, pod

DOMAIN = np.asarray([0, 1, 2, -1], dtype=np.int32)  # of four nodes
VIEW = view_of(fleet(a=["n1", "n2", "n3", "n4"]))
PODS = RuleCount(DOMAIN, np.asarray([0, 1, 3]), more=1, by_host=False)
NOBODY = replace(PODS, counts=np.zeros(3, dtype=np.int64))
OTHERS = np.asarray([False, True, True])
REASONS = ReasonTable()
for number in range(9):
    REASONS.code(Reasons.SPREAD, f"key-{number}")  # so that 1 to 9 are codes


class Stated(CountedPlugin):
    name = "Stated"

    def class_key(self, pod_info: PodInfo) -> None:
        return None


def stated(**how: Any) -> CountedPlugin:
    """One with this scale, base or void."""
    cls: type[CountedPlugin] = type("Stated", (Stated,), how)
    return cls()


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        pytest.param(CountRules(), [0, 0, 0, 0], id="nothing"),
        pytest.param(CountRules([MaxCount(PODS, 1, 7)]), [0, 0, 7, 0], id="more than one"),
        pytest.param(CountRules([MaxCount(PODS, 1, 7, elsewhere=9)]), [0, 0, 7, 9], id="and no domain"),
        pytest.param(
            CountRules([MaxCount(PODS, 1, 7, present=OTHERS)]), [0, 0, 7, 0], id="more than the least and one"
        ),
        pytest.param(CountRules([MaxCount(PODS, 2, 7, present=OTHERS)]), [0, 0, 0, 0], id="not more than that"),
        pytest.param(
            CountRules([MaxCount(PODS, 0, 7), MaxCount(PODS, 2, 8)]), [0, 7, 7, 0], id="the first that refuses"
        ),
        pytest.param(CountRules([RequiredCount(PODS, 7)]), [7, 0, 0, 7], id="some pod"),
        pytest.param(CountRules([RequiredCount(NOBODY, 7)]), [7, 7, 7, 7], id="some pod, and there is none"),
        pytest.param(CountRules([RequiredCount(NOBODY, 7)], first_pod_exempt=True), [0, 0, 0, 7], id="the first pod"),
    ],
)
def test_rules_refuse_rows_by_their_counts(rules: CountRules, codes: list[int]) -> None:
    assert Stated().filter(rules, VIEW, slice(0, 4)).tolist() == codes


def test_terms_of_the_score_add_up() -> None:
    rules = CountRules(score_terms=[ScoreTerm(PODS, -10.0, 50.0, elsewhere=5.0), ScoreTerm(PODS, 1.0)])
    assert Stated().score(rules, VIEW, slice(0, 4)).tolist() == [50.0, 41.0, 23.0, 5.0]


def test_a_base_is_a_part_of_each_score_once() -> None:
    rules = CountRules(score_terms=[ScoreTerm(PODS, -10.0, elsewhere=5.0), ScoreTerm(PODS, 1.0)], base=-1.0)
    assert stated(base=-1.0).score(rules, VIEW, slice(0, 4)).tolist() == [-1.0, -10.0, -28.0, 4.0]


@pytest.mark.parametrize(("needs_all", "domains"), [(False, 4), (True, 3)])
def test_factors_grow_with_the_number_of_domains_that_take_pods(needs_all: bool, domains: int) -> None:
    """The node without a domain counts as one more, unless all terms need theirs."""
    rules = CountRules(score_terms=[ScoreTerm(PODS, -1.0)], sized=True, needs_all_domains=needs_all)
    plugin, every = Stated(), slice(0, 4)
    state = plugin.pre_score_domains(rules, VIEW, every)
    assert plugin.score(state, VIEW, every).tolist() == [0.0, -np.log(domains + 2), -3 * np.log(domains + 2), 0.0]


TERMS = [ScoreTerm(PODS, -1.0)]
COST: dict[str, Any] = {"scale": Scale.COST, "base": -1.0}


@pytest.mark.parametrize(
    ("how", "rules", "want"),
    [
        pytest.param({"scale": Scale.RANGE}, CountRules(score_terms=TERMS), "scale=self.scale", id="no scale"),
        pytest.param({}, CountRules(score_terms=TERMS, scale=Scale.RANGE), "scale=self.scale", id="of rules alone"),
        pytest.param(COST, CountRules(score_terms=TERMS, scale=Scale.COST), "scale, base and void", id="no base"),
        pytest.param(
            {**COST, "void": -9.0}, CountRules(score_terms=TERMS, **COST), "scale, base and void", id="no void"
        ),
        pytest.param(
            {"scale": Scale.COST}, CountRules(score_terms=TERMS, scale=Scale.COST), "base = -1.0", id="base 0"
        ),
        pytest.param(COST, CountRules(**COST), "without score terms", id="a base of no term"),
    ],
)
def test_rules_that_score_otherwise_than_the_class_are_an_error(
    how: dict[str, Any], rules: CountRules, want: str
) -> None:
    """Of these, a batch would give other scores than a single pod: it goes by the rules alone."""
    plugin = stated(**how)
    with pytest.raises(ValueError, match=want):
        plugin.checked_rules(rules, VIEW)
    with pytest.raises(ValueError, match=want):
        plugin.score(rules, VIEW, slice(0, 4))


@pytest.mark.parametrize("how", [{}, {"scale": Scale.RANGE}, COST], ids=["as is", "range", "cost"])
def test_rules_that_say_what_the_class_says_are_taken(how: dict[str, Any]) -> None:
    plugin = stated(**how)
    for rules in (CountRules(), CountRules(score_terms=TERMS, **how)):
        assert plugin.checked_rules(rules, VIEW) is rules
        assert len(plugin.score_parts(rules, VIEW)) == len(rules.score_terms)


@pytest.mark.parametrize(("key", "by_host"), [("host", True), (HOSTNAME, True), ("zone", False), (ZONE, False)])
def test_a_host_is_a_node_whatever_its_key_is_called(key: str, by_host: bool) -> None:
    assert pods_by_domain(pod().labels(app="u").build(), key, VIEW).by_host is by_host


@pytest.mark.parametrize(
    ("count", "factor"), [(PODS, -1.0), (replace(PODS, by_host=True), 0.0)], ids=["factor", "host"]
)
def test_a_term_by_a_table_goes_by_nothing_else(count: RuleCount, factor: float) -> None:
    with pytest.raises(ValueError, match="use constant"):
        ScoreTerm(count, factor, table=np.zeros(3))


def test_a_constant_term_by_host_is_taken() -> None:
    term = constant(VIEW.topology.domain("host"), np.asarray([3.0, 1.0, 2.0, 0.0]))
    assert Stated().score(CountRules(score_terms=[term]), VIEW, slice(0, 4)).tolist() == [3.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        (CountRules([MaxCount(PODS, 1, 7, present=OTHERS), RequiredCount(NOBODY, 7)], score_terms=TERMS), ""),
        (CountRules([MaxCount(replace(PODS, counts=np.zeros(3)), 1, 7)]), "must be [domains] int64"),  # type: ignore[arg-type]
        (CountRules([RequiredCount(replace(PODS, counts=[0, 0, 0]), 7)]), "must be [domains] int64"),  # type: ignore[arg-type]
        (CountRules([MaxCount(replace(PODS, domain=DOMAIN[:3]), 1, 7)]), "must be [4] whole numbers"),
        (CountRules([MaxCount(replace(PODS, by_host=True), 1, 7)]), "is about 3 rows of 4"),
        (
            CountRules([MaxCount(replace(PODS, counts=np.zeros(4, dtype=np.int64), by_host=True), 1, 7)]),
            "fleet.topology.domain('host')",
        ),
        (CountRules([MaxCount(replace(PODS, counted=DOMAIN[:1]), 1, 7)]), "counted is about (1,) rows of 4"),
        (CountRules([MaxCount(PODS, 1, 7, present=OTHERS[1:])]), "is about (2,) domains of 3"),
        (CountRules(score_terms=[constant(DOMAIN, np.zeros(3)), ScoreTerm(PODS, 0.0, table=np.zeros(1))]), "of 3"),
    ],
    ids=["none", "floats", "list", "rows", "hosts", "of zones", "counted", "present", "table"],
)
def test_rules_that_no_batch_can_be_judged_by_are_told(rules: CountRules, want: str) -> None:
    flaw = flaw_of(rules, VIEW.topology.domain("host"), REASONS)
    assert want in flaw
    assert bool(want) == bool(flaw)
