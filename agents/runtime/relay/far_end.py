"""The far end of a relayed stream: what another cluster asks about the delegate of its pod, or for
what the source of a delegate of its own names, asked of our API server.
"""

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import h11

from agents.executor.bounds.byte_budget import ByteRate, SharedBudget
from agents.executor.context.local import Local
from agents.executor.relayed import giving, relay
from agents.executor.relayed.relay import Call, Refusal
from agents.runtime.relay.wire import OK, SWITCHING, Wire, plain
from shared.kube.client import FAILURES, KubeClient, describe
from shared.kube.http import Procedure, Request, Response
from shared.kube.rendering import USER_AGENT
from shared.messages.relay import LOG, METRICS, OBJECTS, RelayAsk, RelayHead, encode_relay
from shared.security import sealing
from shared.streams.relayed import Stream, StreamReset

OPENING_S = 10.0  # for the other agent to ask, and for our API server to be reached
ANSWER_S = 30.0  # for our API server to answer; a log that is followed may be silent for ever
_ERROR_BODY = 64 * 1024
MOST_AT_ONCE = 4  # questions of one cluster for objects: each answer has memory
# of what is given to one cluster, and of one namespace to it: one user keeps nothing from others
GIVEN = ByteRate(512 * 2**20, 4 * 2**20)
GIVEN_OF_NAMESPACE = ByteRate(256 * 2**20, 2 * 2**20)
_TOO_MUCH = "it has asked for too much of late: try again in a moment"
T = TypeVar("T")
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

TellUsage = Callable[
    [str], Awaitable[bytes]
]  # of the delegates of a cluster, by the UID of its kube-system


class FarEnd:
    """Serves streams that other clusters open. `unfit`: why nobody is served just now, '' if all
    are.
    """

    def __init__(
        self, local: Local, client: KubeClient, unfit: Callable[[], str] = lambda: ""
    ) -> None:
        self._local = local
        self._client = client
        self._unfit = unfit
        self.usage: TellUsage | None = None
        self._given = SharedBudget(GIVEN_OF_NAMESPACE, GIVEN)
        self._giving = Counter[str]()  # questions for objects under way, by who asks

    async def serve(self, stream: Stream, opening: bytes) -> None:
        """One stream, from its challenge to its end."""
        try:
            async with asyncio.timeout(OPENING_S):
                ask, told = await self._asked(stream)
                if ask.verb == METRICS:
                    body = await self._usage(ask)
                elif ask.verb != OBJECTS:
                    call = await self._drive(relay.call_of(ask, self._local))
                    wire = await self._connect()
            if ask.verb == OBJECTS:
                body = await self._objects(ask, told)
        except Refusal as refusal:
            await _refuse(stream, refusal.status, refusal.text)
        except FAILURES as error:
            if isinstance(error, StreamReset):
                raise
            await _refuse(
                stream, relay.FAILED, f'cluster "{self._local.cluster}": {describe(error)}'
            )
        else:
            if ask.verb in (METRICS, OBJECTS):
                sealed = ask.verb == OBJECTS and bool(ask.seal)
                await _finish(stream, RelayHead(OK, sealed=sealed), body)
                return
            try:
                await self._carry_out(ask, call, wire, stream)
            finally:
                wire.pipe.close()

    async def _asked(self, stream: Stream) -> tuple[RelayAsk, bytes]:
        """What is asked, and as it came."""
        challenge = secrets.token_bytes(relay.CHALLENGE)
        await stream.write(challenge)
        body = await stream.read()
        if problem := self._unfit():
            raise Refusal(relay.FAILED, problem)
        return relay.checked_ask(body, challenge, self._local.policy.relay, self._local), body

    async def _usage(self, ask: RelayAsk) -> bytes:
        if self.usage is None:
            raise Refusal(relay.FAILED, f'cluster "{self._local.cluster}" tells no usage')
        return await self.usage(ask.source.cluster_uid)

    async def _given_to(self, ask: RelayAsk, body: bytes) -> bytes:
        """The answer, signed, in clear."""
        account = self._account(ask.target_uid or ask.target)
        return await self._drive(giving.answer(ask, body, self._local, account))

    async def _objects(self, ask: RelayAsk, body: bytes) -> bytes:
        """What pods of ours name that are there. One cluster takes no place of others."""
        asker = ask.target_uid or ask.target
        if self._giving[asker] >= MOST_AT_ONCE:
            raise Refusal(relay.FAILED, f"{MOST_AT_ONCE} questions for objects are under way")
        if self._given.spent(asker, "", time.monotonic()):
            raise Refusal(relay.FAILED, _TOO_MUCH)
        self._giving[asker] += 1
        try:
            async with asyncio.timeout(ANSWER_S):
                given = await self._given_to(ask, body)
            return sealing.sealed(ask.seal, body, given) if ask.seal else given
        finally:
            self._giving[asker] -= 1
            if not self._giving[asker]:
                del self._giving[asker]

    def _account(self, asker: str) -> giving.Account:
        def spent(namespace: str) -> str:
            return _TOO_MUCH if self._given.spent(asker, namespace, time.monotonic()) else ""

        def spend(namespace: str, size: int) -> None:
            self._given.spend(asker, namespace, time.monotonic(), size)

        return giving.Account(spent, spend)

    async def _drive(self, procedure: Procedure[T]) -> T:
        response: Response | None = None
        while True:
            try:
                request: Request = (
                    procedure.send(response) if response is not None else next(procedure)
                )
            except StopIteration as end:
                found: T = end.value
                return found
            response = await self._client.send(request)

    async def _connect(self) -> Wire:
        session = await self._client.session()
        pipe = await session.connect()
        raw = pipe.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
        return Wire(pipe, h11.CLIENT)

    async def _carry_out(self, ask: RelayAsk, call: Call, wire: Wire, stream: Stream) -> None:
        carried = asyncio.create_task(self._answered(ask, call, wire, stream))
        try:
            if (
                ask.verb == LOG
            ):  # nothing comes the other way but the end, which also ends a log that is silent
                await asyncio.wait(
                    {carried, ended := asyncio.create_task(_ended(stream))},
                    return_when="FIRST_COMPLETED",
                )
                if carried.done():
                    carried.result()
                    await ended
                ended.cancel()
            else:
                await carried
        except (OSError, h11.ProtocolError) as error:
            stream.reset(f'cluster "{self._local.cluster}": {describe(error)}')
        finally:
            carried.cancel()
            await asyncio.gather(carried, return_exceptions=True)

    async def _answered(self, ask: RelayAsk, call: Call, wire: Wire, stream: Stream) -> None:
        await wire.send(await self._request(call), h11.EndOfMessage())
        follows = ask.verb == LOG and ("follow", "true") in ask.query
        async with asyncio.timeout(None if follows else ANSWER_S):
            head = await wire.next()
        if not isinstance(head, h11.Response | h11.InformationalResponse):
            raise ConnectionResetError("its API server ended the connection without an answer")
        if head.status_code != (OK if ask.verb == LOG else SWITCHING):
            await _refuse(
                stream,
                *relay.kubelet_refusal(head.status_code, await _body(wire), ask, call.delegate),
            )
            return
        kept = tuple(
            (name, value) for name, value in plain(head.headers.raw_items()) if _goes_back(name)
        )
        await stream.write(encode_relay(RelayHead(head.status_code, kept)))
        if head.status_code == SWITCHING:
            await wire.relay(stream)
            return
        await wire.to(stream)

    async def _request(self, call: Call) -> h11.Request:
        session = await self._client.session()
        headers = [("Host", session.authority), ("User-Agent", USER_AGENT)]
        if authorization := await session.authorization():
            headers.append(("Authorization", authorization))
        if call.headers:
            headers += [("Connection", "Upgrade"), *call.headers]
        if call.method == "POST":
            headers.append(("Content-Length", "0"))
        return h11.Request(method=call.method, target=session.prefix + call.path, headers=headers)


def _goes_back(name: str) -> bool:
    return name in relay.ANSWERED_HEADERS


async def _body(wire: Wire) -> bytes:
    found = b""
    while len(found) < _ERROR_BODY and isinstance(event := await wire.next(), h11.Data):
        found += event.data
    return found


async def _refuse(stream: Stream, status: int, text: str) -> None:
    await _finish(stream, RelayHead(status, (), text))


async def _finish(stream: Stream, head: RelayHead, body: bytes = b"") -> None:
    """The whole answer. Who neither reads it nor ends the stream keeps no stream by that."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await stream.write(encode_relay(head))
            await stream.write(body)
            stream.finish()
            await _ended(stream)
    except TimeoutError:
        stream.reset("the other side does not end the stream")


async def _ended(stream: Stream) -> None:
    """Until the other end sends no more, or has broken off."""
    with suppress(StreamReset):
        while await stream.read():
            pass
