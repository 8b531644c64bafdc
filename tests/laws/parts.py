"""How much is woken at once, in each turn, of pods that are not alike together; and how many events are told apart."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import strategies as st

from dispatcher.scheduling import waking

Sizes = tuple[int, int, int, int]
SMALL = st.tuples(*(st.sampled_from(some) for some in ((1, 2, 7), (1, 3), (1, 2), (2, 64))))
ALL = (10**9, 10**9, 64, 64)
NAMES = ("AT_ONCE", "A_TURN", "AT_A_TIME", "MOST_EVENTS")


@contextmanager
def parts(sizes: Sizes) -> Iterator[None]:
    """These hold meanwhile."""
    kept = [getattr(waking, name) for name in NAMES]
    try:
        for name, size in zip(NAMES, sizes, strict=True):
            setattr(waking, name, size)
        yield
    finally:
        for name, size in zip(NAMES, kept, strict=True):
            setattr(waking, name, size)
