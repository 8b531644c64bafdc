"""What a constraint tells of each pod of a batch, beside a plain count pod by pod."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.framework import kernels
from dispatcher.scheduling.rules.spread import SpreadExplanation
from shared.model.pod import SpreadConstraint

DOMAINS = 5


@pytest.fixture(params=["numpy", "kernels"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """With plain Python, and compiled."""
    if request.param == "kernels":
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield
    kernels.use_numpy()


@pytest.mark.usefixtures("either")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_story_tells_of_each_pod_the_counts_that_it_met(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(-1, DOMAINS - 1), min_size=1, max_size=12))
    adds = data.draw(st.lists(st.integers(0, 1), min_size=len(chosen), max_size=len(chosen)))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=DOMAINS, max_size=DOMAINS))
    eligible = data.draw(st.sets(st.integers(0, DOMAINS - 1), min_size=1))
    enough = data.draw(st.booleans())
    ats = sorted(data.draw(st.sets(st.integers(0, len(chosen) - 1), min_size=1)))
    others = [counts[code] for code in eligible - set(chosen)]
    explanation = SpreadExplanation(
        SpreadConstraint("zone", 1, hard=False),
        np.asarray(chosen, dtype=np.int32),
        np.asarray(adds, dtype=np.int32),
        np.asarray(counts, dtype=np.int64),
        {code: counts[code] for code in set(chosen) if code >= 0},
        ({code: (f"z{code}",) for code in range(DOMAINS)}, {}),
        range(DOMAINS),
        len(eligible),
        sorted(eligible & set(chosen)),
        min(others) if others else None,
        has_min_domains=enough,
    )
    told = explanation.told(ats).values(len(ats))
    now, want = list(counts), []
    for code, more in zip(chosen, adds, strict=True):
        least = min(now[one] for one in eligible) if enough else 0
        want.append((f"z{code}", least, now[code] - least) if code >= 0 else (None, least, None))
        now[code] += more if code >= 0 else 0
    assert [(one["domain"], one["min"], one["skew"]) for one in told] == [want[at] for at in ats]
