"""kube-scheduler's default plugins and weights, as our profile."""

from dispatcher.model.names import SCHEDULER_NAME
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework import PluginUse, Profile

# name, weight, in kube-scheduler's order (pkg/scheduler/apis/config/v1 default_plugins.go)
_TABLE: tuple[tuple[str, float], ...] = (
    ("SchedulingGates", 1),
    ("PrioritySort", 1),
    ("NodeUnschedulable", 1),
    ("NodeName", 1),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 1),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 1),
    ("NodeVolumeLimits", 1),
    ("VolumeBinding", 1),
    ("VolumeZone", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
)
WEIGHTS = dict(_TABLE)
# our name -> kube-scheduler's
ALIASES = {"FaultDomainSpread": "PodTopologySpread"}
_OURS = {kube: ours for ours, kube in ALIASES.items()}


def kube_profile() -> Profile:
    """The plugins of the table that the registry has."""
    uses = []
    for name, weight in _TABLE:
        ours = name if name in REGISTRY else _OURS.get(name, name)
        if ours in REGISTRY:
            uses.append(PluginUse(ours, weight))
    return Profile(SCHEDULER_NAME, tuple(uses))
