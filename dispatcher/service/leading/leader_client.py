"""A candidate for the Lease of a configuration: whose API server holds it, and how it is reached."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from dispatcher.config import agent_settings
from dispatcher.config.sections import IN_CLUSTER, ClusterSection, LeaderElectionSection
from dispatcher.service.leading.leadership import NoElection
from dispatcher.service.leading.lease_thread import LeaseThread, loop_thread
from shared.kube.client import KubeClient
from shared.kube.elector import Elector, LeaderTiming, new_identity
from shared.kube.leader_lease import LeaseRef, LeaseStore
from shared.kube.session import Access


@contextlib.asynccontextmanager
async def candidate(
    section: LeaderElectionSection, clusters: Sequence[ClusterSection]
) -> AsyncIterator[LeaseThread | NoElection]:
    """A candidate of its own for each process; its connection is closed at the end."""
    if not section.enabled:
        yield NoElection(new_identity())
        return
    client = KubeClient(access_of(section, clusters))
    timing = LeaderTiming(section.lease_s, section.renew_deadline_s, section.retry_s)
    elector = Elector(
        LeaseStore(client, LeaseRef(section.namespace, section.name)), new_identity(), timing
    )
    async with loop_thread("lease") as thread:
        try:
            yield LeaseThread(elector, thread)
        finally:
            await thread.run(client.close())


def access_of(section: LeaderElectionSection, clusters: Sequence[ClusterSection]) -> Access:
    """The way to the Lease: as configured, else that of the first cluster."""
    if section.kubeconfig == IN_CLUSTER:
        return Access()
    if section.kubeconfig or not clusters:
        return Access(section.kubeconfig, section.context)
    first = agent_settings(clusters[0])
    return Access(first.kubeconfig, section.context or first.context)
