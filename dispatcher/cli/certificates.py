"""`global-dispatcher certificates`: an authority for the fleet, and what it signs for the gateway
and the clusters.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from dispatcher.cli.joining.objects import GATEWAY_SECRET, SIGNING_SECRET
from dispatcher.cli.output import Output, print_value
from dispatcher.config.certificates import ROLES
from dispatcher.config.sections import CLUSTER_NAME
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway.authority import SIGNING, Made, ensure

_NAMESPACE = "global-dispatcher"
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9a-fA-F:]*:[0-9a-fA-F:]*")


def write_certificates(
    folder: Path, hosts: Sequence[str], clusters: Sequence[str], output: Output
) -> None:
    """Make what is missing or soon expires, and say what is there."""
    for name in clusters:
        if not re.fullmatch(CLUSTER_NAME, name):
            raise CommandError(
                f"--cluster {name!r} is no name of a cluster: a DNS label", ExitCode.USAGE
            )
    for host in hosts:
        if not _HOST.fullmatch(host):
            text = (
                f"--gateway {host!r} is no host: give a name or an address, without wss:// and "
                "without a port"
            )
            raise CommandError(text, ExitCode.USAGE)
    if folder.exists() and not folder.is_dir():
        raise CommandError(
            f"{folder} is a file: name a folder, which need not be there yet", ExitCode.USAGE
        )
    made = ensure(folder, hosts, clusters)
    if output is not Output.TABLE:
        print_value([_row(one) for one in made], output)
        return
    for one in made:
        sys.stdout.write(
            f"{one.file}: {'made' if one.made else 'is good'}, until {one.until:%Y-%m-%d}\n"
        )
    sys.stdout.write("".join(f"\n{line}" for line in _next(folder, hosts, clusters)) + "\n")


def _row(one: Made) -> dict[str, object]:
    return {"file": str(one.file), "made": one.made, "until": one.until.isoformat()}


def _next(folder: Path, hosts: Sequence[str], clusters: Sequence[str]) -> list[str]:
    """The commands that bring the files where they are needed, or replace those that are there."""
    dispatcher = [
        ("gateway", "the dispatcher's cluster", "CONTEXT", GATEWAY_SECRET),
        (SIGNING, "the dispatcher's cluster, the key that signs orders", "CONTEXT", SIGNING_SECRET),
    ]
    agents = [
        (
            f"cluster-{name}.{role}",
            f"cluster {name}, for its {role}",
            name,
            f"global-dispatcher-agent-{role}",
        )
        for name in clusters
        for role in ROLES
    ]
    return [
        f"In {where} (again after each renewal; pods see it within about a minute):\n"
        f"  kubectl --context {context} create namespace {_NAMESPACE} --dry-run=client -o yaml "
        f"| kubectl --context {context} apply -f -\n"
        f"  kubectl --context {context} -n {_NAMESPACE} create secret generic {secret} "
        "--dry-run=client -o yaml \\\n"
        f"    --from-file=tls.crt={folder / name}.crt --from-file=tls.key={folder / name}.key "
        f"--from-file=ca.crt={folder / 'ca.crt'} \\\n"
        f"    | kubectl --context {context} apply -f -"
        for name, where, context, secret in (*(dispatcher if hosts else ()), *agents)
    ]
