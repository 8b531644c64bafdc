"""The near end: a request that this cluster's API server sends to a proxy node's kubelet, asked of
another cluster.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import h11
import msgspec
import structlog

from agents.executor.context.local import Local
from agents.executor.intents.delegate import delegate_name
from agents.executor.relayed import relay
from agents.executor.relayed.relay import Refusal, Wanted
from agents.runtime.relay.callers import Caller, caller_of
from agents.runtime.relay.places import Places
from agents.runtime.relay.spdy import Frames
from agents.runtime.relay.wire import OK, SWITCHING, Wire, plain
from shared.kube.client import FAILURES, describe
from shared.kube.pipe import Pipe
from shared.messages.relay import ATTACH, EXEC, LOG, RelayHead, RelayOpen, decode_head, encode_relay
from shared.model.pod import Pod
from shared.streams.frames import CHUNK
from shared.streams.relayed import Stream, StreamReset

LOG_LINE = structlog.get_logger("relay")
ASKED_S = 10.0  # for a request to arrive, and for the other cluster's agent to be found
ANSWER_S = 45.0  # for its answer; a log that is followed may be silent for ever
NO_WAY = "this agent is connected to no dispatcher's gateway that relays"

ServeMetrics = Callable[
    [h11.Request, Wire], Awaitable[bool]
]  # whether it was a request for metrics. Refusal
OpenStreams = Callable[[bytes], Iterator[Stream]]  # over one gateway after the other
Check = Callable[[Caller, str], Awaitable[None]]  # may this caller ask this node? Refusal


def _status(code: int, text: str) -> str:
    """For an upgrade. Kubectl of Kubernetes 1.32 takes a text with ": " for YAML, so for a Status
    without a message.
    """
    told = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": text,
        "code": code,
    }
    return msgspec.json.encode(told).decode()


async def first_to_answer(streams: Iterator[Stream]) -> tuple[Stream, bytes]:
    """The next stream over which an agent answers, with its challenge; those before are reset.
    Refusal with the last problem if there is none, and NO_WAY if there is no stream.
    """
    problem = NO_WAY
    for stream in streams:
        challenge: bytes | None = None
        try:
            async with asyncio.timeout(ASKED_S):
                challenge = await stream.read()
        except TimeoutError:
            problem = f"no answer within {ASKED_S:g} s"
        except StreamReset as error:
            problem = str(error)
        except FAILURES as error:
            problem = describe(error)
        finally:
            if challenge is None and not stream.finished:
                stream.reset("the caller has gone")
        if challenge is not None:
            return stream, challenge
    raise Refusal(relay.FAILED, problem)


class NearEnd:
    """Serves connections of the API server, one request each."""

    def __init__(
        self, local: Local, streams: OpenStreams, check: Check, unfit: Callable[[], str]
    ) -> None:
        self._local = local
        self._streams = streams
        self._check = check
        self._unfit = unfit
        self._places = Places()
        self.serve_metrics: ServeMetrics | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end; never raises for what comes over it."""
        wire = Wire(Pipe(reader, writer), h11.SERVER)
        try:
            await self._answer(wire)
        except (*FAILURES, h11.ProtocolError) as error:
            LOG_LINE.debug("a request broke off", problem=repr(error))
            wire.pipe.abort()
        finally:
            writer.close()

    async def _answer(self, wire: Wire) -> None:
        upgrade = False
        try:
            async with asyncio.timeout(ASKED_S):
                request = await wire.next()
                if not isinstance(request, h11.Request):
                    return
                while not isinstance(await wire.next(), h11.EndOfMessage):
                    pass
            upgrade = any(name == b"upgrade" for name, _ in request.headers)
            if self.serve_metrics is not None and await self.serve_metrics(request, wire):
                return
            wanted, pod, cluster = await self._permitted(request, wire)
            await self._relayed(wanted, pod, cluster, wire)
            return
        except Refusal as refusal:
            status = refusal.status
            text = refusal.text
        except (
            ValueError
        ) as error:  # of what the caller, the API server or the other cluster has said
            status = relay.FAILED
            text = f"the agent cannot read what it was told: {error}"
        await (
            wire.answer(status, _status(status, text), "application/json")
            if upgrade
            else wire.answer(status, text)
        )

    async def _permitted(self, request: h11.Request, wire: Wire) -> tuple[Wanted, Pod, str]:
        """What is asked about which pod, once the caller may ask it. Refusal."""
        caller = caller_of(wire.pipe.writer.get_extra_info("peercert"))
        headers = plain(list(request.headers))
        wanted = relay.wanted_of(request.method.decode(), request.target.decode("latin-1"), headers)
        try:
            pod, cluster = relay.remote_pod(wanted, self._local)
        except Refusal:
            await self._check(caller, "")
            raise
        await self._check(caller, pod.node)
        if problem := self._unfit():
            raise Refusal(relay.FAILED, problem)
        return wanted, pod, cluster

    async def read(self, wanted: Wanted, pod: Pod, cluster: str, most: int) -> bytes:
        """The whole body of another cluster's answer, of at most so many bytes. Refusal,
        StreamReset.
        """
        with contextlib.closing(_Held()) as held:
            head = await self._asked(wanted, pod, cluster, held)
            if head.status != OK:
                raise Refusal(relay.FAILED, head.text)
            found = bytearray()
            while data := await held.stream.read():
                found += data
                if len(found) > most:
                    raise Refusal(
                        relay.FAILED,
                        f'the answer of cluster "{cluster}" is longer than {most} bytes',
                    )
            held.stream.finish()
            return bytes(found)

    async def _relayed(self, wanted: Wanted, pod: Pod, cluster: str, wire: Wire) -> None:
        working = asyncio.create_task(self._carried(wanted, pod, cluster, wire))
        tasks = {working}
        if wanted.verb == LOG:  # who asked may go while nothing is to be said
            tasks.add(asyncio.create_task(wire.hung_up()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _carried(self, wanted: Wanted, pod: Pod, cluster: str, wire: Wire) -> None:
        with (
            self._places.held(cluster, pod.namespace),
            contextlib.closing(_Held()) as held,
        ):
            head = await self._asked(wanted, pod, cluster, held)
            if head.status != (OK if wanted.verb == LOG else SWITCHING):
                raise Refusal(max(relay.BAD, min(head.status, relay.FAILED)), head.text)
            headers = [
                (name, value) for name, value in head.headers if name in relay.ANSWERED_HEADERS
            ]
            if head.status == SWITCHING:
                await wire.send(h11.InformationalResponse(status_code=SWITCHING, headers=headers))
                await wire.relay(held.stream, Frames() if _ends_by_word(wanted, headers) else None)
                return
            kept = [(name, value) for name, value in headers if name == "content-type"]
            await wire.send(h11.Response(status_code=OK, headers=[*kept, ("Connection", "close")]))
            while data := await held.stream.read():
                await wire.send(h11.Data(data=data))
            await wire.send(h11.EndOfMessage())
            held.stream.finish()

    async def _asked(self, wanted: Wanted, pod: Pod, cluster: str, held: "_Held") -> RelayHead:
        """The head of the answer, by the first gateway that knows a way. Refusal."""
        try:
            found = await first_to_answer(self._streams(encode_relay(RelayOpen(cluster, pod.uid))))
        except Refusal as refusal:
            there = f"{pod.namespace}/{delegate_name(relay.source_of(pod, self._local))}"
            why = (
                f"which cannot be asked: {refusal.text}; "
                f"ask that cluster itself about its pod {there}"
            )
            raise Refusal(relay.FAILED, f'the pod runs in cluster "{cluster}", {why}') from None
        stream, challenge = found
        held.take(stream)
        ask = relay.signed_ask(wanted, pod, cluster, challenge, self._local)
        if len(ask) > CHUNK:
            raise Refusal(relay.BAD, f"the request is longer than {CHUNK} bytes")
        follows = wanted.verb == LOG and ("follow", "true") in wanted.query
        try:
            await stream.write(ask)
            async with asyncio.timeout(None if follows else ANSWER_S):
                return decode_head(await stream.read())
        except (OSError, msgspec.MsgspecError) as error:
            raise Refusal(
                relay.FAILED, f'cluster "{cluster}" has not answered: {error or "time is up"}'
            ) from None


def _ends_by_word(wanted: Wanted, headers: list[tuple[str, str]]) -> bool:
    """Whether a connection that closes without a word is taken for a command that has ended well."""
    upgrades = [value.lower() for name, value in headers if name == "upgrade"]
    return wanted.verb in (EXEC, ATTACH) and any(one.startswith("spdy/") for one in upgrades)


class _Held:
    """The stream that is in use. `close`, and taking another one, reset one that was not finished."""

    stream: Stream

    def take(self, stream: Stream) -> None:
        self.close()
        self.stream = stream

    def close(self) -> None:
        if hasattr(self, "stream") and not self.stream.finished:
            self.stream.reset("the caller has gone")
