"""The order that carries out each step of the delegate protocol."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dispatcher.model.pod import Claim, Pod, SourceRef
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation import orders
from dispatcher.scheduling.delegation.flights import Flight
from dispatcher.scheduling.delegation.protocol import Step
from dispatcher.scheduling.delegation.tracking import Tracked


class Attempt(NamedTuple):
    """What an order is made of: the pod, the cluster that the step is about ("" home), and the attempt's number.

    `epoch` is an attempt of its own, also where an earlier claim goes on: agents may have heard a newer one than the
    claim's since, of a view without the claim. `why` is one line of why the pod is where it is.
    """

    tracked: Tracked
    cluster: str
    clusters: Mapping[str, ClusterView]
    epoch: int
    why: str
    now: float

    @property
    def source(self) -> Pod:
        """The source pod; ValueError where there is none."""
        if self.tracked.source is None:
            raise ValueError(f"{self.tracked.pod_id} has no source pod")
        return self.tracked.source

    @property
    def claim(self) -> Claim:
        """Its claim; ValueError where there is none."""
        if self.source.claim is None:
            raise ValueError(f"{self.source.key} has no claim")
        return self.source.claim

    @property
    def delegate(self) -> Pod:
        """Its delegate in `cluster`."""
        return self.tracked.delegates[self.cluster]

    @property
    def identity(self) -> SourceRef:
        """Whose delegate is sought, also where only the delegate tells."""
        delegate = next(iter(self.tracked.delegates.values()), None)
        if self.tracked.source is None and delegate is not None and delegate.source is not None:
            return delegate.source
        source = self.source
        uid = self.clusters[self.tracked.home].uid
        return SourceRef(self.tracked.home, uid, source.namespace, source.name, source.uid, self.epoch)


def order_of(step: Step, at: Attempt) -> Flight:
    """The flight of a step that sends an order; KeyError for one that does not."""
    return _ORDERS[step](at)


def _resume(at: Attempt) -> Flight:
    claim = at.claim
    place = (claim.cluster, at.clusters[claim.cluster].uid, claim.node)
    return orders.claim(at.tracked.home, at.source, place, at.epoch, at.now)


def _unclaim(at: Attempt) -> Flight:
    claim = at.source.claim
    place = (claim.cluster, claim.node) if claim is not None else (at.tracked.home, "")
    return orders.unclaim(at.tracked.home, orders.ref(at.source), place, at.epoch, at.now)


def _bind_proxy(at: Attempt) -> Flight:
    ref = orders.ref(at.source)
    return orders.bind_proxy(at.tracked.home, ref, at.cluster, at.claim.node, at.epoch, at.why, at.now)


def _mirror(at: Attempt) -> Flight:
    return orders.mirror(at.tracked.home, at.source, at.cluster, at.delegate.status, at.epoch, at.now)


_ORDERS: dict[Step, Callable[[Attempt], Flight]] = {
    Step.RESUME: _resume,
    Step.UNCLAIM: _unclaim,
    Step.RESTORE: lambda at: orders.restore(at.tracked.home, at.source, at.cluster, at.delegate, at.epoch, at.now),
    Step.BIND_PROXY: _bind_proxy,
    Step.MIRROR: _mirror,
    Step.DELETE_DELEGATE: lambda at: orders.delete_delegate(at.cluster, at.delegate, at.epoch, at.now),
    Step.DELETE_SOURCE: lambda at: orders.delete_source(at.tracked.home, at.source, at.epoch, at.now),
    Step.FINISH: lambda at: orders.finish(at.tracked.home, at.source, at.epoch, at.now),
    Step.CONFIRM: lambda at: orders.confirm(at.identity, at.cluster, at.epoch, at.now, collect=False),
    Step.COLLECT: lambda at: orders.confirm(at.identity, at.cluster, at.epoch, at.now, collect=True),
    Step.CONFIRM_SOURCE: lambda at: orders.confirm_source(at.tracked.home, at.identity, at.epoch, at.now),
}
