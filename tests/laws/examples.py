"""How many examples a law is tried with: a fifth of them in `make test`, all in `make laws`, which CI runs as well."""

import os

ALL = "ALL_EXAMPLES" in os.environ


def examples(most: int) -> int:
    """So many of `most` in this run."""
    return most if ALL else -(-most // 5)
