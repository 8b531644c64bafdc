"""A pod goes to another cluster only where its namespace exists, too, and is open to pods of
others.

A namespace that is missing counts as there where the cluster makes it (`Opening.creates`).

A namespace of the same name is the same namespace in all clusters (SIG-Multicluster's position on
namespace sameness); whoever has no such namespace has not agreed to run its pods. Closed are
namespaces `kube-*`, and where the target's admin says so with the label, or annotation,
`global-dispatcher.io/accept` of any value but "true". Of a cluster that shows no namespaces at all
(an agent without the right to list them) nothing is known, and its own agent decides.

Nor where the pod would be another one: where what it needs (`model.pod.Needs`, told by the agent of
its own cluster) is let in by no row of the target's policy (`model.crossing.Opening`), where its
PriorityClass is lacking or higher than these let in, where its RuntimeClass is lacking, or where
Services are missing that its namespace has at home. Whatever an agent of an older version does not
tell is left to the target.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    ClusterFilter,
    Codes,
    FleetView,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.fleet_view import ClusterInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from shared.messages.pod_cache import PodCache
from shared.model.crossing import (
    SECRETS,
    Opening,
    lacking_runtime,
    makes,
    rows_for,
    unmet,
    unmet_class,
)
from shared.model.names import ACCEPT, NONE, SERVICES
from shared.model.objects import Namespace, Service
from shared.model.pod import Need
from shared.model.reasons import Reason, Reasons, Why
from shared.model.wake_events import WakeEvent

NAMESPACE_ABSENT = Reason(
    "namespace_absent",
    "node(s) were in a cluster without the pod's namespace",
    remedy="Create a namespace of the same name in that cluster, or list it there in "
    "`executor.namespaces.create`, if the pod may go there.",
    helped_by=WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)
NAMESPACE_CLOSED = Reason(
    "namespace_closed",
    "node(s) were in a cluster where the pod's namespace is closed to pods of other clusters",
    remedy="The namespace there is `kube-*`, listed in `executor.closed`, covered by no "
    "row of `executor.accept`, or has the label, or annotation, "
    '`global-dispatcher.io/accept` with anything but `"true"`: `explain` says so.',
    helped_by=WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)
SERVICES_ABSENT = Reason(
    "services_absent",
    "node(s) were in a cluster that lacks Services of the pod's namespace: {}",
    remedy="Create the Services there. Pods that call none by name say so with "
    "`global-dispatcher.io/services: none` (the pod's annotation, a label of its "
    "namespace at home, or `services: none` in a row of `executor.accept` there). "
    "In one pod network they can [follow](../crossing.md#services).",
    helped_by=WakeEvent.SERVICE | WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)

_MARKED = (
    f'its Namespace there has {ACCEPT} with another value than "true", as label or as annotation'
)
_NAMED = 3  # Services, or needs, in one message


class NamespaceOpen(ClusterFilter):
    """Refuses nodes of other clusters without the pod's namespace, where that is closed, or that
    lack what it needs.
    """

    name: ClassVar[str] = "NamespaceOpen"
    REASONS = (
        NAMESPACE_ABSENT,
        NAMESPACE_CLOSED,
        Reasons.CANNOT_CROSS,
        SERVICES_ABSENT,
    )
    keyed_by_template = True

    def __init__(self) -> None:
        self._policies: dict[Hashable, Any] = {}
        self._by_home: PodCache[Hashable, Any] = PodCache()

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """Of namespaces only the pod's own, and Services in it."""
        found = event.after or event.before
        if isinstance(found, Service):
            return found.namespace == pod_info.pod.namespace
        return not isinstance(found, Namespace) or found.name == pod_info.pod.namespace

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The pod's own cluster and its namespace, and what it needs of others."""
        return pod_info.home, pod_info.pod.namespace, pod_info.pod.needs, _calls_services(pod_info)

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The namespace alone, where it matters to nobody from where the pod is: not to its own
        cluster, either.
        """
        asked = partial(self._goes_by_home, pod_info)
        apart = fleet.of_clusters(self._by_home, self.class_key(pod_info), asked)
        return None if apart else pod_info.pod.namespace

    def _goes_by_home(self, pod_info: PodInfo, fleet: FleetView) -> bool:
        return (
            pod_info.pod.needs is not None
            or bool(_wanted(pod_info, fleet))
            or fleet.of_clusters(self._policies, (), _tells_homes_apart)
            or _closed(pod_info.home, None, pod_info, fleet) is not None
        )

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Codes | Refuse | Skip:
        """[clusters] the reason code at each, 0 where its namespace is open; SKIP if it is
        everywhere.
        """
        home = next((one for one in fleet.clusters if one.name == pod_info.home), None)
        asked = pod_info, home, _wanted(pod_info, fleet)
        whys = [_why(info, *asked, fleet) for info in fleet.clusters]
        if not any(whys):
            return SKIP
        codes = [fleet.reasons.code(why.reason, why.argument) if why else 0 for why in whys]
        return np.array(codes, dtype=np.uint16)


def _why(
    info: ClusterInfo,
    pod_info: PodInfo,
    home: ClusterInfo | None,
    wanted: frozenset[str],
    fleet: FleetView,
) -> Why | None:
    """`wanted`: Services of the pod's namespace in its `home`."""
    if info.name == pod_info.home:
        return None
    closed = _closed(info.name, info.opens, pod_info, fleet)
    if closed is not None:
        return closed
    pod = pod_info.pod
    rows = rows_for(pod_info.home, pod_info.pod.namespace, info.opens)
    if rows is not None and not rows:
        return Why(NAMESPACE_CLOSED)
    if pod.needs is not None and pod.needs.barred:
        return Why(Reasons.CANNOT_CROSS, pod.needs.barred)
    lacking = unmet(pod.needs, rows) if pod.needs is not None and rows is not None else []
    if lacking:
        return Why(Reasons.CANNOT_CROSS, _wanting(lacking))
    barred = unmet_class(pod.needs, rows, info.priority_classes) if rows is not None else ""
    barred = barred or lacking_runtime(pod.needs, info.runtime_classes)
    if barred:
        return Why(Reasons.CANNOT_CROSS, barred)
    brings = home is not None and home.brings_services(info)
    if not wanted or brings or any(row.services == NONE for row in rows or ()):
        return None
    missing = _missing(info.name, pod_info.pod.namespace, wanted, fleet)
    return Why(SERVICES_ABSENT, _listed(missing)) if missing else None


def _wanting(needs: Sequence[Need]) -> str:
    """What the target's policy does not let in, and what would let it in."""
    told = needs[:_NAMED]
    more = f" and {len(needs) - _NAMED} more" if len(needs) > _NAMED else ""
    fields = "; ".join(f"{one.field} {one.why}" for one in told)
    words = " and ".join(f'"{one.word}" in {_keys(one)}' for one in told)
    return (
        f"{fields}{more}; they take it only if a row of their `executor.accept` has {words}{more}"
    )


def _keys(need: Need) -> str:
    """Of a row, which let in what is needed."""
    return "`secrets` or `secrets_follow`" if need.key == SECRETS else f"`{need.key}`"


def _calls_services(pod_info: PodInfo) -> bool:
    return pod_info.pod.annotations.get(SERVICES) != NONE


def _wanted(pod_info: PodInfo, fleet: FleetView) -> frozenset[str]:
    """The Services of the pod's namespace at home that it may call by name."""
    namespace = pod_info.pod.namespace
    shown = fleet.objects.of(pod_info.home, Namespace).get(namespace)
    if not _calls_services(pod_info) or (shown is not None and shown.labels.get(SERVICES) == NONE):
        return frozenset()
    return fleet.objects.derived(pod_info.home, _names, (Service, "name"), namespace=namespace)


def _names(services: Mapping[str, Service]) -> frozenset[str]:
    return frozenset(one.name for one in services.values() if one.is_own)


def _missing(cluster: str, namespace: str, wanted: frozenset[str], fleet: FleetView) -> list[str]:
    """Those that the cluster lacks; none if it shows no Services at all: its agent may not list
    them.
    """
    if not fleet.objects.derived(cluster, _shows_any, (Service, "name")):
        return []
    there = fleet.objects.derived(cluster, _names, (Service, "name"), namespace=namespace)
    return sorted(wanted - there)


def _shows_any(services: Mapping[str, Service]) -> bool:
    return bool(services)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    fix = (
        f"create them there, say that the pod calls none by annotation {SERVICES}: none, or, where "
        "both pod networks are one, have them follow by `network: flat` and `executor.services`"
    )
    return f"{', '.join(names[:_NAMED])}{more}; {fix}"


def _tells_homes_apart(fleet: FleetView) -> bool:
    """Whether any cluster's policy goes by where pods come from."""
    rows = (row for info in fleet.clusters for row in info.opens or ())
    return any(row.closed is not None and "*" not in row.clusters for row in rows)


def _closed(
    cluster: str, opens: Sequence[Opening] | None, pod_info: PodInfo, fleet: FleetView
) -> Why | None:
    """Why pods of others are not taken there, whatever they need. `opens`: the cluster's policy."""
    namespace = pod_info.pod.namespace
    if Namespace(namespace).system:
        return Why(NAMESPACE_CLOSED)
    shown = fleet.objects.of(cluster, Namespace)
    found = shown.get(namespace)
    if found is None:
        absent = bool(shown) and not makes(namespace, opens)
        return Why(NAMESPACE_ABSENT) if absent else None
    return Why(NAMESPACE_CLOSED, _MARKED) if found.closed else None
