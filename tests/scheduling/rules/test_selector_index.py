"""Many selectors asked at once say what each says alone, and what is kept of their answers has a bound."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.rules.selector_index import SelectorIndex, less, planes
from shared.model.labels import OPERATORS, LabelSelector, Requirement

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(("1", "2", "x", ""))
LABELS = st.dictionaries(KEYS, VALUES)
CLAUSES = st.builds(Requirement, KEYS, st.sampled_from((*OPERATORS, "Like")), st.lists(VALUES, max_size=2).map(tuple))
SELECTORS = st.builds(LabelSelector, LABELS, st.lists(CLAUSES, max_size=3).map(tuple))


@given(selectors=st.lists(SELECTORS, max_size=70), pods=st.lists(LABELS, min_size=1, max_size=5))
def test_the_index_says_of_each_selector_what_it_says_itself(
    selectors: list[LabelSelector], pods: list[dict[str, str]]
) -> None:
    index = SelectorIndex(selectors)
    for labels in pods:
        matching = sum(1 << at for at, one in enumerate(selectors) if one.matches(labels))
        assert index.matching(labels) == matching
        assert index.matching(dict(reversed(labels.items()))) == matching


@given(numbers=st.lists(st.integers(0, 9), max_size=20), rounds=st.lists(st.sets(st.integers(0, 19)), max_size=12))
def test_planes_count_down_and_tell_who_had_nothing_left(numbers: list[int], rounds: list[set[int]]) -> None:
    left, found = list(numbers), planes(numbers)
    for some in rounds:
        which = {at for at in some if at < len(left) and left[at] >= 0}
        found, over = less(found, sum(1 << at for at in which))
        for at in which:
            left[at] -= 1
        assert over == sum(1 << at for at in which if left[at] < 0)


def test_no_more_answers_are_kept_than_memory_is_meant_for() -> None:
    index = SelectorIndex([LabelSelector({"app": f"a{at}"}) for at in range(100_000)])
    for at in range(1_000):
        assert index.matching({"app": f"a{at}", "other": "x"}) == 1 << at
    assert 0 < len(index._known) <= 400


def test_labels_that_no_selector_names_make_no_answers_of_their_own() -> None:
    index = SelectorIndex([LabelSelector({"app": "a"}), LabelSelector({}, (Requirement("x", "NotIn", ("v",)),))])
    for at in range(100):
        assert index.matching({"app": "a", "number": str(at)}) == 0b11
    assert len(index._known) == 1
