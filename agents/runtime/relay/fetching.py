"""Asks other clusters' agents for what pods name that they sent here, in place of our API server.

Of many that want the same at one moment one asks, and all have the answer: replicas come together.
Each answer is sealed to a key of its question alone. What is in it is kept for FRESH_S and no
longer, Secrets too.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence

import msgspec

from agents.executor.context.local import Local
from agents.executor.objects.contents import SECRET, digest_of
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.kinds import KINDS
from agents.executor.relayed import relay
from agents.runtime.driver import ApiClient
from agents.runtime.relay.near_end import NO_WAY, OpenStreams, first_to_answer
from agents.runtime.relay.places import FOR_OBJECTS
from agents.runtime.relay.wire import OK
from shared.kube.client import FAILURES, describe
from shared.kube.http import Request, Response
from shared.messages.relay import (
    ABSENT,
    CONTENT,
    DENIED,
    LATER,
    MOST_GIVEN,
    OBJECTS,
    SAME,
    WITHDRAWN,
    Given,
    GivenObjects,
    PodWants,
    RelayAsk,
    RelayOpen,
    SignedAsk,
    WantedObject,
    decode_given,
    decode_head,
    decode_signed_given,
    encode_relay,
)
from shared.model.pod import PodRef, SourceRef
from shared.security import signatures
from shared.security.sealing import Seal
from shared.streams.frames import CHUNK
from shared.streams.relayed import Stream

ANSWER_S = 35.0
AT_ONCE = FOR_OBJECTS  # questions to one cluster
FRESH_S = 2.0  # an answer is good for others who ask so soon after it
_KEPT = 32 * 2**20  # bytes of such answers
_MORE = 256 * 1024  # bytes of an answer beside contents
_OF_ONE = (
    SAME,
    LATER,
    DENIED,
    WITHDRAWN,
)  # what is told to one asker, and may be another word to the next
_BUSY = f"it does not answer {AT_ONCE} earlier questions"
_Key = tuple[str, str, str, str]  # of the source's cluster, by its UID: namespace, kind, name


class Fetching:
    """An ApiClient that sends a PeerAsk over a relayed stream, and all else to `client`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._local: Local | None = None
        self._streams: OpenStreams = lambda opening: iter(())
        self._under_way: dict[_Key, asyncio.Future[Given]] = {}
        self._places: dict[str, asyncio.Semaphore] = {}  # by UID of the cluster that is asked
        self._recent: dict[_Key, tuple[float, Given]] = {}  # the oldest first
        self._kept = 0  # bytes of these

    def begin(self, local: Local, streams: OpenStreams) -> None:
        """From now on others can be asked, and their objects follow pods to this cluster, of the
        kinds that its policy takes.
        """
        self._local = local
        self._streams = streams
        local.follows = tuple(kind for kind in KINDS if local.policy.takes_any(kind))
        local.serves = local.policy.services

    async def send(self, request: Request) -> Response:
        """As of ApiClient: never raises for what another cluster, or the network, does."""
        if not isinstance(request, PeerAsk):
            return await self._client.send(request)
        try:
            given = await self._together(request)
        except relay.Refusal as refusal:
            return Response(0, str(refusal).encode())
        except (msgspec.MsgspecError, *FAILURES) as error:
            return Response(0, describe(error).encode())
        return Response(OK, encode_relay(GivenObjects(tuple(given))))

    async def send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """As of ApiClient."""
        return await self._client.send_all(requests)

    async def _together(self, ask: PeerAsk) -> list[Given]:
        """What nobody asks for just now is asked for, what others ask for is waited for. Where the
        answer to these is no content, the caller asks for itself.
        """
        mine: dict[_Key, tuple[PodRef, WantedObject]] = {}
        theirs: dict[_Key, asyncio.Future[Given]] = {}
        found: dict[_Key, Given] = {}
        wanted = {
            _key(ask, pods.pod, one): (pods.pod, one) for pods in ask.wants for one in pods.objects
        }
        self._forget()
        for key, want in wanted.items():
            known = self._recent.get(key)
            if known is not None and _is_sought(ask, known[1]):
                found[key] = known[1]
            elif key in self._under_way:
                theirs[key] = self._under_way[key]
            else:
                mine[key] = want
        found |= await self._mine(ask, mine)
        for key, future in theirs.items():
            await asyncio.wait({future})
            if not future.cancelled():
                found[key] = future.result()
        left = {
            key: want
            for key, want in wanted.items()
            if key not in found
            or (
                key not in mine and (found[key].state in _OF_ONE or not _is_sought(ask, found[key]))
            )
        }
        if left:
            found |= await self._asked(ask, left)
        return [found[_key(ask, pods.pod, one)] for pods in ask.wants for one in pods.objects]

    def _forget(self) -> None:
        """Answers that are good no longer."""
        before = time.monotonic() - FRESH_S
        while self._recent:
            key, (at, given) = next(iter(self._recent.items()))
            if at > before:
                return
            self._kept -= len(given.content)
            del self._recent[key]

    async def _mine(
        self, ask: PeerAsk, wanted: dict[_Key, tuple[PodRef, WantedObject]]
    ) -> dict[_Key, Given]:
        """Ask, and let others have it."""
        if not wanted:
            return {}
        futures = {key: asyncio.get_running_loop().create_future() for key in wanted}
        self._under_way |= futures
        try:
            found = await self._asked(ask, wanted)
            for key, given in found.items():
                futures[key].set_result(given)
                self._keep(key, given)
            return found
        finally:
            for key, future in futures.items():
                if self._under_way.get(key) is future:
                    del self._under_way[key]
                if not future.done():
                    future.cancel()

    def _keep(self, key: _Key, given: Given) -> None:
        self._forget()
        size = len(given.content)
        if size and key in self._recent:  # what others were given before a change at home
            self._kept -= len(self._recent.pop(key)[1].content)
        if size and self._kept + size <= _KEPT:
            self._recent[key] = time.monotonic(), given
            self._kept += size
            asyncio.get_running_loop().call_later(FRESH_S + 0.1, self._forget)

    async def _asked(
        self, ask: PeerAsk, wanted: dict[_Key, tuple[PodRef, WantedObject]]
    ) -> dict[_Key, Given]:
        """One question, and what its cluster has signed. Refusal, and what streams raise."""
        places = self._places.setdefault(ask.cluster_uid, asyncio.Semaphore(AT_ONCE))
        try:
            async with asyncio.timeout(ANSWER_S):
                await places.acquire()
        except TimeoutError:
            raise relay.Refusal(relay.FAILED, _BUSY) from None
        try:
            return await self._asked_now(ask, wanted)
        finally:
            places.release()

    async def _asked_now(
        self, ask: PeerAsk, wanted: dict[_Key, tuple[PodRef, WantedObject]]
    ) -> dict[_Key, Given]:
        by_pod: dict[PodRef, list[tuple[_Key, WantedObject]]] = {}
        for key, (pod, one) in wanted.items():
            by_pod.setdefault(pod, []).append((key, one))
        wants = tuple(PodWants(pod, tuple(one for _, one in of)) for pod, of in by_pod.items())
        keys = [key for of in by_pod.values() for key, _ in of]
        local = self._local
        if local is None:
            raise relay.Refusal(relay.FAILED, NO_WAY)
        first = wants[0].pod
        streams = self._streams(encode_relay(RelayOpen(ask.cluster, first.uid)))
        problem = ""
        while True:
            try:
                stream, challenge = await first_to_answer(streams)
            except relay.Refusal as refusal:
                raise relay.Refusal(relay.FAILED, problem or refusal.text) from None
            try:
                async with asyncio.timeout(ANSWER_S):
                    given = await _answer(stream, ask, wants, challenge, local)
            except FAILURES as error:
                problem = describe(error)
                continue
            finally:
                if not stream.finished:
                    stream.reset("the answer is not read")
            if len(given) != len(keys):
                raise relay.Refusal(relay.FAILED, "its answer is not one to each object")
            return dict(zip(keys, given, strict=True))


def _is_sought(ask: PeerAsk, given: Given) -> bool:
    """Whether an answer to others, who may have asked before a change at home, does for this one."""
    if not ask.sought or given.state not in (CONTENT, ABSENT):
        return True
    digest = digest_of(given.content, given.key) if given.state == CONTENT else b""
    return digest in ask.sought


def _key(ask: PeerAsk, pod: PodRef, wanted: WantedObject) -> _Key:
    return ask.cluster_uid, pod.namespace, wanted.kind, wanted.name


async def _answer(
    stream: Stream, ask: PeerAsk, wants: tuple[PodWants, ...], challenge: bytes, local: Local
) -> tuple[Given, ...]:
    """What the other agent gives. Refusal: it gives nothing, or it has not signed that."""
    if len(challenge) < relay.CHALLENGE:
        raise relay.Refusal(relay.FAILED, "its challenge is too short")
    pod = wants[0].pod
    seal = Seal()
    source = SourceRef(ask.cluster, ask.cluster_uid, pod.namespace, pod.name, pod.uid, 0)
    asked = RelayAsk(
        source,
        local.cluster,
        local.cluster_uid,
        challenge,
        OBJECTS,
        "GET",
        wants=wants,
        nonce=secrets.token_bytes(relay.CHALLENGE),
        seal=seal.public,
    )
    body = encode_relay(asked)
    sent = encode_relay(SignedAsk(body, local.keys.sign_ask(body)))
    if len(sent) > CHUNK:
        raise relay.Refusal(relay.BAD, f"the request is longer than {CHUNK} bytes")
    await stream.write(sent)
    head = decode_head(await stream.read())
    if head.status != OK:
        raise relay.Refusal(relay.FAILED, head.text)
    found = bytearray()
    while data := await stream.read():
        found += data
        if len(found) > MOST_GIVEN + _MORE:
            raise relay.Refusal(relay.FAILED, "its answer is too long")
    stream.finish()
    signed = decode_signed_given(seal.opened(bytes(found), sent) if head.sealed else found)
    keys = local.trusted.of(ask.cluster_uid)
    if not signatures.is_given_by(keys, sent, signed.given, signed.signature):
        raise relay.Refusal(relay.FAILED, "its answer is not signed by a key known here of it")
    given = decode_given(signed.given).given
    kinds = (one.kind for pod in wants for one in pod.objects)
    if not head.sealed and any(
        kind == SECRET and one.content for kind, one in zip(kinds, given, strict=False)
    ):
        raise relay.Refusal(relay.FAILED, "it has not sealed the Secrets in its answer")
    return given
