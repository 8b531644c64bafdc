"""How deep a merge looks into its buckets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.batch.leading_rows import _LEAST_DEPTH, _depth_of
from tests.laws.examples import examples


@pytest.mark.parametrize(
    ("members", "count", "want"),
    [
        ([5000], 1000, 1001),
        ([1000] * 5, 1000, 800),
        ([4900, *[2] * 50], 1000, 1001),
        ([1500, 1500, 1500, *[10] * 50], 1000, 600),
        ([3], 4, 5),
    ],
    ids=["one", "even", "one large", "few large", "small"],
)
def test_rows_that_small_buckets_do_not_have_go_to_large_ones(members: list[int], count: int, want: int) -> None:
    assert _depth_of(np.asarray(members), count) == want


@settings(max_examples=examples(300))
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=200), st.integers(1, 1000))
def test_it_looks_at_four_rows_a_pod_or_as_many_as_every_bucket_is_given(members: list[int], count: int) -> None:
    each, depth = max(_LEAST_DEPTH, 4 * count // len(members)), _depth_of(np.asarray(members), count)
    assert min(each, count + 1) <= depth <= count + 1
    assert depth <= each or np.minimum(members, depth).sum() <= 4 * count or len(members) == 1
