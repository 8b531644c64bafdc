"""Volumes looked up by label are those that trying one after the other finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.volume_choice import NONE, Chooser
from dispatcher.scheduling.rules.volume_match import Candidates
from shared.model.labels import IN, NOT_IN, NodeSelectorTerm, Requirement
from shared.model.names import HOSTNAME, ZONE
from shared.model.objects import PersistentVolume
from tests.builders import fleet, node
from tests.laws.examples import examples
from tests.plugins.storage import volume

NODES = [node(f"n{at}").labels(zone=f"z{at % 3}") for at in range(6)] + [node("nowhere")]
CLAUSES = st.one_of(
    st.builds(Requirement, st.just(HOSTNAME), st.just(IN), st.tuples(st.sampled_from(["n0", "n1", "n5", "gone"]))),
    st.builds(Requirement, st.just(ZONE), st.just(IN), st.sampled_from([("z0",), ("z1", "z2"), ("z0", "z9"), ("-",)])),
    st.builds(Requirement, st.just(ZONE), st.just(NOT_IN), st.just(("z1",))),
)
TERMS = st.lists(st.lists(CLAUSES, max_size=2).map(tuple).map(NodeSelectorTerm), max_size=2).map(tuple)
VOLUMES = st.lists(st.none() | TERMS, max_size=8).map(
    lambda found: [volume(f"pv{at}", node_affinity=terms) for at, terms in enumerate(found)]
)


@settings(max_examples=examples(200), deadline=None)
@given(VOLUMES, st.lists(st.permutations(range(8)), min_size=1, max_size=3))
def test_what_is_looked_up_is_what_a_scan_finds(volumes: list[PersistentVolume], orders: list[list[int]]) -> None:
    state = fleet(a=NODES)
    everywhere = np.arange(state.n)
    chooser = Chooser(view_of(state), slice(0, state.n), LabelMasks())
    for order in orders:
        wanted = [volumes[at] for at in order if at < len(volumes)]
        expected = chooser.scan(wanted, everywhere)
        assert chooser.choose(Candidates(tuple(wanted))).tolist() == expected.tolist()


def test_without_candidates_there_is_nothing_to_choose() -> None:
    state = fleet(a=NODES)
    assert set(Chooser(view_of(state), slice(0, state.n), LabelMasks()).choose(Candidates(())).tolist()) == {NONE}
