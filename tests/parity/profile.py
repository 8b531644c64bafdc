"""The profiles under which pods are compared: one KubeSchedulerConfiguration for kube-scheduler and for our settings.

The first is kube-scheduler's default: every default plugin with its default weight and arguments.
"""

from functools import cache
from typing import Any

import yaml

from dispatcher.config.document import parse_document
from dispatcher.config.kube_scheduler.read import read_kube_scheduler
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework import PluginUse, Profile
from shared.model.names import SCHEDULER_NAME
from tests.parity.case import Object

DEFAULT = SCHEDULER_NAME
MOST, RATIO, ADDED = (f"{SCHEDULER_NAME}-{suffix}" for suffix in ("most", "ratio", "added"))
OTHERS = (MOST, RATIO, ADDED)
PREEMPTING = f"{SCHEDULER_NAME}-preempting"  # the only one with PostFilter
_ALL = (DEFAULT, *OTHERS, PREEMPTING)
# pkg/scheduler/apis/config/v1 default_plugins.go
_DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
_CHANGED_WEIGHTS = {ADDED: {"TaintToleration": 1, "NodeAffinity": 5, "ImageLocality": 7}}
WEIGHTS: dict[str, dict[str, int]] = {name: {**_DEFAULT_WEIGHTS, **_CHANGED_WEIGHTS.get(name, {})} for name in _ALL}
# our name -> kube-scheduler's
ALIASES = {"FaultDomainSpread": "PodTopologySpread"}


def _resources(**weights: int) -> list[Object]:
    names = {"gpu": "example.com/gpu", "storage": "ephemeral-storage"}
    return [{"name": names.get(name, name), "weight": weight} for name, weight in weights.items()]


def _zone(operator: str, *values: str) -> Object:
    clause = {"key": "topology.kubernetes.io/zone", "operator": operator, "values": list(values)}
    return {"matchExpressions": [clause]}


_ARGUMENTS: dict[str, dict[str, Any]] = {
    MOST: {
        "NodeResourcesFit": {
            "scoringStrategy": {"type": "MostAllocated", "resources": _resources(cpu=1, memory=3, gpu=5, storage=2)},
        },
        "NodeResourcesBalancedAllocation": {"resources": _resources(cpu=1, memory=1, gpu=1)},
    },
    RATIO: {
        "NodeResourcesFit": {
            "ignoredResources": ["example.com/other"],
            "ignoredResourceGroups": ["example.com"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _resources(cpu=2, memory=1, gpu=3),
                "requestedToCapacityRatio": {
                    "shape": [
                        {"utilization": 0, "score": 0},
                        {"utilization": 40, "score": 8},
                        {"utilization": 100, "score": 3},
                    ]
                },
            },
        },
        "NodeResourcesBalancedAllocation": {"resources": _resources(memory=1)},
    },
    ADDED: {
        "NodeAffinity": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_zone("NotIn", "z3")]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "preference": _zone("In", "z1")}],
            }
        },
        "InterPodAffinity": {"hardPodAffinityWeight": 50, "ignorePreferredTermsOfExistingPods": True},
    },
}


def _profile(name: str) -> Object:
    changed = _CHANGED_WEIGHTS.get(name, {})
    enabled = [{"name": plugin, "weight": weight} for plugin, weight in changed.items()]
    config = [{"name": plugin, "args": args} for plugin, args in _ARGUMENTS.get(name, {}).items()]
    preempting = [{"name": "DefaultPreemption"}] if name == PREEMPTING else []
    plugins = {
        "multiPoint": {"enabled": enabled},
        "postFilter": {"disabled": [{"name": "*"}], "enabled": preempting},
    }
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": config}


CONFIGURATION: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [_profile(name) for name in _ALL],
}


@cache
def profiles() -> dict[str, Profile]:
    """Our profiles by schedulerName, from the configuration as our settings read it.

    Without NodeReady, which kube-scheduler has not: it goes by the taints of a node that is not ready.
    """
    document = parse_document(yaml.safe_dump(CONFIGURATION).encode(), "parity")
    found = read_kube_scheduler(document, REGISTRY).profiles
    return {one.scheduler_name: Profile(one.scheduler_name, _kubes(one.plugins)) for one in found}


def _kubes(plugins: tuple[PluginUse, ...]) -> tuple[PluginUse, ...]:
    return tuple(use for use in plugins if use.name != "NodeReady")
