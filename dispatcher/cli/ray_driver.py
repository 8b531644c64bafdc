"""The command `ray-driver`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.service.errors import CommandError


def ray_driver(
    socket: Annotated[Path, typer.Option(metavar="PATH", help="Where the dispatcher finds it: its `ray.driver`.")],
    address: Annotated[str, typer.Option(metavar="HOST:PORT", envvar="RAY_ADDRESS", help="Of Ray's head.")],
    empty: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="What an earlier life has left in it is deleted first: Ray's own folder."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTION ...]", help="Options of `ray start`: starts a Ray node with them."),
    ] = None,
) -> None:
    """Call actors on Ray in the dispatcher's place, and stay: a process beside it that has none of its keys.

    What runs in Ray can run code in here, so give this process another user or container than the dispatcher's, which
    reaches it by the socket alone. It joins Ray by a node on this machine, which it starts where options of `ray start`
    follow. Exit code 1 when that node has ended.
    """
    from dispatcher.service.ray_driver.process import run_ray_driver

    try:
        code = run_ray_driver(socket, address, node or [], empty)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        code = int(error.code)
    sys.stderr.flush()
    os._exit(code)  # Ray's own exit handlers wait for a head that may be gone
