"""The command: a file of manifests before kube-scheduler and our core, differences as JSON."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localfleet.controlplane import binaries
from localfleet.controlplane.process import ComponentFailedError
from tests.parity import manifests
from tests.parity.case import Case
from tests.parity.compare import differences
from tests.parity.intended import row_of, unexplained
from tests.parity.kube import Played, kube_scheduler
from tests.parity.ours import OurSide
from tests.parity.profile import OTHERS, PREEMPTING
from tests.parity.run import after

_ABOUT = """\
Give the pending pods of a file to a real kube-scheduler and to our core with kube-scheduler's default plugins and
weights, one by one in file order, and print where the two differ.

FILE holds plain Kubernetes manifests, YAML or JSON, such as `kubectl get nodes,pods,pv,pvc -o yaml` prints: nodes,
namespaces, PriorityClasses, RuntimeClasses, LimitRanges, PodDisruptionBudgets, Services, ReplicaSets and the like,
volumes, claims, storage classes, CSI objects, and pods. A pod with spec.nodeName runs there; one without is pending.
Each pending pod is booked by our side where kube-scheduler put it, so that ties do not spread. One that may evict
others is tried again when they are gone; one that finds no place is taken out again before the next.
"""
_CODES = """\
exit code: 0 no difference, 1 differences, 2 nothing to compare: the file cannot be read, no pod is pending, or the
programs of a control plane are missing.
Differences that docs/parity.md lists are printed as "intended" with the name of their row, and are none. What the API
server refuses is told ("refused"), and neither side is given it.
"""
_SILENCE_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.parity",
        description=_ABOUT,
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="manifests")
    parser.add_argument(
        "--all", action="store_true", help="print both verdicts of every pod, not of differing ones only"
    )
    given = parser.parse_args(arguments)
    try:
        return _compare(given.file, everything=given.all)
    except manifests.ManifestError as error:
        return _fail(str(error))
    except (binaries.BinariesUnavailableError, binaries.BuildFailedError) as error:
        return _fail(f"no control plane: {error}")
    except (ComponentFailedError, TimeoutError) as error:
        return _fail(str(error))


def _fail(text: str) -> int:
    _say(text)
    return 2


def _compare(path: Path, *, everything: bool) -> int:
    file = manifests.read(path)
    case = _for_the_command(file.case)
    for line in file.left_out:
        _say(f"left out: {line}")
    sizes = f"{len(case.nodes)} nodes, {len(case.bound)} pods on them, {len(case.pending)} to place"
    _say(f"{sizes}; starting an API server with a kube-scheduler, which takes some seconds")
    with kube_scheduler([case]) as scheduler:
        played = scheduler.play(case, _Progress(len(case.pending)))
        refused = scheduler.store.refusals
    for line in refused:
        _say(f"the API server refused {line}")
    if not played.verdicts and not refused:
        return _fail("no pod is pending, so there is nothing to compare")
    records = list(_records(played))
    shown = [record for record in records if everything or record["differences"] or record["intended"]]
    differing = sum(bool(record["differences"]) for record in records)
    told = {"pods": len(case.pending), "compared": len({record["pod"] for record in records}), "differing": differing}
    print(json.dumps({**told, "refused": refused, "left_out": file.left_out, "results": shown}, indent=2))
    return 1 if differing else 0


def _for_the_command(case: Case) -> Case:
    """Under kube-scheduler's default profile, preemption included, whatever scheduler a pod names."""
    for pod in case.pending:
        if pod["spec"].get("schedulerName") not in OTHERS:
            pod["spec"]["schedulerName"] = PREEMPTING
    return case


def _records(played: Played) -> Iterator[dict[str, Any]]:
    ours, now = OurSide(played.case), played.case
    for pod, theirs in played.verdicts:
        mine = ours.judge(pod)
        found = differences(theirs, mine)
        rest = unexplained(found, pod, now)
        meant = [(one, row_of(one, pod, now)) for one in found if one not in rest]
        yield {
            "pod": theirs.pod,
            "differences": [one.record() for one in rest],
            "intended": [{**one.record(), "row": row or "a sum of the above"} for one, row in meant],
            "kube-scheduler": theirs.record(),
            "ours": mine.record(),
        }
        ours.follow(theirs)
        if theirs.node:
            ours.book(pod, theirs.node)
        now = after(now, pod, theirs)


class _Progress:
    """Tells on stderr how far a long file is."""

    def __init__(self, pods: int) -> None:
        self._pods, self._told = pods, time.monotonic()

    def __call__(self, done: int) -> None:
        if time.monotonic() - self._told > _SILENCE_S:
            self._told = time.monotonic()
            _say(f"{done} of {self._pods} pods")


def _say(text: str) -> None:
    print(f"parity: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
