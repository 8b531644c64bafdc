"""A number that meant one taint or label value, and is given to another one, never answers for what it meant before."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.taint_toleration import TaintToleration
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.rules.eligibility import LabelMasks, TaintMasks, Tolerance, untolerated
from shared.model.labels import GT, IN, NOT_IN, OPERATORS, Requirement
from shared.model.names import ZONE
from shared.model.node import NO_SCHEDULE, PREFER_NO_SCHEDULE
from shared.model.pod import SpreadConstraint
from tests.builders import PodBuilder, fleet, node, pod, selector
from tests.laws.examples import examples
from tests.laws.pairs import CLUSTERS
from tests.laws.test_equivalence_laws import Audited
from tests.laws.test_placement_laws import begin, real

NAMES = tuple(f"n{at}" for at in range(1, 11))
VALUES = [str(one) for one in range(1, 8)]
KINDS: dict[str, Callable[[PodBuilder, str], PodBuilder]] = {
    "plain": lambda one, value: one,
    "tolerant": lambda one, value: one.tolerates("until", value),
    "tolerant of any": lambda one, value: one.tolerates("until", operator="Exists"),
    "selector": lambda one, value: one.node_selector({"zone": value}),
    "other zone": lambda one, value: one.requires("zone", NOT_IN, value),
    "preferred": lambda one, value: one.prefers(5, "rank", IN, value).prefers(3, "rank", GT, value),
    "spread": lambda one, value: one.spread("zone"),
    "spread where tolerated": lambda one, value: one.tolerates("until", value).set(
        spread=(SpreadConstraint("zone", honor_taints=True),)
    ),
    "away": lambda one, value: one.away("zone", selector(app="u")),
    "beside": lambda one, value: one.near("zone", selector(app="u")),
}


@st.composite
def nodes(draw: st.DrawFn, names: Sequence[str] = NAMES) -> Any:
    built = node(draw(st.sampled_from(names))).cpu("2")
    for key in ("zone", "rank"):
        value = draw(st.sampled_from(("", *VALUES)))
        built = built.labels(**{key: value}) if value else built
    effect = draw(st.sampled_from(("", NO_SCHEDULE, PREFER_NO_SCHEDULE)))
    return (built.taint("until", draw(st.sampled_from(VALUES)), effect) if effect else built).build()


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one = pod("p").labels(app=draw(st.sampled_from("uv"))).cpu("100m")
    return KINDS[draw(st.sampled_from([*KINDS]))](one, draw(st.sampled_from(VALUES[:3]))).placed("a")


def asked_anew(state: FleetState, clauses: list[Requirement], pod_info: PodInfo, kept: "Kept") -> None:
    """What is kept says of each node what its labels and taints say."""
    view, rows = view_of(state), state.live.nonzero()[0]
    alive = [one for row in rows.tolist() if (one := state.node(row)) is not None]
    for clause in clauses:
        assert kept.masks.clause(clause, view, rows).tolist() == [clause.matches(one.labels) for one in alive]
    hard = [untolerated(pod_info.pod.tolerations, one.taints) for one in alive]
    assert kept.taint_masks.tolerated(Tolerance.read(pod_info, view), view)[rows].tolist() == [
        one is None for one in hard
    ]
    told = kept.taints.filter(kept.verdicts, view, rows).tolist()
    assert [code and state.reasons.why(code).argument for code in told] == [str(one) if one else 0 for one in hard]
    found = [state.domain_values("zone")[code] if code >= 0 else None for code in state.domain("zone")[rows].tolist()]
    assert found == [one.labels.get(ZONE) for one in alive]
    for value in VALUES:
        at = [row for row, one in zip(rows.tolist(), alive, strict=True) if one.labels.get(ZONE) == value]
        assert state.label_rows(ZONE, value).tolist() == at


class Kept:
    """What lasts while nodes come and go."""

    def __init__(self, state: FleetState, pod_info: PodInfo) -> None:
        self.masks, self.taint_masks, self.taints = LabelMasks(), TaintMasks(), TaintToleration()
        verdicts = self.taints.pre_filter(pod_info, view_of(state))
        assert isinstance(verdicts, Tolerance)
        self.verdicts = verdicts


changes = st.lists(
    st.tuples(st.lists(nodes(), max_size=10, unique_by=lambda one: one.name), st.booleans()), max_size=12
)
keys, values = st.sampled_from((ZONE, "rank")), st.sampled_from(VALUES).map(lambda one: (one,))


@settings(max_examples=examples(100), deadline=None)
@given(changes, st.lists(st.builds(Requirement, keys, st.sampled_from(OPERATORS), values), max_size=4), pods())
def test_what_is_kept_by_code_says_what_the_nodes_say(
    changes: list[tuple[list[Any], bool]], clauses: list[Requirement], pod_info: PodInfo
) -> None:
    state = fleet(a=[])
    kept = Kept(state, pod_info)
    for told, gone in changes:
        state.put_nodes("a", told)
        asked_anew(state, clauses, pod_info, kept)
        if gone:
            state.remove_node("a", "n1")


clusters = st.sampled_from(CLUSTERS)
events = st.one_of(
    *[st.tuples(st.just("node"), clusters, nodes(NAMES[:2]))] * 3,
    st.tuples(st.just("gone"), clusters, st.sampled_from(("n1", "n2"))),
    *[st.tuples(st.just("pods"), pods(), st.integers(1, 3))] * 3,
    st.tuples(st.just("end"), st.integers(0, 20)),
)


@settings(max_examples=examples(60), deadline=None)
@given(script=st.lists(events, max_size=30))
def test_taints_and_labels_that_come_and_go_are_decided_as_if_they_were_the_first(
    script: list[tuple[Any, ...]],
) -> None:
    pair = begin(Audited(DEFAULT_PROFILE, real, batched=True))
    for event in script:
        pair.apply(event)
