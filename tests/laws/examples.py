"""How many examples a law is tried with: a tenth of them in `make test`, all in `make laws`, which CI runs as well."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

ALL = "ALL_EXAMPLES" in os.environ
T = TypeVar("T")


def examples(most: int) -> int:
    """So many of `most` in this run."""
    return most if ALL else -(-most // 10)


def some(every: Iterable[T], share: int) -> list[T]:
    """All of them, or one of `share`: a number that does not divide how often something comes again among them."""
    return list(every if ALL else islice(every, 0, None, share))
