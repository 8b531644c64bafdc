"""Who may read the HTTP API: whoever shows a token, or whom an authenticating proxy names. Without
either, everybody.

Health and readiness are open to all: kubelets ask for them, and they name nothing but clusters that
are silent.
"""

import hashlib
import hmac
import ipaddress
from http import HTTPStatus
from pathlib import Path

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from dispatcher.config.http import read_tokens
from dispatcher.config.sections import LoginSection

log = structlog.get_logger("http")

OPEN = frozenset(("/healthz", "/livez", "/readyz"))
_BEARER = "bearer "


class Tokens:
    """The tokens of a file: one a line; empty lines and those that begin with '#' do not count."""

    def __init__(self, file: str) -> None:
        """OSError, ValueError: there is no such file, or no token in it."""
        self._file = Path(file)
        self._read_at = (0, 0, 0)
        self._hashes: tuple[bytes, ...] = ()
        self._refresh()

    def know(self, token: str) -> bool:
        """Whether this is one of them. A file that was changed is read again; if it cannot be, the
        old ones hold.
        """
        try:
            self._refresh()
        except (OSError, ValueError) as error:
            log.warning(
                "the file of tokens cannot be read: those from before count", error=str(error)
            )
        asked = _hash(token)
        # All of them, so that the time says nothing of which fits.
        return sum([hmac.compare_digest(asked, one) for one in self._hashes]) > 0

    def _refresh(self) -> None:
        found = self._file.stat()
        at = (found.st_mtime_ns, found.st_size, found.st_ino)
        if at == self._read_at:
            return
        self._hashes = tuple(map(_hash, read_tokens(self._file)))
        self._read_at = at


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class Login:
    """A middleware that answers 401 to whoever may not read."""

    def __init__(self, section: LoginSection) -> None:
        """OSError, ValueError: as of Tokens."""
        self._tokens = Tokens(section.token_file) if section.token_file else None
        self._header = section.user_header
        self._proxies = [ipaddress.ip_network(one) for one in section.proxies]

    @property
    def wanted(self) -> bool:
        """Whether anybody is kept out."""
        return bool(self._tokens or self._header)

    def middleware(self) -> Middleware:
        """For aiohttp."""

        @web.middleware
        async def login(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in OPEN or self._may(request):
                return await handler(request)
            return web.json_response(
                {
                    "error": "not logged in: set GLOBAL_DISPATCHER_TOKEN, or come through the "
                    "proxy that logs you in"
                },
                status=HTTPStatus.UNAUTHORIZED,
                headers={"WWW-Authenticate": 'Bearer realm="global-dispatcher"'},
            )

        return login

    def _may(self, request: web.Request) -> bool:
        told = request.headers.get("Authorization", "")
        if (
            self._tokens
            and told[: len(_BEARER)].lower() == _BEARER
            and self._tokens.know(told[len(_BEARER) :].strip())
        ):
            return True
        return bool(
            self._header
            and request.headers.get(self._header, "").strip()
            and self._by_proxy(request)
        )

    def _by_proxy(self, request: web.Request) -> bool:
        """Whether the connection itself comes from the proxy: what a header says of it, anybody can
        write.
        """
        peer = request.transport.get_extra_info("peername") if request.transport else None
        if not peer:
            return False
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._proxies)
