"""Which rows of a batch are sorted together, and where they come to with one more pod."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.batch.buckets import BucketLayout, _link_existing
from dispatcher.scheduling.equivalence.partitions import partition_of, partition_of_some
from tests.laws.examples import examples

KEYS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-2, 3)), min_size=1, max_size=60)


def linked(keys: list[tuple[int, ...]], steps: list[list[int]]) -> list[int]:
    """The next bucket of each, as found; `steps`: what one more pod adds to each count on hosts."""
    buckets: Any = SimpleNamespace(step=np.asarray(steps), after=np.full(len(keys) + 3, -1))
    hosts = list(range(len(steps[0])))
    layout = SimpleNamespace(bucket_keys=keys, used=len(keys), hosts=hosts, all_buckets=buckets)
    _link_existing(cast(BucketLayout, layout))
    assert (buckets.after[len(keys) :] == -1).all()
    found: list[int] = buckets.after[: len(keys)].tolist()
    return found


def test_buckets_are_linked_as_in_the_docstring_s_example() -> None:
    assert linked([(0, 0), (0, 1), (7, 0)], [[1], [1], [1]]) == [1, -1, -1]


def test_a_row_on_whose_host_no_more_pods_count_stays_where_it_is() -> None:
    assert linked([(0, 0), (0, 1)], [[0], [0]]) == [0, 1]


def test_keys_too_far_apart_to_be_numbered_are_not_taken_for_each_other() -> None:
    most = 2**16 - 1  # with five such columns, keys that differ in the first one alone would have the same number
    keys: list[tuple[int, ...]] = [(0, 0, 0, 0, 0), (0, most, most, most, most), (1, 0, 0, 0, 1)]
    assert linked(keys, [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]) == [-1, -1, -1]


@settings(max_examples=examples(200))
@given(KEYS, st.data())
def test_of_each_bucket_the_next_one_is_found_where_there_is_one(
    keys: set[tuple[int, ...]], data: st.DataObject
) -> None:
    ordered = sorted(keys)
    steps = data.draw(st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=2), min_size=len(keys), max_size=60))
    wanted = [
        (group, *(count + more for count, more in zip(counts, step, strict=True)))
        for (group, *counts), step in zip(ordered, steps, strict=False)
    ]
    assert linked(ordered, steps) == [ordered.index(key) if key in keys else -1 for key in wanted]


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 2), st.booleans()), min_size=1, max_size=60))
def test_a_partition_of_some_rows_groups_them_as_a_partition_of_all_does(rows: list[tuple[int, int, bool]]) -> None:
    axes = [np.asarray([row[axis] for row in rows], dtype=np.int32) for axis in (0, 1)]
    some = np.flatnonzero([row[2] for row in rows])
    if not len(some):
        return
    whole, part = partition_of(axes), partition_of_some(axes, some)
    assert whole is not None
    assert part is not None
    assert not part.whole
    met = sorted(set(whole.group[some].tolist()))
    assert [met[group] for group in part.group[some].tolist()] == whole.group[some].tolist()  # in the same order
    for mine, theirs in zip(part.axis_codes, whole.axis_codes, strict=True):
        assert mine.tolist() == theirs[met].tolist()
