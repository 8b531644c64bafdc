"""Calls to one API server. A call never raises for what the network or the server does: status 0
says that no answer came. The credentials are loaded anew when the server no longer accepts them or
has long been out of reach.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from shared.kube.exchange import Exchanges
from shared.kube.http import Request, Response
from shared.kube.response_reader import BodyTooLargeError, RawResponse
from shared.kube.session import Access, AccessError, ApiSession
from shared.kube.verdicts import NOT_FOUND, is_status

MAX_BODY = 256 * 1024 * 1024
MAX_RETRIES_429 = 3
PAGES_AT_ONCE = 4  # of lists, which may be large: the memory of an agent holds so many
_HEAD = 64 * 1024  # bytes of an answer that is too large, for its reader to know what it is
MAX_RETRY_AFTER_S = 10.0
FAILURES = (
    aiohttp.ClientError,
    asyncio.TimeoutError,
    OSError,
    RuntimeError,
    ValueError,
)  # AccessError is a RuntimeError


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, seconds: to connect, for a whole call, between two loads of the
    credentials, and for the next byte of a list, before it is asked for once more (a request may
    wait so long in a queue of the API server's).
    """

    connect_s: float = 3.0
    request_s: float = 10.0
    reload_s: float = 15.0
    silent_s: float = 15.0


class KubeClient:
    """One API server, one pool. `last_answer` is the monotonic time of the latest answer of any
    kind.
    """

    def __init__(self, access: Access, patience: Patience | None = None) -> None:
        self.access = access
        self.last_answer = -float("inf")
        self._patience = patience or Patience()
        self._session: ApiSession | None = None
        self._opening = asyncio.Lock()
        self._opened = -float("inf")
        self._unreachable_since: float | None = None
        self._old: list[ApiSession] = []
        self._closed = False
        self.paging = asyncio.Semaphore(PAGES_AT_ONCE)  # held while a page is fetched and read

    async def session(self) -> ApiSession:
        """The open session; AccessError if there is no way to make one."""
        if self._session is not None and not self._closed:
            return self._session
        async with self._opening:
            if self._closed:
                raise AccessError("the client is closed")
            if self._session is None:
                self._session = await ApiSession.open(self.access, self._patience.connect_s)
                self._opened = time.monotonic()
            return self._session

    async def close(self) -> None:
        """Close every connection; calls in flight end with status 0."""
        self._closed = True
        sessions = [*self._old, *([self._session] if self._session is not None else [])]
        self._session = None
        self._old = []
        for session in sessions:
            await session.close()

    async def send(
        self, request: Request, *, timeout_s: float | None = None, max_body: int = MAX_BODY
    ) -> Response:
        """One call. The caller is told of 429 at once, and waits as it sees fit; only a list, whose
        pages so far would be lost, is asked for again a few times after the time that the server
        asks for. A list of which no byte comes for `Patience.silent_s` is sent once more with what
        is left of `timeout_s`: the connection may be half-open, while a server that is merely slow
        still has that time.
        """
        tries = MAX_RETRIES_429 + 1 if request.params else 1
        for attempt in range(tries):
            response = await self._send_once(
                request, timeout_s or self._patience.request_s, max_body
            )
            if response.status != 429 or attempt == tries - 1:
                break
            await asyncio.sleep(
                min(response.retry_after_s or 1.0, MAX_RETRY_AFTER_S) * random.uniform(1.0, 1.3)
            )
        return response

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        """Short writes that nobody waits for, such as events: all over one connection, done one
        after the other.

        None is tried again.
        """
        try:
            session = await self.session()
            if session.exchanges is None:
                return await asyncio.gather(*map(self.send, requests))
            authorization = await session.authorization()
            raw = [session.rendering.render(request, authorization) for request in requests]
            answers, problem = await session.exchanges.series(
                raw, MAX_BODY, self._patience.request_s
            )
        except FAILURES as error:
            answers = []
            problem = error
        if isinstance(problem, OSError | AccessError):
            await self._unreachable()
        elif answers:
            await self._answered(answers[-1].status)
        unknown = [
            _no_answer(request, problem)
            for request in requests[len(answers) :]
            if problem is not None
        ]
        return [*map(_response, requests, answers), *unknown]

    async def _send_once(self, request: Request, timeout_s: float, max_body: int) -> Response:
        """A write is short and one of many, and goes the cheap way; what is read may be long."""
        begun = time.monotonic()
        try:
            if request.method != "GET" and not request.params:
                session = self._session or await self.session()
                if session.exchanges is not None:
                    ends_at = begun + timeout_s
                    return await self._exchange(
                        session, session.exchanges, request, (max_body, ends_at)
                    )
                async with asyncio.timeout(timeout_s - (time.monotonic() - begun)):
                    return await self._read(request, timeout_s, None, max_body)
            is_list = request.method == "GET" and bool(request.params)
            try:
                return await self._read(
                    request, timeout_s, self._patience.silent_s if is_list else None, max_body
                )
            except aiohttp.SocketTimeoutError:
                return await self._read(
                    request, max(0.01, timeout_s - (time.monotonic() - begun)), None, max_body
                )
        except FAILURES as error:
            return _no_answer(request, error)

    async def _read(
        self, request: Request, timeout_s: float, silence_s: float | None, max_body: int
    ) -> Response:
        """The whole answer; raises one of FAILURES, SocketTimeoutError when no byte of it came for
        `silence_s`.
        """
        limits = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=self._patience.connect_s, sock_read=silence_s
        )
        async with self._call(request, limits) as answer:
            body = await _bounded(answer, max_body)
            return _as_answered(
                request, answer.status, body, _retry_after(answer.headers.get("Retry-After", ""))
            )

    async def _exchange(
        self, session: ApiSession, exchanges: Exchanges, request: Request, limits: tuple[int, float]
    ) -> Response:
        """The cheap way. `limits`: bytes of the body, and when it ends: credentials that come later
        send nothing.
        """
        max_body, ends_at = limits
        try:
            raw = session.rendering.render(request, await session.authorization())
            answer = await exchanges.call(raw, max_body, ends_at - time.monotonic())
        except (OSError, AccessError):
            await self._unreachable()
            raise
        if answer.status == 401:
            await self._answered(401)
        else:
            self.last_answer = time.monotonic()
            self._unreachable_since = None
        return _response(request, answer)

    @asynccontextmanager
    async def stream(
        self, request: Request, silence_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A long answer, read as it comes; raises one of FAILURES, also when nothing comes for
        `silence_s`.
        """
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._patience.connect_s, sock_read=silence_s
        )
        # The head of the answer must come as soon as any other answer; only the stream itself may
        # be slow.
        async with (
            asyncio.timeout(self._patience.request_s) as head,
            self._call(request, limits) as answer,
        ):
            head.reschedule(None)
            yield answer

    @asynccontextmanager
    async def _call(
        self, request: Request, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": request.accept}
        if request.body:
            headers["Content-Type"] = request.content_type
        try:
            session = await self.session()
            if authorization := await session.authorization():
                headers["Authorization"] = authorization
            async with session.http.request(
                request.method,
                session.host + request.path,
                params=request.params,
                data=request.body or None,
                headers=headers,
                timeout=limits,
                proxy=session.proxy,
                server_hostname=session.server_hostname,
                allow_redirects=False,
            ) as answer:
                await self._answered(answer.status)
                yield answer
        except (aiohttp.ClientConnectionError, OSError, AccessError):
            await self._unreachable()
            raise

    async def _answered(self, status: int) -> None:
        self.last_answer = time.monotonic()
        self._unreachable_since = None
        if status == 401:
            await self._renew()

    async def _unreachable(self) -> None:
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
        if now - self._unreachable_since > self._patience.reload_s:
            await self._renew()

    async def _renew(self) -> None:
        """Load the credentials anew for the next call, not more often than `reload_s`."""
        if self._session is None or time.monotonic() - self._opened < self._patience.reload_s:
            return
        # Calls in flight keep the old session for one more period.
        for session in self._old:
            with suppress(Exception):
                await session.close()
        self._old = [self._session]
        self._session = None


def describe(error: BaseException) -> str:
    """An error in words that are never empty and never long."""
    kind = "timeout" if isinstance(error, asyncio.TimeoutError) else type(error).__name__
    return f"{kind}: {error}"[:300] if str(error) else kind


def _no_answer(request: Request, error: BaseException) -> Response:
    head = error.head if isinstance(error, BodyTooLargeError) else b""
    return Response(0, f"{request.method} {request.path}: {describe(error)}".encode(), head=head)


def _response(request: Request, answer: RawResponse) -> Response:
    asked_s = _retry_after(answer.retry_after.decode("latin-1")) if answer.retry_after else 0.0
    return _as_answered(request, answer.status, answer.body, asked_s)


def _as_answered(request: Request, status: int, body: bytes, retry_after_s: float) -> Response:
    """The answer; none, if it says that an object is not there, and not in the API server's words.

    A balancer whose API servers are away, or a proxy, answers 404 too: that is no word on any
    object.
    """
    if status == NOT_FOUND and _of_object(request.path) and not is_status(body):
        said = body[:100].decode("utf-8", "replace").strip()
        return Response(
            0,
            f"{request.method} {request.path}: HTTP 404, and not from an API server: {said}".encode(),
        )
    return Response(status, body, retry_after_s)


def _of_object(path: str) -> bool:
    """Whether the API server itself answers for it, always with a Status: core objects, and no
    proxied path.
    """
    return path.startswith("/api/v1/namespaces/") and "/proxy" not in path


async def _bounded(answer: aiohttp.ClientResponse, max_body: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > max_body:
            answer.close()
            head = b"".join([*parts, chunk])[:_HEAD]
            raise BodyTooLargeError(f"the answer is larger than {max_body // 1024} KiB", head)
        parts.append(chunk)
    return b"".join(parts)


def _retry_after(text: str) -> float:
    """Seconds of a Retry-After header; dates and nonsense count as none."""
    return min(float(text), 3600.0) if text.isdigit() and len(text) < 6 else 0.0
