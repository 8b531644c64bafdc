"""Both ends of relayed streams in one agent, as its settings say."""

from collections.abc import Mapping

from agents.executor.context.local import KubeletEndpoint
from agents.observer.seen import NodeTarget
from agents.runtime.executor_loop import ExecutorLoop
from agents.runtime.relay.callers import Callers
from agents.runtime.relay.endpoint import Endpoint
from agents.runtime.relay.far_end import FarEnd
from agents.runtime.relay.near_end import NearEnd, OpenStreams
from agents.runtime.relay.serving import ServingCertificate
from agents.runtime.relay.settings import CSR, RelaySettings
from agents.runtime.relay.tokens import Tokens
from agents.runtime.relay.usage_far import Ask, DelegateUsage
from agents.runtime.relay.usage_near import ProxyMetrics
from shared.kube.client import KubeClient
from shared.model import names


def far_end(
    executor: ExecutorLoop, client: KubeClient, targets: Mapping[str, NodeTarget], kubelets: Ask
) -> FarEnd:
    """What serves the streams of other clusters. `targets`: the nodes whose kubelets may be asked."""
    served = FarEnd(executor.local, client, lambda: executor.accepted_leader.not_ours)
    served.usage = DelegateUsage(executor.local, targets, kubelets).tell
    return served


async def serve_endpoint(
    executor: ExecutorLoop, client: KubeClient, settings: RelaySettings, streams: OpenStreams
) -> None:
    """Serve as the kubelet of this cluster's proxy nodes until cancelled, and let them show where."""
    local = executor.local
    callers = Callers(client, settings)

    def listening(port: int) -> None:
        local.kubelet = KubeletEndpoint(settings.address, port)

    def unfit() -> str:
        return executor.accepted_leader.not_ours

    near = NearEnd(local, streams, callers.check, unfit)
    metrics = ProxyMetrics(local, near.read, callers.may, Tokens(client), unfit)
    asked = settings.certificate == CSR
    requested = (
        ServingCertificate(client, settings, names.proxy_node_name(local.cluster))
        if asked
        else None
    )
    endpoint = Endpoint(settings, callers.authorities, near.serve, requested)
    near.serve_metrics = metrics.serve
    metrics.admitted = endpoint.admitted
    await endpoint.run(listening)
