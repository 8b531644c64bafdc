"""Two verdicts on one pod, and where they differ. Ties may differ; nothing else may, but for docs/parity.md's rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.parity.case import Verdict

TOLERANCE = 1e-6  # our scores are floats with whole values


@dataclass(frozen=True)
class Difference:
    """`what`: error, feasible, message, total, victims, or the plugin whose score differs (on `node`)."""

    pod: str
    what: str
    theirs: Any
    ours: Any
    node: str = ""

    def record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"pod": self.pod, "what": self.what, "node": self.node, "kube-scheduler": self.theirs, "ours": self.ours}


def differences(theirs: Verdict, ours: Verdict) -> list[Difference]:
    """All of them; empty where both say the same."""
    return [found for check in _CHECKS for found in check(theirs, ours)]


def _feasible(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if theirs.feasible is not None and ours.feasible is not None and theirs.feasible != ours.feasible:
        yield Difference(theirs.pod, "feasible", sorted(theirs.feasible), sorted(ours.feasible))


def _message(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if not (theirs.node or theirs.failed or ours.node) and theirs.message != ours.message:
        yield Difference(theirs.pod, "message", theirs.message, ours.message)


def _scores(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if theirs.scores is None or ours.scores is None or theirs.feasible != ours.feasible:
        return
    for plugin in sorted({*theirs.scores, *ours.scores}):
        left, right = theirs.scores.get(plugin, {}), ours.scores.get(plugin, {})
        for node in sorted({*left, *right}):
            if abs(left.get(node, 0.0) - right.get(node, 0.0)) > TOLERANCE:
                yield Difference(theirs.pod, plugin, left.get(node), right.get(node), node)


def _totals(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if theirs.totals is None or ours.totals is None or theirs.feasible != ours.feasible:
        return
    for node, total in sorted(theirs.totals.items()):
        if abs(total - ours.totals[node]) > TOLERANCE:
            yield Difference(theirs.pod, "total", total, ours.totals[node], node)


def _failed(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if theirs.failed != ours.failed:
        yield Difference(theirs.pod, "error", theirs.message, ours.node or ours.message)


def _victims(theirs: Verdict, ours: Verdict) -> Iterator[Difference]:
    if theirs.victims != ours.victims:
        yield Difference(theirs.pod, "victims", sorted(theirs.victims), sorted(ours.victims))


_CHECKS: tuple[Callable[[Verdict, Verdict], Iterator[Difference]], ...] = (
    _failed,
    _feasible,
    _message,
    _scores,
    _totals,
    _victims,
)
