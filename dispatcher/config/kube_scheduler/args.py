"""Arguments of kube-scheduler's plugins in the words of ours: a table, plugin -> key -> what it
becomes.

A converter answers our arguments for one of theirs; ValueError says what is wrong or not supported.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dispatcher.scheduling.framework.lifecycle import PRE_BIND_S
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.model.topology import label_key

Ours = dict[str, Any]
Convert = Callable[[Any], Ours]
_HARD = {"DoNotSchedule": True, "ScheduleAnyway": False}
_META = ("apiVersion", "kind")


def converted(plugin: str, args: Mapping[str, Any]) -> tuple[Ours, list[tuple[str, str]]]:
    """Our arguments, and (key, problem) for everything that cannot be taken over."""
    table = TABLE.get(plugin)
    ours = {}
    problems = []
    if table is None:
        return {key: value for key, value in args.items() if key not in _META}, []
    for key, value in args.items():
        if key in _META:
            continue
        convert = table.get(key)
        if convert is None:
            problems.append((key, f"unknown argument{did_you_mean(key, table)}"))
            continue
        try:
            ours.update(convert(value))
        except ValueError as error:
            problems.append((key, str(error)))
    return ours, problems


def renamed(key: str) -> Convert:
    """The same value under our name."""
    return lambda value: {key: value}


def _refused(why: str) -> Convert:
    def convert(value: Any) -> Ours:
        raise ValueError(why)

    return convert


def _strategy(raw: Any) -> Ours:
    fields = _fields(raw, {"type", "resources", "requestedToCapacityRatio"})
    ours: Ours = {"strategy": fields.get("type", "LeastAllocated")}
    if fields.get("resources"):
        ours["resources"] = {_name(one): one.get("weight", 1) for one in _maps(fields["resources"])}
    ratio = _fields(fields.get("requestedToCapacityRatio") or {}, {"shape"})
    if ratio.get("shape"):
        ours["shape"] = ratio["shape"]
    return ours


def _balanced(raw: Any) -> Ours:
    if any(one.get("weight", 1) != 1 for one in _maps(raw)):
        raise ValueError("a weight must be 1, as in kube-scheduler")
    return {"resources": [_name(one) for one in _maps(raw)]}


def _constraints(raw: Any) -> Ours:
    return {"defaults": [_constraint(one) for one in _maps(raw)]}


def _constraint(one: Mapping[str, Any]) -> Ours:
    known = {"maxSkew", "topologyKey", "whenUnsatisfiable"}
    fields = _fields(one, known)
    hard = _HARD.get(fields.get("whenUnsatisfiable", "DoNotSchedule"))
    if hard is None or not {"maxSkew", "topologyKey"} <= set(fields):
        raise ValueError(
            f"each needs topologyKey, maxSkew and whenUnsatisfiable of {', '.join(_HARD)}"
        )
    key = fields["topologyKey"]
    return {
        "key": label_key(key) if isinstance(key, str) else key,
        "max_skew": fields["maxSkew"],
        "hard": hard,
    }


def _fields(raw: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or not set(raw) <= known:
        raise ValueError(f"must hold {', '.join(sorted(known))}, not {shown(raw)}")
    return raw


def _maps(raw: Any) -> list[Mapping[str, Any]]:
    if not isinstance(raw, list) or not all(isinstance(one, Mapping) for one in raw):
        raise ValueError(f"must be a list of maps, not {shown(raw)}")
    return raw


def _name(one: Mapping[str, Any]) -> str:
    name = one.get("name")
    if not isinstance(name, str):
        raise ValueError(f"each needs a name, not {shown(one)}")
    return name


def _added_affinity(raw: Any) -> Ours:
    return {"added_affinity": raw}


def _bind_timeout(raw: Any) -> Ours:
    """Nothing to take over: how long a pod waits for its volumes is fixed, at kube-scheduler's
    default.
    """
    if raw != PRE_BIND_S:
        raise ValueError(
            f"must be {PRE_BIND_S:g}: the wait for volumes is fixed here, not {shown(raw)}"
        )
    return {}


TABLE: dict[str, Mapping[str, Convert]] = {
    "NodeResourcesFit": {
        "scoringStrategy": _strategy,
        "ignoredResources": renamed("ignored_resources"),
        "ignoredResourceGroups": renamed("ignored_resource_groups"),
    },
    "NodeResourcesBalancedAllocation": {"resources": _balanced},
    "NodeAffinity": {"addedAffinity": _added_affinity},
    "PodTopologySpread": {
        "defaultConstraints": _constraints,
        "defaultingType": renamed("defaulting"),
    },
    "InterPodAffinity": {
        "hardPodAffinityWeight": renamed("hard_pod_affinity_weight"),
        "ignorePreferredTermsOfExistingPods": renamed("ignore_preferred_terms_of_existing_pods"),
    },
    "DefaultPreemption": {
        "minCandidateNodesPercentage": renamed("min_candidate_nodes_percentage"),
        "minCandidateNodesAbsolute": renamed("min_candidate_nodes_absolute"),
    },
    "VolumeBinding": {
        "bindTimeoutSeconds": _bind_timeout,
        "shape": _refused(
            "is not supported: the more room storage has left, the better, as by default"
        ),
    },
}
