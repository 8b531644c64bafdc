"""Cases before two sides: what ran, what differed, and for each kind of difference a file that replays it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.parity import manifests
from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.compare import Difference, differences
from tests.parity.intended import row_of, unexplained
from tests.parity.oracle.judge import Oracle
from tests.parity.ours import OurSide

Answers = Iterable[tuple[Object, Verdict]]


@dataclass
class Report:
    """`counts`: cases, placed, pending, scores. `rows`: intended differences. `files`: what differs -> its replay."""

    keep: Path
    counts: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    found: list[Difference] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)

    def summary(self) -> str:
        """One line of figures."""
        figures = ", ".join(f"{self.counts[name]:,} {name}" for name in ("cases", "placed", "pending", "scores"))
        rows = "; ".join(f"{count} {row}" for row, count in self.rows.most_common())
        return f"{figures}; intended: {rows or 'none'}"

    def differing(self) -> str:
        """What differs, how often, and how to replay the first of each; empty if nothing does."""
        kinds = Counter(one.what for one in self.found)
        return "\n".join(
            f"{count} x {what}; replay: python -m tests.parity {self.files[what]}"
            for what, count in kinds.most_common()
        )


def examine(side: OurSide | Oracle, case: Case, answers: Answers, report: Report) -> None:
    """One side beside the answers that are to be met, pod by pod; each pod is booked where the answers put it."""
    now = case
    for pod, theirs in answers:
        _count(report, theirs)
        found = differences(theirs, side.judge(pod))
        rest = unexplained(found, pod, now)
        report.rows += Counter(row for one in found if (row := row_of(one, pod, now)) is not None)
        report.found += rest
        if any(one.what not in report.files for one in rest):
            _keep(report, rest, replace(now, pending=[pod]))
        side.follow(theirs)
        if theirs.node:
            side.book(pod, theirs.node)
        now = after(now, pod, theirs)


def after(case: Case, pod: Object, verdict: Verdict) -> Case:
    """The fleet as the next pod meets it."""
    changed = {(obj["kind"], key_of(obj)): obj for obj in verdict.changed}
    objects = {(obj["kind"], key_of(obj)): obj for obj in case.objects}
    bound = [one for one in case.bound if key_of(one) not in verdict.victims]
    if verdict.node:
        bound.append({**pod, "spec": {**pod["spec"], "nodeName": verdict.node}})
    return replace(case, objects=list({**objects, **changed}.values()), bound=bound)


def oracle_answers(case: Case) -> Iterator[tuple[Object, Verdict]]:
    """What the oracle says of a case's pending pods, one after the other."""
    oracle = Oracle(case)
    for pod in case.pending:
        verdict = oracle.judge(pod)
        yield pod, verdict
        if verdict.node:
            oracle.book(pod, verdict.node)


def _count(report: Report, verdict: Verdict) -> None:
    report.counts["cases"] += 1
    report.counts["placed" if verdict.node else "pending"] += 1
    report.counts["scores"] += sum(map(len, (verdict.scores or {}).values()))


def _keep(report: Report, found: list[Difference], case: Case) -> None:
    for one in found:
        if one.what not in report.files:
            path = report.files[one.what] = report.keep / f"{one.what}-{case.pending[0]['metadata']['name']}.yaml"
            manifests.write(case, path, f"{one.record()}")
