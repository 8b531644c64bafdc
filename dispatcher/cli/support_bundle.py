"""`global-dispatcher support-bundle`: what somebody who helps wants to see, as one file that holds
no secret.

Only answers of the HTTP API go in: what is known of clusters, nodes and pods (names, requests,
load, decisions). No configuration, no manifests, no logs, no keys.
"""

import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.options import DEFAULT_SERVER, Server
from dispatcher.service.errors import CommandError

KINDS = (
    "version",
    "leader",
    "clusters",
    "links",
    "nodes",
    "usage",
    "telemetry",
    "pods",
    "tenants",
    "rebalancing",
)
_FOLDER = "global-dispatcher-support"


def support_bundle(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it, a .tar.gz; must not exist.")
    ],
    server: Server = DEFAULT_SERVER,
) -> None:
    """Write all that a dispatcher tells into one file, to be sent with a question.

    It has names of clusters, nodes, namespaces and pods, their requests and load, why pods are
    where they are, and metrics; no configuration, no manifests, no logs, no keys. What could not be
    had is listed in errors.json.
    """
    found, errors = _ask(server)
    if not found:
        raise next(iter(errors.values()))
    try:
        target = open(file, "xb", opener=_for_us_alone)  # noqa: SIM115 - closed below; Path.open has no opener
    except FileExistsError:
        raise CommandError(
            f"{file} is there already, and is not overwritten: name a new .tar.gz"
        ) from None
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    try:
        with target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            for name, content in (*found.items(), *_notes(server, errors)):
                _add(archive, name, content)
    except OSError as error:
        file.unlink(missing_ok=True)  # half a bundle is none, and would be in the way of the next
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    typer.echo(
        f"{file}: {len(found)} files"
        + (f"; not had: {', '.join(errors)} (errors.json)" if errors else "")
    )


def _ask(server: str) -> tuple[dict[str, bytes], dict[str, CommandError]]:
    """Answers by file name, and by kind why there is none."""
    from dispatcher.cli.api_client import ApiClient

    client = ApiClient(server, timeout_s=60.0)
    found = dict[str, bytes]()
    errors = dict[str, CommandError]()
    for kind, path, name in (
        *((kind, f"/v1/{kind}", f"{kind}.json") for kind in KINDS),
        ("metrics", "/metrics", "metrics.txt"),
    ):
        try:
            found[name] = client.content(path)
        except CommandError as error:
            errors[kind] = error
    return found, errors


def _for_us_alone(file: str, flags: int) -> int:
    return os.open(file, flags, 0o600)


def _notes(server: str, errors: dict[str, CommandError]) -> Iterator[tuple[str, bytes]]:
    from dispatcher.cli.api_client import without_password
    from shared.version import version

    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"made": made, "server": without_password(server), "command": version()}
    yield "bundle.json", json.dumps({**about, "python": sys.version.split()[0]}, indent=1).encode()
    yield (
        "errors.json",
        json.dumps({kind: str(error) for kind, error in errors.items()}, indent=1).encode(),
    )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o644
    archive.addfile(entry, io.BytesIO(content))
