"""The command: a file of manifests before kube-scheduler and our core, differences as JSON."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agents.controlplane import binaries
from agents.controlplane.process import ComponentFailedError
from tests.parity import manifests
from tests.parity.compare import differences
from tests.parity.intended import unexplained
from tests.parity.kube import Played, kube_scheduler
from tests.parity.ours import OurSide

_ABOUT = """\
Give the pending pods of a file to a real kube-scheduler and to our core with kube-scheduler's default plugins and
weights, one by one in file order, and print where the two differ.

FILE holds plain Kubernetes manifests, YAML or JSON, such as `kubectl get nodes,pods,pv,pvc -o yaml` prints: nodes,
namespaces, PriorityClasses, PodDisruptionBudgets, volumes, claims, storage classes, CSI objects, and pods. A pod with
spec.nodeName runs there; one without is pending. Each pending pod is booked by our side where kube-scheduler put it, so
that ties do not spread; one that kube-scheduler cannot place is taken out again before the next.
"""
_CODES = """\
exit code: 0 no difference, 1 differences, 2 the file cannot be read or the programs of a control plane are missing.
Differences that docs/parity.md lists are printed as "intended", and are none.
"""


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
    print(f"parity: {text}", file=sys.stderr)
    return 2


def _compare(path: Path, *, everything: bool) -> int:
    case, ignored = manifests.read(path)
    if ignored:
        print(f"parity: left out, since they place no pod: {', '.join(ignored)}", file=sys.stderr)
    with kube_scheduler([case]) as scheduler:
        played = scheduler.play(case)
        refused = scheduler.refusals
    if refused:
        return _fail("the API server refused objects:\n" + "\n".join(refused))
    records = _records(played)
    shown = [record for record in records if everything or record["differences"] or record["intended"]]
    differing = sum(bool(record["differences"]) for record in records)
    print(json.dumps({"pods": len(records), "differing": differing, "results": shown}, indent=2))
    return 1 if differing else 0


def _records(played: Played) -> list[dict[str, Any]]:
    ours, records = OurSide(played.case), []
    for pod, theirs in played.verdicts:
        mine = ours.judge(pod)
        found = differences(theirs, mine)
        rest = unexplained(found, pod, played.case)
        records.append(
            {
                "pod": theirs.pod,
                "differences": [one.record() for one in rest],
                "intended": [one.record() for one in found if one not in rest],
                "kube-scheduler": theirs.record(),
                "ours": mine.record(),
            }
        )
        if theirs.node:
            ours.book(pod, theirs.node)
    return records


if __name__ == "__main__":
    sys.exit(main())
