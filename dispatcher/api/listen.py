"""Listens for the HTTP API; CommandError in one line, with the fix, where the address cannot be
had.
"""

import errno
import socket

from aiohttp import web

from dispatcher.api.http_api import Shown, serve
from dispatcher.api.login import Login
from dispatcher.config.sections import LoginSection
from dispatcher.service.errors import CommandError


async def listen(
    shown: Shown, host: str, port: int, section: LoginSection | None = None
) -> web.AppRunner:
    """Serve the HTTP API; CommandError in one line when the address or the tokens cannot be had."""
    try:
        login = Login(section or LoginSection())
    except (OSError, ValueError) as error:
        raise CommandError(f"http.login.token_file: {error}") from None
    try:
        return await serve(shown, host, port, login)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None


def check_port(host: str, port: int) -> None:
    """CommandError when something listens there already: better told before minutes of work than
    after.
    """
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise _cannot_listen(host, port, error) from None


def _cannot_listen(host: str, port: int, error: OSError) -> CommandError:
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why += ", probably by another dispatcher (stop it if you meant to replace it)"
    other = "choose another port with http.port of the configuration (demo: --port)"
    return CommandError(f"cannot listen on {host}:{port}: {why}; {other}")
