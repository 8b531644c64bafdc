"""The profiles that are built in: tables of plugins and weights, in the order in which filters run.

The default holds when none is configured. Its order and weights are kube-scheduler's where that has
the plugin, ours beside it; but requests do not score there beside expected load, which goes by them
where nothing is read: as guesses they pull against readings (docs/closed-loop.md). Profile files
extend them (`BUILT_IN`).
"""

from collections.abc import Iterable

from dispatcher.scheduling.framework import PluginUse, Profile
from dispatcher.scheduling.rules.spread_args import APP, SYSTEM
from shared.model.names import SCHEDULER_NAME

_Table = tuple[tuple[str, float], ...]  # name, weight (of scores)

_QUEUE: _Table = (
    ("PrioritySort", 1),
    ("SchedulingGates", 1),
)
_FLEET: _Table = (
    ("TenantPriority", 1),
    ("TenantQuota", 1),
    ("TenantNodes", 1),
    ("TenantNodeQuota", 1),
    ("ClusterAllowed", 1),
    ("ClusterRefused", 1),
    ("NamespaceOpen", 1),
    ("NodeReady", 1),
)
# The order of kube-scheduler's own default plugins.
_KUBERNETES: _Table = (
    ("NodeName", 1),
    ("NodeUnschedulable", 1),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 1),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 1),
    ("NodeVolumeLimits", 1),
    ("VolumeBinding", 1),
    ("VolumeZone", 1),
    ("FaultDomainSpread", 2),  # PodTopologySpread
    ("InterPodAffinity", 2),
    ("DynamicResources", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("NodeDeclaredFeatures", 1),
)
_LIVE: _Table = (
    ("ExpectedLoad", 4),
    ("TenantSpread", 2),
    ("Nearness", 2),
    ("DataLocality", 2),
    ("HomeCluster", 0.01),
)
_LAST: _Table = (("DefaultPreemption", 1),)
_BY_REQUESTS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
_ARGS = {"FaultDomainSpread": {"defaulting": APP}}
_KUBERNETES_ARGS = {"FaultDomainSpread": {"defaulting": SYSTEM}}


def _uses(*tables: _Table) -> Iterable[PluginUse]:
    return (
        PluginUse(name, weight, _ARGS.get(name, {})) for table in tables for name, weight in table
    )


DEFAULT_PROFILE = Profile(
    SCHEDULER_NAME,
    tuple(
        PluginUse(use.name, 0.0 if use.name in _BY_REQUESTS else use.weight, use.args)
        for use in _uses(_QUEUE, _FLEET, _KUBERNETES, _LIVE, _LAST)
    ),
)

# What kube-scheduler does without any configuration, and nothing else.
KUBE_SCHEDULER_PROFILE = Profile(
    SCHEDULER_NAME,
    tuple(
        PluginUse(use.name, use.weight, _KUBERNETES_ARGS.get(use.name, {}))
        for use in _uses(_QUEUE, _KUBERNETES, _LAST)
    ),
)

BUILT_IN = {
    "default": DEFAULT_PROFILE,
    "kube-scheduler": KUBE_SCHEDULER_PROFILE,
}  # by the name that files extend
