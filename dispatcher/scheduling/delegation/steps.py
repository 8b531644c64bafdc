"""Which intent carries out each step of the delegate protocol: a table from `Step` to a function of
`intents`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dispatcher.scheduling.clusters import ClusterView, share_network
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import InFlightIntent
from dispatcher.scheduling.delegation.protocol import Step, target_of
from dispatcher.scheduling.delegation.tracking import Tracked
from shared.model.pod import Claim, Pod, SourceRef


class Attempt(NamedTuple):
    """What an intent is made of: the pod, the cluster that the step is about ("" home), and the
    attempt's number.

    `epoch` is an attempt of its own, also where an earlier claim goes on: agents may have heard a
    newer one than the claim's since, of a view without the claim. `why` says in one line why the
    pod is where it is.
    """

    tracked: Tracked
    cluster: str
    clusters: Mapping[str, ClusterView]
    epoch: int
    why: Callable[[Tracked], str]
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
        return SourceRef(
            self.tracked.home, uid, source.namespace, source.name, source.uid, self.epoch
        )


def intent_for(step: Step, at: Attempt) -> InFlightIntent:
    """The intent of a step that sends one; KeyError for one that does not."""
    return _INTENTS[step](at)


def _resume(at: Attempt) -> InFlightIntent:
    claim = at.claim
    place = (claim.cluster, at.clusters[claim.cluster].uid, claim.node)
    return intents.claim(at.tracked.home, at.source, place, at.epoch, at.now)


def _unclaim(at: Attempt) -> InFlightIntent:
    claim = at.source.claim
    place = (claim.cluster, claim.node) if claim is not None else (at.tracked.home, "")
    return intents.unclaim(at.tracked.home, intents.ref(at.source), place, at.epoch, at.now)


def _bind_proxy(at: Attempt) -> InFlightIntent:
    ref = intents.ref(at.source)
    return intents.bind_proxy(
        at.tracked.home, ref, (at.cluster, at.claim.node), at.epoch, at.why(at.tracked), at.now
    )


def _mirror(at: Attempt) -> InFlightIntent:
    home = at.tracked.home
    clusters = at.clusters
    routed = share_network(clusters[home], clusters[at.cluster])
    return intents.mirror(home, at.source, at.cluster, (at.delegate, routed), at.epoch, at.now)


def _delete_delegate(at: Attempt) -> InFlightIntent:
    source = at.tracked.source
    grace_s = source.ends_in_s if source is not None else -1
    return intents.delete_delegate(at.cluster, at.delegate, grace_s, at.epoch, at.now)


def _delete_source(at: Attempt) -> InFlightIntent:
    delegate = at.tracked.delegates.get(target_of(at.tracked.home, at.source))
    return intents.delete_source(at.tracked.home, at.source, delegate, at.epoch, at.now)


def _finish(at: Attempt) -> InFlightIntent:
    target = at.clusters.get(target_of(at.tracked.home, at.source))
    return intents.finish(
        at.tracked.home, at.source, target.uid if target is not None else "", at.epoch, at.now
    )


_INTENTS: dict[Step, Callable[[Attempt], InFlightIntent]] = {
    Step.RESUME: _resume,
    Step.UNCLAIM: _unclaim,
    Step.RESTORE: lambda at: intents.restore(
        at.tracked.home, at.source, at.cluster, at.delegate, at.epoch, at.now
    ),
    Step.BIND_PROXY: _bind_proxy,
    Step.MIRROR: _mirror,
    Step.UPDATE: lambda at: intents.sign(
        at.tracked.home, at.source, (at.cluster, at.claim.node), at.epoch, at.now
    ),
    Step.DELETE_DELEGATE: _delete_delegate,
    Step.DELETE_SOURCE: _delete_source,
    Step.FINISH: _finish,
    Step.CONFIRM: lambda at: intents.confirm(
        at.identity, at.cluster, at.epoch, at.now, collect=False
    ),
    Step.COLLECT: lambda at: intents.confirm(
        at.identity, at.cluster, at.epoch, at.now, collect=True
    ),
    Step.CONFIRM_END: lambda at: intents.confirm_end(at.identity, at.cluster, at.epoch, at.now),
    Step.CONFIRM_SOURCE: lambda at: intents.confirm_source(
        at.tracked.home, at.identity, at.epoch, at.now
    ),
}
