"""Deletes delegates of failover mode `lease` once the lease has lapsed, without an intent of the
dispatcher: from then on their home cluster may replace them.

The mode is read from the claim that the home cluster has signed, not from annotations that users
can write here.
"""

from collections.abc import Iterator

from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.objects import events
from agents.executor.objects.deletion import delete_exactly
from shared.kube.http import Procedure
from shared.messages import DONE, PodRef
from shared.model.leases import LEASE
from shared.model.pod import Pod


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """A task for each delegate to delete now, named by its UID."""
    why = local.renewals.lapsed(now.mono)
    for node in tuple(local.view.nodes()) if why else ():
        for pod in tuple(local.view.pods_on(node.name)):
            version = local.view.pod_version(pod.uid)
            if (
                is_meant(pod) and local.stopped.get(pod.uid) != version
            ):  # else the view does not show it yet
                yield ReconcileTask(pod.uid, pod.namespace, _stop(pod, version, why, local, now))


def is_meant(pod: Pod) -> bool:
    """Whether a pod is a delegate of this mode that runs."""
    return (
        pod.source is not None and pod.failover == LEASE and not (pod.terminating or pod.terminal)
    )


def _stop(pod: Pod, version: str, why: str, local: Local, now: Moment) -> Procedure[str]:
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    answer = yield from delete_exactly(ref)
    if answer.verdict == DONE:
        local.stopped.put(pod.uid, version)
        events.lease_lapsed(local, ref, why, now)
    return answer.message
