"""What is due for a pod that stays at home is found out from little: never anything else than the protocol says."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.pod import Claim, Pod
from dispatcher.scheduling.delegation.protocol import ObservedState, next_step, step_of_local
from dispatcher.scheduling.delegation.tracking import Tracked

SOURCES = st.builds(
    msgspec.structs.replace,
    st.just(Pod("u", "default", "web")),
    node=st.sampled_from(("", "n1")),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    terminating=st.booleans(),
    has_finalizer=st.booleans(),
    gated=st.booleans(),
    claim=st.sampled_from((None, Claim("east", "n1", 3), Claim("west", "w1", 3))),
)
CLUSTERS = st.frozensets(st.sampled_from(("east", "west")))


@given(source=SOURCES, ready=CLUSTERS, restored=CLUSTERS, fenced=CLUSTERS, settled=st.booleans(), absent=CLUSTERS)
def test_the_short_answer_is_the_long_one(
    source: Pod,
    ready: frozenset[str],
    restored: frozenset[str],
    fenced: frozenset[str],
    settled: bool,
    absent: frozenset[str],
) -> None:
    tracked = Tracked(("east", "u"), source)
    if tracked.abroad:
        return
    seen = ObservedState(
        "east",
        source,
        reachable=ready,
        restored=restored,
        fenced=fenced - {"east"},
        home_settled=settled,
        absent=absent - {"east"},
    )
    short = step_of_local(source, reachable="east" in ready)
    assert short in (None, next_step(seen))
    assert short is not None or source.has_finalizer
