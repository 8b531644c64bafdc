"""Many cases before both sides: what ran, what differed, and for each difference a file that replays it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.parity import manifests
from tests.parity.case import Case, Object, Verdict
from tests.parity.compare import Difference, differences
from tests.parity.intended import unexplained
from tests.parity.kube import Played, kube_scheduler
from tests.parity.ours import OurSide


@dataclass
class Report:
    """`counts`: cases, placed, pending, scores (compared), intended, refused (objects that the API server refused)."""

    counts: Counter[str] = field(default_factory=Counter)
    found: list[Difference] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)

    def summary(self) -> str:
        """One line of figures."""
        names = ("cases", "placed", "pending", "scores", "intended", "refused")
        return ", ".join(f"{self.counts[name]} {name}" for name in names)

    def differing(self) -> str:
        """What differs, how often, and a file that replays the first of each."""
        kinds = Counter(one.what for one in self.found)
        return "\n".join(f"{count} x {what}: {self.files.get(what, '')}" for what, count in kinds.most_common())


def run(cases: Sequence[Case], keep: Path | None = None) -> Report:
    """Both sides on all cases; the first of each kind of difference is written into the folder `keep`."""
    report = Report()
    with kube_scheduler(cases) as scheduler:
        for case in cases:
            compare_played(scheduler.play(case), report, keep)
        report.counts["refused"] = sum(scheduler.refused.values())
    return report


def compare_played(played: Played, report: Report, keep: Path | None = None) -> None:
    """Our side on what the real one was given and where it put each pod."""
    ours = OurSide(played.case)
    so_far: list[Object] = []
    for pod, theirs in played.verdicts:
        _count(report, theirs)
        mine = ours.judge(pod)
        found = differences(theirs, mine)
        rest = unexplained(found, pod)
        report.counts["intended"] += len(found) - len(rest)
        report.found += rest
        if keep is not None and rest:
            _keep(report, rest, snapshot(played.case, so_far, pod), keep)
        if theirs.node:
            ours.book(pod, theirs.node)
            so_far.append({**pod, "spec": {**pod["spec"], "nodeName": theirs.node}})


def snapshot(case: Case, placed: Iterable[Object], pod: Object) -> Case:
    """The fleet as one pod met it: what was placed before it is bound."""
    return Case(case.name, case.objects, case.nodes, [*case.bound, *placed], [pod])


def _count(report: Report, verdict: Verdict) -> None:
    report.counts["cases"] += 1
    report.counts["placed" if verdict.node else "pending"] += 1
    report.counts["scores"] += sum(map(len, (verdict.scores or {}).values()))


def _keep(report: Report, found: list[Difference], case: Case, folder: Path) -> None:
    for one in found:
        if one.what not in report.files:
            path = report.files[one.what] = folder / f"{one.what}-{case.pending[0]['metadata']['name']}.yaml"
            manifests.write(case, path, f"{one.record()}")
