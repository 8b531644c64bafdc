"""How deep a merge looks into its buckets."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.batch.leading_rows import _LEAST_DEPTH, _depth_of, leading_rows
from dispatcher.scheduling.framework import kernels
from tests.compiled import compiled
from tests.laws.examples import examples

__all__ = ["compiled"]


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


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("buckets", [1, 20])
def test_no_class_keeps_totals_of_all_rows_for_a_merge_among_few(buckets: int) -> None:
    kernels.compile_all()
    totals, rows = np.arange(1000.0), np.arange(400, 600)
    sorting = SimpleNamespace(rows=rows, bucket_of=rows % buckets, leading=None)
    layout = SimpleNamespace(
        sorting=sorting, begun=buckets, all_buckets=SimpleNamespace(members=np.bincount(rows % buckets))
    )
    points = SimpleNamespace(totals_of=totals.__getitem__)  # `total` would make and keep them
    found, starts = leading_rows(cast("Any", layout), cast("Any", points), np.arange(1000), 3)
    for bucket in range(buckets):
        own = found[starts[bucket] : starts[bucket + 1]].tolist()
        assert own
        assert own == sorted(rows[rows % buckets == bucket].tolist(), reverse=True)[: len(own)]
