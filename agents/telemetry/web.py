"""HTTP to an address that the agent's own configuration names, and to nothing else.

Whoever answers there is not trusted: http or https alone, no redirect, no proxy from the
environment, no cookies; the name is looked up, its addresses are checked, and the connection goes
to an address that was checked (a name that means something else a moment later helps nobody);
link-local addresses, where clouds serve credentials, are refused unless they are allowed by name.
An answer has a limit of bytes after decompression and of time as a whole. Credentials come from
files, read anew for each request, and leave with nothing but the request.
"""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from agents.telemetry.source import SourceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAX_SECRET = 64 * 1024
_MOST_WORDS = 4096  # read of an answer that is none
# Link-local is refused by its kind; these are where clouds serve credentials elsewhere.
METADATA = tuple(
    ipaddress.ip_network(one)
    for one in ("fd00:ec2::254/128", "100.100.100.200/32", "192.0.0.192/32")
)
Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request carries. All are paths of files except `user`; `headers` are not secret,
    `header_files` may be.
    """

    token_file: str = ""
    user: str = ""
    password_file: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    header_files: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> tuple[dict[str, str], httpx.BasicAuth | None]:
        """(headers, basic authentication); SourceError names a file that cannot be read, and shows
        nothing of it.
        """
        found = dict(self.headers)
        found |= {name: _secret(path) for name, path in self.header_files.items()}
        if self.token_file:
            found["Authorization"] = f"Bearer {_secret(self.token_file)}"
        basic = (
            httpx.BasicAuth(self.user, _secret(self.password_file)) if self.password_file else None
        )
        return found, basic


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust, and who we are. Paths of files; empty: the system's authorities, no
    certificate of ours.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """A client context; SourceError names what cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(filter(None, (self.ca_file, self.cert_file, self.key_file)))
            raise SourceError(
                f"no TLS with {files or 'the authorities of the system'}: {error}"
            ) from None
        return context


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one answer: seconds as a whole, bytes after decompression. `allowed`: addresses refused
    otherwise.
    """

    timeout_s: float = 5.0
    max_bytes: int = 16 * 1024 * 1024
    allowed: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A complete answer of status 200. `date`: the server's `Date` header."""

    body: bytes
    date: str = ""


class _Refusal(msgspec.Struct, gc=False):
    """What APIs call the reason: Prometheus `error`, Kubernetes and many others `message`."""

    error: str = ""
    message: str = ""


class Pool:
    """Connections that trust one set of files, until these change."""

    def __init__(self, tls: Tls | None = None, most: int = 4) -> None:
        self._tls = tls or Tls()
        self._most = most
        self._client: httpx.AsyncClient | None = None
        self._trust: tuple[float, ...] = ()
        self._opening = asyncio.Lock()

    async def client(self, scheme: str) -> httpx.AsyncClient:
        """The client; SourceError names a file that cannot be read."""
        async with self._opening:
            trust = _changed_at((self._tls.ca_file, self._tls.cert_file, self._tls.key_file))
            if self._client is None or trust != self._trust:
                verify = await asyncio.to_thread(self._tls.context) if scheme == "https" else False
                await self.close()
                self._client = httpx.AsyncClient(
                    verify=verify,
                    trust_env=False,
                    follow_redirects=False,
                    headers={"User-Agent": "global-dispatcher-agent"},
                    limits=httpx.Limits(
                        max_connections=self._most, max_keepalive_connections=self._most
                    ),
                )
                self._trust = trust
            return self._client

    async def close(self) -> None:
        """Close all connections."""
        client = self._client
        self._client = None
        if client is not None:
            await client.aclose()


class Web:
    """Asks one base address, over a pool that several may share."""

    def __init__(
        self,
        base: str,
        limits: Limits,
        pool: Pool | None = None,
        credentials: Credentials | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        parts = urlsplit(base)
        self.base = base.rstrip("/")
        self._scheme = parts.scheme
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._limits = limits
        self._pool = pool or Pool()
        self._credentials = credentials or Credentials()
        self._resolve = resolve or _resolve

    async def get(self, path: str, params: Sequence[tuple[str, str]] = ()) -> Page:
        """GET; SourceError says why there is no answer."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await self._first(path, tuple(params))
        except TimeoutError:
            raise SourceError(
                f"{self.base}: no complete answer within {self._limits.timeout_s:g} s"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, zlib.error) as error:
            raise SourceError(f"{self.base}: {type(error).__name__}: {error}"[:300]) from None

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def _first(self, path: str, params: tuple[tuple[str, str], ...]) -> Page:
        """The answer of the first address that lets us connect."""
        client = await self._pool.client(self._scheme)
        headers, basic = await asyncio.to_thread(self._credentials.read)
        problem: Exception = SourceError(f"{self.base}: {self._host} has no address")
        for address in await self._addresses():
            host = f"[{address}]" if ":" in address else address
            request = client.build_request(
                "GET",
                f"{self._scheme}://{host}:{self._port}{self._path}{path}",
                headers={"Accept-Encoding": "gzip", **headers, "Host": self._authority},
                extensions={
                    "sni_hostname": self._host,
                    "timeout": httpx.Timeout(self._limits.timeout_s).as_dict(),
                },
                params=params,
            )
            try:
                answer = await client.send(
                    request, stream=True, auth=basic or httpx.USE_CLIENT_DEFAULT
                )
            except httpx.ConnectError as error:
                problem = error
                continue
            return await self._read(answer)
        raise problem

    async def _addresses(self) -> list[str]:
        """Where the name leads, all checked; SourceError if any may not be asked."""
        try:
            found = await self._resolve(self._host, self._port)
        except OSError as error:
            raise SourceError(
                f"{self.base}: {self._host} cannot be resolved: {error.strerror or error}"
            ) from None
        meant = self._host == "localhost" or _is_address(self._host)
        for one in found:
            if reason := refused(one, self._limits.allowed, loopback=meant):
                raise SourceError(
                    f"{self.base}: {self._host} is {one}, {reason}: list it in allow_addresses if "
                    "that is meant"
                )
        return found

    def _secrets_in(self, request: httpx.Request) -> list[str]:
        """What of a request nobody may read who reads its answer: some servers repeat what they
        were asked.
        """
        sent = [
            request.headers.get(name, "")
            for name in ("Authorization", *self._credentials.header_files)
        ]
        return [part for value in sent for part in (value, value.rpartition(" ")[2]) if part]

    async def _read(self, answer: httpx.Response) -> Page:
        try:
            if answer.status_code != 200:
                moved = ", and redirects are not followed" if answer.is_redirect else ""
                words = await _words(answer, self._secrets_in(answer.request))
                raise SourceError(f"{self.base} answers {answer.status_code}{moved}: {words}"[:500])
            body = await bounded(answer, self._limits.max_bytes)
        finally:
            await answer.aclose()
        return Page(body, answer.headers.get("date", ""))


async def bounded(answer: httpx.Response, most: int) -> bytes:
    """The body, decompressed no further than `most` bytes; ValueError if it is larger or coded in
    another way.
    """
    coding = answer.headers.get("content-encoding", "identity").lower()
    if coding not in {"gzip", "identity"}:
        raise ValueError(f"an answer in content-encoding {coding[:40]}")
    body = bytearray()
    async for part in _decoded(answer.aiter_raw(), most, zipped=coding == "gzip"):
        body += part
        if len(body) > most:
            raise ValueError(f"the answer is larger than {most} bytes")
    return bytes(body)


async def _words(answer: httpx.Response, secrets: Sequence[str]) -> str:
    """What an answer that is none says of it, in one line: the error that a server's JSON names,
    else how it begins.

    Decompressed: Prometheus compresses also why it refuses a query. `secrets` are not shown.
    """
    zipped = answer.headers.get("content-encoding", "").lower() == "gzip"
    start = bytearray()
    try:
        async for part in _decoded(answer.aiter_raw(), _MOST_WORDS, zipped=zipped):
            start += part
            if len(start) > _MOST_WORDS:
                break
        told = msgspec.json.decode(start, type=_Refusal)
    except (ValueError, zlib.error):  # msgspec's errors and those of _decoded are ValueErrors
        told = _Refusal()
    said = told.error or told.message
    text = said or start.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    return " ".join(text.split())[: 300 if said else 200] or "without a word"


async def _decoded(raw: AsyncIterator[bytes], most: int, *, zipped: bool) -> AsyncIterator[bytes]:
    """The parts, each no larger than `most` + 1 however small it was when compressed."""
    if not zipped:
        async for part in raw:
            yield part
        return
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for part in raw:
        yield inflate.decompress(part, most + 1)
        if inflate.unconsumed_tail:
            raise ValueError(f"the answer is larger than {most} bytes")
    if not inflate.eof:
        raise ValueError("the answer ends amid its compressed data")


def refused(text: str, allowed: Sequence[Network] = (), *, loopback: bool = False) -> str:
    """Why an address may not be asked, empty if it may. `loopback`: that is what the configuration
    names.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "no address"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in allowed):
        return ""
    if address.is_link_local or any(address in network for network in METADATA):
        return "a link-local or metadata address"
    if address.is_loopback:
        return "" if loopback else "a loopback address"
    return "no address of a server" if address.is_multicast or address.is_unspecified else ""


async def _resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _secret(path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            text = stream.read(MAX_SECRET + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not plain text"
        raise SourceError(f"{path} cannot be read: {reason}") from None
    if not text.isprintable() or not 0 < len(text) <= MAX_SECRET:
        raise SourceError(f"{path} holds no secret of one line")
    return text


def _changed_at(files: Sequence[str]) -> tuple[float, ...]:
    """When each file was changed, 0 where there is none."""
    times = []
    for file in files:
        try:
            times.append(Path(file).stat().st_mtime if file else 0.0)
        except OSError:
            times.append(0.0)
    return tuple(times)
