"""The profile that holds when none is configured: a table of plugins and weights, in the order in which filters run.

Weights are kube-scheduler's where it has the plugin. Live readings weigh as much as requests do in all.
`configs/profiles/default.yaml` says the same, with comments.
"""

from dispatcher.model.names import SCHEDULER_NAME
from dispatcher.scheduling.framework import PluginUse, Profile

# name, weight (of scores)
_TABLE: tuple[tuple[str, float], ...] = (
    ("PrioritySort", 1),
    ("SchedulingGates", 1),
    ("TenantQuota", 1),
    ("ClusterAllowed", 1),
    ("NodeReady", 1),
    ("NodeUnschedulable", 1),
    ("NodeAffinity", 2),
    ("TaintToleration", 3),
    ("NodePorts", 1),
    ("NodeResourcesFit", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("FaultDomainSpread", 2),
    ("InterPodAffinity", 2),
    ("LiveCPU", 2),
    ("LiveMemory", 1),
    ("LiveNetwork", 1),
    ("HomeCluster", 0.1),
)

DEFAULT_PROFILE = Profile(SCHEDULER_NAME, tuple(PluginUse(name, weight) for name, weight in _TABLE))
