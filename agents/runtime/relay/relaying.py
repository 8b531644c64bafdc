"""Both ends of relayed streams in one agent, as its settings say."""

from agents.executor.local import KubeletEndpoint
from agents.kube.client import KubeClient
from agents.runtime.executor_loop import ExecutorLoop
from agents.runtime.relay.callers import Callers
from agents.runtime.relay.endpoint import Endpoint
from agents.runtime.relay.far_end import FarEnd
from agents.runtime.relay.near_end import NearEnd, OpenStreams
from agents.runtime.relay.serving import ServingCertificate
from agents.runtime.relay.settings import CSR, RelaySettings
from dispatcher.model import names


def far_end(executor: ExecutorLoop, client: KubeClient) -> FarEnd:
    """What serves the streams of other clusters."""
    return FarEnd(executor.local, client, lambda: executor.accepted_leader.not_ours)


async def serve_endpoint(
    executor: ExecutorLoop, client: KubeClient, settings: RelaySettings, streams: OpenStreams
) -> None:
    """Serve as the kubelet of this cluster's proxy nodes until cancelled, and let them show where."""
    local, callers = executor.local, Callers(client, settings)

    def listening(port: int) -> None:
        local.kubelet = KubeletEndpoint(settings.address, port)

    near = NearEnd(local, streams, callers.check, lambda: executor.accepted_leader.not_ours)
    asked = settings.certificate == CSR
    requested = ServingCertificate(client, settings, names.proxy_node_name(local.cluster)) if asked else None
    await Endpoint(settings, callers.authorities, near.serve, requested).run(listening)
