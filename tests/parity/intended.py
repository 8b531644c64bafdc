"""The rows of docs/parity.md as rules: where our answer is meant to differ from kube-scheduler's, and nowhere else."""

from collections.abc import Callable

from tests.parity.case import Case, Object
from tests.parity.compare import Difference

Rule = Callable[[Difference, Object, Case], bool]

# name of the row -> whether a difference is that row's
RULES: dict[str, Rule] = {}


def intended(found: Difference, pod: Object, case: Case) -> bool:
    """Whether a difference is one of the rows."""
    return any(rule(found, pod, case) for rule in RULES.values())
