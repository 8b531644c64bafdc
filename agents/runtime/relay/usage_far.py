"""What delegates here use, for the cluster of their sources: asked of the kubelets of the nodes
that they are on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from agents.executor.bounds.recent import Recent
from agents.executor.context.local import Local
from agents.executor.relayed import usage
from agents.observer.seen import NodeTarget
from agents.runtime.relay.fresh import Fresh
from agents.telemetry.resource_metrics import PATH, Pods, read_pods
from agents.telemetry.source import SourceError
from shared.messages.usage import PodUsage, Usage, encode_usage

LOG = structlog.get_logger("relay")
FRESH_S = 5.0  # kubelets count anew each 10 s or so
ANSWER_S = 4.0  # kubelets that have not answered by then are left out
# for one of them: those that hang leave time for others to be asked in their places
KUBELET_S = 1.5
# a kubelet that gave nothing is not asked again before, so that it takes no place of others
AGAIN_S = 30.0
AT_ONCE = 32  # kubelets
_MOST_SAID = 5
Ask = Callable[[NodeTarget, str], Awaitable[bytes]]  # a kubelet, for a page. SourceError


class DelegateUsage:
    """Answers for all source clusters; a kubelet is asked once for all of them, and not again for
    some seconds.
    """

    def __init__(self, local: Local, targets: Mapping[str, NodeTarget], ask: Ask) -> None:
        self._local = local
        self._targets = targets
        self._ask = ask
        self._pages = Fresh[Pods](FRESH_S, AGAIN_S)
        self._said: Recent[str, str] = Recent(1000)
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def tell(self, cluster_uid: str) -> bytes:
        """An encoded Usage of the delegates of this source cluster."""
        delegates = usage.delegates_of(cluster_uid, self._local)
        asked = {node: asyncio.create_task(self._page(node)) for node in delegates}
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=ANSWER_S)
        finally:
            for task in asked.values():
                task.cancel()
        pods: list[PodUsage] = []
        problems: list[str] = []
        for node, task in asked.items():
            told = (
                task.result()
                if task.done()
                else f"kubelet of {node}: no answer within {ANSWER_S:g} s"
            )
            if isinstance(told, str):
                problems.append(told)
                continue
            pods += [
                PodUsage(source.uid, *told[key])
                for key, source in delegates[node].items()
                if key in told
            ]
        problem = f"{len(problems)} of {len(asked)} kubelets do not answer" if problems else ""
        self._say(cluster_uid, problem, problems)
        return encode_usage(Usage(tuple(pods), problem))

    def _say(self, cluster_uid: str, problem: str, problems: list[str]) -> None:
        """Which they are stays here: addresses of hosts are not for other clusters."""
        if problem != self._said.get(cluster_uid):
            self._said.put(cluster_uid, problem)
            if problem:
                LOG.warning(
                    "what delegates use",
                    source=cluster_uid,
                    problem=problem,
                    why=problems[:_MOST_SAID],
                )

    async def _page(self, node: str) -> Pods | str:
        """What a kubelet tells of delegates, or why nothing."""
        try:
            return await self._pages.get(node, lambda: self._read(node))
        except SourceError as error:
            return str(error)

    async def _read(self, node: str) -> Pods:
        target = self._targets.get(node)
        if target is None:
            raise SourceError(f"node {node} is not known")
        async with self._slots:
            try:
                async with asyncio.timeout(KUBELET_S):
                    body = await self._ask(target, PATH)
            except TimeoutError:
                raise SourceError(f"kubelet of {node}: no answer within {KUBELET_S:g} s") from None

        def is_delegate(namespace: str, name: str) -> bool:
            pod = self._local.view.pod_by_name(namespace, name)
            return pod is not None and pod.source is not None and pod.node == node

        return read_pods(body, is_delegate)
