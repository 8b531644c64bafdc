"""`global-dispatcher ray-driver`: the Ray driver as a process, with a Ray node of its own or beside one."""

import asyncio
import faulthandler
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import structlog

from agents.runtime.join.node import ray_node
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.interrupts import interruptible, uninterrupted
from dispatcher.service.logs import configure_logging
from dispatcher.service.ray_runtime import RayOptions, RayRuntime
from shared.process.event_loop import run
from shared.process.ray_security import insecure

log = structlog.get_logger("ray-driver")

_KEY = "--address"
_JOIN_S = 90.0  # for a node of ours to be there
_LOOK_S = 1.0
_HANGS_S = 60.0  # without a look it ends, with what it hangs in on stderr, so as to be begun again

Node = subprocess.Popen[bytes]


def run_ray_driver(path: Path, address: str, options: Sequence[str], empty: Path | None = None) -> int:
    """Listen at `path` until SIGINT or SIGTERM, or until the node ends; returns the exit code. CommandError.

    `address` is host:port of Ray's head. `options`, of `ray start`, are those of a node that is started here; without
    them there is a node on this machine. What is in the folder `empty`, of an earlier life, goes first.
    """
    if not path.parent.is_dir():
        raise CommandError(f"--socket {path}: there is no folder {path.parent}: make it, or name another")
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise CommandError(f"{_KEY} {address!r} is not HOST:PORT: say where Ray's head is, such as ray-head:6379")
    if problem := insecure(address, os.environ, _KEY):
        raise CommandError(problem)
    configure_logging()
    if empty is not None:
        _empty(empty)
    try:
        with interruptible(), ExitStack() as cleanup:
            with uninterrupted():
                node = cleanup.enter_context(ray_node([f"--address={address}", *options])) if options else None
            _join(address, node, cleanup)
            return run(_serve(path, lambda: _ended(node)))
    except (KeyboardInterrupt, SystemExit):
        return int(ExitCode.OK)


def _empty(folder: Path) -> None:
    """As far as it can be; whoever ran code here may have left anything."""
    try:
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except (OSError, RecursionError) as error:
        log.warning("a folder could not be emptied", folder=str(folder), problem=str(error))


def _ended(node: Node | None) -> str:
    code = node.poll() if node is not None else None
    return "" if code is None else f"the Ray node ended with {code}"


def _join(address: str, node: Node | None, cleanup: ExitStack) -> None:
    """As soon as the node is there, where it is ours; CommandError."""
    until = time.monotonic() + _JOIN_S
    told = ""
    while True:
        try:
            with uninterrupted():
                cleanup.callback(RayRuntime.start([], RayOptions(address, key=_KEY)).stop)
        except CommandError as error:
            if node is None or _ended(node) or time.monotonic() > until:
                raise CommandError(_ended(node) or str(error)) from None
            if str(error) != told:
                log.info("waiting for the Ray node", problem=str(error))
            told = str(error)
            time.sleep(_LOOK_S)
        else:
            return


async def _serve(path: Path, ended: Callable[[], str]) -> int:
    from dispatcher.service.ray_driver.server import Server  # Ray has read its environment by now

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with Server().listening(path):
            while not stop.is_set():
                faulthandler.dump_traceback_later(_HANGS_S, exit=True)
                if ended():
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await stop.wait()
    except OSError as error:
        raise CommandError(f"--socket {path}: {error.strerror or error}") from None
    finally:
        faulthandler.cancel_dump_traceback_later()
    if why := ended():
        raise CommandError(why)
    log.info("stopping")
    return int(ExitCode.OK)
