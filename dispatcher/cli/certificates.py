"""`global-dispatcher certificates`: an authority for the fleet, and what it signs for the gateway and the clusters."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from dispatcher.cli.output import Output, print_value
from dispatcher.config.sections import CLUSTER_NAME
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway.authority import Made, ensure


def write_certificates(folder: Path, hosts: Sequence[str], clusters: Sequence[str], output: Output) -> None:
    """Make what is missing or soon expires, and say what is there."""
    for name in clusters:
        if not re.fullmatch(CLUSTER_NAME, name):
            raise CommandError(f"--cluster {name!r} is no name of a cluster: a DNS label", ExitCode.USAGE)
    made = ensure(folder, hosts, clusters)
    if output is not Output.TABLE:
        print_value([_row(one) for one in made], output)
        return
    for one in made:
        sys.stdout.write(f"{one.file}: {'made' if one.made else 'is good'}, until {one.until:%Y-%m-%d}\n")
    sys.stdout.write("".join(f"\n{line}" for line in _next(folder, hosts, clusters)) + "\n")


def _row(one: Made) -> dict[str, object]:
    return {"file": str(one.file), "made": one.made, "until": one.until.isoformat()}


def _next(folder: Path, hosts: Sequence[str], clusters: Sequence[str]) -> list[str]:
    """The commands that bring the files where they are needed."""
    names = (["gateway"] if hosts else []) + [f"cluster-{name}" for name in clusters]
    where = {"gateway": "the dispatcher's cluster"} | {f"cluster-{name}": f"cluster {name}" for name in clusters}
    return [
        f"In {where[name]}:\n"
        f"  kubectl -n global-dispatcher create secret generic global-dispatcher-gateway \\\n"
        f"    --from-file=tls.crt={folder / name}.crt --from-file=tls.key={folder / name}.key "
        f"--from-file=ca.crt={folder / 'ca.crt'}"
        for name in names
    ]
