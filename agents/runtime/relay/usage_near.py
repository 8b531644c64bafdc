"""The pages of usage that proxy nodes have, as kubelets have one: who may read them, and what other
clusters tell.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import h11
import msgspec
import structlog

from agents.executor.context.local import Local
from agents.executor.relayed import relay, usage
from agents.executor.relayed.relay import Refusal, Wanted
from agents.runtime.relay.callers import Caller, caller_of
from agents.runtime.relay.fresh import Fresh
from agents.runtime.relay.tokens import Tokens
from agents.runtime.relay.wire import OK, Wire, plain
from shared.kube.client import FAILURES, describe
from shared.messages.usage import Usage, decode_usage
from shared.model.pod import Pod

LOG = structlog.get_logger("relay")
FRESH_S = 5.0  # metrics-server asks each 15 s, and may have replicas
ASKED_S = 8.0  # for another cluster to answer; metrics-server waits 10 s
TRIED = 4  # pods that a question rests on, one after the other
# bytes of an answer, and more for each pod there: an honest one has 300 or so
MOST = 64 * 1024
MOST_OF_POD = 4 * 1024
KIND = "text/plain; version=0.0.4; charset=utf-8"
Read = Callable[
    [Wanted, Pod, str, int], Awaitable[bytes]
]  # of another cluster. Refusal, StreamReset
May = Callable[
    [Caller, str, str, str], Awaitable[bool]
]  # verb, subresource, node ('': all). Refusal


class ProxyMetrics:
    """Serves them. Another cluster is asked once for all its pods, and not again for some seconds."""

    def __init__(
        self, local: Local, read: Read, may: May, tokens: Tokens, unfit: Callable[[], str]
    ) -> None:
        self._local = local
        self._read = read
        self._may = may
        self._tokens = tokens
        self._unfit = unfit
        self._fresh = Fresh[Usage](FRESH_S)
        self._problems: dict[str, str] = {}  # by cluster, as last said
        self.admitted: Callable[[], None] = lambda: None  # called once the caller at hand may ask

    async def serve(self, request: h11.Request, wire: Wire) -> bool:
        """Answer, if it is metrics that are asked for. Refusal."""
        try:
            node = usage.node_of(urlsplit(request.target.decode("latin-1")).path)
        except ValueError:
            return False
        if node is None:
            return False
        if request.method != b"GET":
            raise Refusal(relay.WRONG_METHOD, f"{request.method.decode('latin-1')} is not served")
        await self._check(request, wire, node)
        self.admitted()
        cluster = usage.cluster_of(node, self._local)
        if problem := self._unfit():
            raise Refusal(relay.FAILED, problem)
        pods = usage.pods_there(node, self._local)
        found = await self._usage(cluster, pods) if pods else Usage()
        await wire.answer(OK, usage.page(found, pods), KIND)
        return True

    async def _check(self, request: h11.Request, wire: Wire, node: str) -> None:
        """As kubelets do: a client certificate, else a token; then, may its user `get
        nodes/metrics`?
        """
        certificate = wire.pipe.writer.get_extra_info("peercert")
        authorization = dict(plain(list(request.headers))).get("authorization", "")
        caller = (
            caller_of(certificate)
            if certificate or not authorization
            else await self._tokens.caller(authorization)
        )
        # Who may read those of all nodes is the rule: one review for all proxy nodes.
        if not await self._may(caller, "get", "metrics", "") and not (
            node and await self._may(caller, "get", "metrics", node)
        ):
            raise Refusal(
                relay.FORBIDDEN, f'user "{caller.name}" may not get nodes/metrics of node "{node}"'
            )

    async def _usage(self, cluster: str, pods: list[Pod]) -> Usage:
        """What another cluster tells; nothing, with the problem, while it tells nothing."""
        try:
            found = await self._fresh.get(cluster, lambda: self._asked(cluster, pods))
        except (Refusal, msgspec.MsgspecError, *FAILURES) as error:
            found = Usage(problem=str(error) if isinstance(error, Refusal) else describe(error))
        if found.problem != self._problems.get(cluster, ""):
            self._problems[cluster] = found.problem
            LOG.warning(
                "what remote pods use", target=cluster, problem=found.problem or "none any more"
            )
        return found

    async def _asked(self, cluster: str, pods: list[Pod]) -> Usage:
        """The gateway lets a stream through that is about a pod it knows there, and the target
        answers if it has a delegate of that: one of a few will do, and the answer is about all.
        """
        most = MOST + MOST_OF_POD * len(pods)
        async with asyncio.timeout(ASKED_S):
            *first, last = pods[:TRIED]
            for pod in first:
                with suppress(Refusal):
                    return await self._told_by(pod, cluster, most)
            return await self._told_by(last, cluster, most)

    async def _told_by(self, pod: Pod, cluster: str, most: int) -> Usage:
        return decode_usage(await self._read(usage.wanted_of(pod), pod, cluster, most))
