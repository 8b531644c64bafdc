"""`global-dispatcher revoke`: all certificates of a cluster are taken back, and the gateway drops
it.
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from dispatcher.cli.joining.gateway_secret import bring, left_to_do
from dispatcher.cli.joining.target import Place, access_to
from dispatcher.cli.output import Output, print_value
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway.authority import Revoked
from dispatcher.service.gateway.authority import revoke as take_back
from dispatcher.service.gateway.folder import Folder


@dataclass(frozen=True)
class Revoking:
    """What the command was told. `dispatcher`: where the gateway's Secret is, None for files alone."""

    cluster: str
    folder: Path
    namespace: str
    dispatcher: Place | None
    dry_run: bool
    output: Output


def revoke(wish: Revoking) -> int:
    """Carry it out; the exit code. CommandError for what cannot be done; repeating it is safe."""
    if wish.dispatcher is not None:
        access_to(wish.dispatcher)
    folder = Folder(wish.folder, wish.dry_run)
    found = take_back(folder, wish.cluster)
    lines = _lines(wish, found)
    if wish.dispatcher is not None:
        lines += _brought(wish, wish.dispatcher, folder, lines)
    to_do = [] if wish.dispatcher is not None else left_to_do(folder, wish.namespace)
    to_do.append(
        f"A later `join` of {wish.cluster} makes a certificate that is good: stop a timer that "
        "does it."
    )
    if wish.output is Output.TABLE:
        sys.stdout.write("".join(f"{line}\n" for line in (*lines, *to_do)))
    else:
        serials = {
            "revoked": [f"{one:x}" for one in found.now],
            "before": [f"{one:x}" for one in found.before],
        }
        print_value(
            {"cluster": wish.cluster, **serials, "steps": lines, "next": to_do}, wish.output
        )
    return int(ExitCode.OK)


def _brought(wish: Revoking, place: Place, folder: Folder, lines: list[str]) -> list[str]:
    """What was done in the dispatcher's cluster. CommandError tells what is done already, and what
    is not.
    """
    try:
        return asyncio.run(bring(folder, place, wish.namespace, make=False))
    except CommandError as error:
        if wish.dry_run:
            raise
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        text = (
            f"{error}; the gateway does not know yet of what is revoked in the folder: run this "
            "again"
        )
        raise CommandError(text, error.code) from None


def _lines(wish: Revoking, found: Revoked) -> list[str]:
    file = wish.folder / "ca.crt"
    did = "would be revoked" if wish.dry_run else "revoked"
    lines = [f"{file}: certificate {one:x} of cluster {wish.cluster} {did}" for one in found.now]
    lines += [
        f"{file}: certificate {one:x} of cluster {wish.cluster} was revoked before"
        for one in found.before
    ]
    return lines or [
        f"{file}: no certificate of cluster {wish.cluster} is still valid: nothing to revoke"
    ]
