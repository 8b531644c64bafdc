"""The plugins that a profile may name, as a plain table, and how a profile becomes plugins.

A third-party plugin brings a PluginSpec of its own (entry point group `global_dispatcher.plugins`);
the runtime loads it and passes it to `build` and to the check of profiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from dispatcher.plugins.cluster_allowed import ClusterAllowed
from dispatcher.plugins.cluster_refused import ClusterRefused
from dispatcher.plugins.data_locality import DataArgs, DataLocality
from dispatcher.plugins.default_preemption import DefaultPreemption, PreemptionArgs
from dispatcher.plugins.dynamic_resources import DynamicResources
from dispatcher.plugins.egress_price import EgressArgs, EgressPrice
from dispatcher.plugins.expected_load import ExpectedArgs, ExpectedLoad
from dispatcher.plugins.fault_domain_spread import FaultDomainSpread, SpreadArgs
from dispatcher.plugins.gpu_fragmentation import GPUFragmentation, MixArgs
from dispatcher.plugins.home_cluster import HomeCluster
from dispatcher.plugins.hot_node import HotArgs, HotNode
from dispatcher.plugins.image_locality import ImageLocality
from dispatcher.plugins.inter_pod_affinity import AffinityArgs, InterPodAffinity
from dispatcher.plugins.load_terms import PLUGINS as LOAD_TERMS
from dispatcher.plugins.namespace_open import NamespaceOpen
from dispatcher.plugins.nearness import Nearness, NearnessArgs
from dispatcher.plugins.network_topology import NetworkTopology, TopologyArgs
from dispatcher.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from dispatcher.plugins.node_declared_features import NodeDeclaredFeatures
from dispatcher.plugins.node_name import NodeName
from dispatcher.plugins.node_ports import NodePorts
from dispatcher.plugins.node_price import NodePrice, PriceArgs
from dispatcher.plugins.node_ready import NodeReady
from dispatcher.plugins.node_resources_balanced_allocation import (
    BalanceArgs,
    NodeResourcesBalancedAllocation,
)
from dispatcher.plugins.node_resources_fit import FitArgs, NodeResourcesFit
from dispatcher.plugins.node_unschedulable import NodeUnschedulable
from dispatcher.plugins.node_volume_limits import NodeVolumeLimits
from dispatcher.plugins.priority_sort import PrioritySort, SortArgs
from dispatcher.plugins.scheduling_gates import SchedulingGates
from dispatcher.plugins.taint_toleration import TaintToleration
from dispatcher.plugins.tenant_node_quota import TenantNodeQuota
from dispatcher.plugins.tenant_nodes import TenantNodes
from dispatcher.plugins.tenant_priority import TenantPriority
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.plugins.tenant_spread import TenantSpread
from dispatcher.plugins.volume_binding import VolumeBinding
from dispatcher.plugins.volume_restrictions import VolumeRestrictions
from dispatcher.plugins.volume_zone import VolumeZone
from dispatcher.scheduling.framework import (
    Filter,
    Permit,
    Plugin,
    Profile,
    QueueSort,
    Reserve,
    Score,
    closes_clusters,
)
from dispatcher.scheduling.framework.lifecycle import (
    Bind,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreScore,
)
from dispatcher.scheduling.framework.plugin_args import (
    Args,
    ArgTable,
    check_args,
    did_you_mean,
    table_of,
)
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.reasons import Reason, Reasons


@dataclass(frozen=True)
class PluginContext:
    """What plugins may be given besides their arguments."""

    quota: QuotaLedger = field(default_factory=QuotaLedger)


Factory = Callable[[Mapping[str, Any], PluginContext], Plugin]


@dataclass(frozen=True)
class PluginSpec:
    """A plugin class, its arguments, and how it is made from checked arguments."""

    plugin: type[Plugin]
    args: type[Args] = Args
    factory: Factory | None = None  # None: the class, called with the arguments as keywords

    @property
    def arguments(self) -> ArgTable:
        """Its arguments by name."""
        return table_of(self.args)

    @property
    def points(self) -> tuple[str, ...]:
        """The extension points it implements, by kube-scheduler's names."""
        table: tuple[tuple[str, Callable[[type[Plugin]], bool]], ...] = (
            ("PreEnqueue", lambda cls: issubclass(cls, PreEnqueue)),
            ("QueueSort", lambda cls: hasattr(cls, "sort_key")),
            ("PreFilter", lambda cls: cls.pre_filter is not Plugin.pre_filter),
            ("Filter", lambda cls: issubclass(cls, Filter)),
            ("PostFilter", lambda cls: issubclass(cls, PostFilter)),
            ("PreScore", lambda cls: issubclass(cls, PreScore)),
            ("Score", lambda cls: issubclass(cls, Score)),
            ("Reserve", lambda cls: issubclass(cls, Reserve)),
            ("Permit", lambda cls: issubclass(cls, Permit)),
            ("PreBind", lambda cls: issubclass(cls, PreBind)),
            ("Bind", lambda cls: issubclass(cls, Bind)),
            ("PostBind", lambda cls: issubclass(cls, PostBind)),
        )
        return tuple(point for point, has in table if has(self.plugin))

    def make(self, args: Mapping[str, Any], context: PluginContext) -> Plugin:
        """The plugin; ValueError names an argument that is unknown, wrong, or does not go with
        another.
        """
        values, problems = check_args(self.arguments, args)
        if problems:
            raise ValueError(
                "; ".join(f"{self.plugin.name}.{one.key}: {one.text}" for one in problems)
            )
        return self.make_checked(values, context)

    def make_checked(self, values: Mapping[str, Any], context: PluginContext) -> Plugin:
        """The plugin from what `check_args` answered."""
        return self.factory(values, context) if self.factory else self.plugin(**values)


def _of_tenants(plugin: Callable[..., Plugin]) -> Factory:
    """Of one that reads the quota and the places of tenants."""
    return lambda args, context: plugin(context.quota, **args)


_SPECS = (
    PluginSpec(PrioritySort, SortArgs, factory=_of_tenants(PrioritySort)),
    PluginSpec(SchedulingGates),
    PluginSpec(TenantPriority, factory=_of_tenants(TenantPriority)),
    PluginSpec(TenantQuota, factory=_of_tenants(TenantQuota)),
    PluginSpec(TenantNodes, factory=_of_tenants(TenantNodes)),
    PluginSpec(TenantNodeQuota, factory=_of_tenants(TenantNodeQuota)),
    PluginSpec(TenantSpread, factory=_of_tenants(TenantSpread)),
    PluginSpec(ClusterAllowed),
    PluginSpec(ClusterRefused),
    PluginSpec(NamespaceOpen),
    PluginSpec(NodeReady),
    PluginSpec(NodeUnschedulable),
    PluginSpec(NodeName),
    PluginSpec(TaintToleration),
    PluginSpec(NodeAffinity, NodeAffinityArgs),
    PluginSpec(NodePorts),
    PluginSpec(NodeResourcesFit, FitArgs),
    PluginSpec(VolumeRestrictions),
    PluginSpec(NodeVolumeLimits),
    PluginSpec(VolumeBinding),
    PluginSpec(VolumeZone),
    PluginSpec(FaultDomainSpread, SpreadArgs),
    PluginSpec(InterPodAffinity, AffinityArgs),
    PluginSpec(DynamicResources),
    PluginSpec(NodeResourcesBalancedAllocation, BalanceArgs),
    PluginSpec(ImageLocality),
    PluginSpec(NodeDeclaredFeatures),
    PluginSpec(ExpectedLoad, ExpectedArgs),
    *(PluginSpec(term, term.ARGS) for term in LOAD_TERMS),
    PluginSpec(HotNode, HotArgs),
    PluginSpec(NetworkTopology, TopologyArgs),
    PluginSpec(Nearness, NearnessArgs),
    PluginSpec(DataLocality, DataArgs),
    PluginSpec(HomeCluster),
    PluginSpec(DefaultPreemption, PreemptionArgs),
    PluginSpec(GPUFragmentation, MixArgs),
    PluginSpec(EgressPrice, EgressArgs),
    PluginSpec(NodePrice, PriceArgs),
)
REGISTRY: dict[str, PluginSpec] = {spec.plugin.name: spec for spec in _SPECS}
# Other names that the file of a profile may use: kube-scheduler's, where ours says more.
ALIASES = {"PodTopologySpread": FaultDomainSpread.name}


def canonical(name: str, registry: Mapping[str, PluginSpec]) -> str:
    """The name under which a registry has the plugin that a profile names so."""
    return name if name in registry else ALIASES.get(name, name)


def reasons_of(registry: Mapping[str, PluginSpec]) -> dict[Reason, str]:
    """The closed list: every reason that a pod may be refused for, with the plugin that alone has
    it; '' for those of the dispatcher, or of several.
    """
    shared = dict.fromkeys((one for one in vars(Reasons).values() if isinstance(one, Reason)), "")
    own = {one: name for name, spec in registry.items() for one in spec.plugin.REASONS}
    return shared | own


def reason_clash(spec: PluginSpec, registry: Mapping[str, PluginSpec]) -> str:
    """Which reason of a plugin that comes has a name or words that another one has already; '' if
    none: pods, metrics and records tell reasons apart by both.
    """
    for mine in spec.plugin.REASONS:
        for other in reasons_of(registry):
            if mine is not other and (mine.name == other.name or mine.words == other.words):
                return f"reason {mine.name} has name or words of {other.name} ({other.words})"
    return ""


def build(
    profile: Profile, context: PluginContext, registry: Mapping[str, PluginSpec] | None = None
) -> list[Plugin]:
    """The plugins of a profile, in its order, from its arguments as written; ValueError for
    anything wrong.
    """
    known = REGISTRY if registry is None else registry
    plugins = []
    for use in profile.plugins:
        if use.name not in known:
            raise ValueError(f"unknown plugin {use.name}{did_you_mean(use.name, known)}")
        plugins.append(known[use.name].make(use.args, context))
    cluster_filters = [one for one in plugins if isinstance(one, Filter) and closes_clusters(one)]
    for one in plugins:
        if isinstance(one, FaultDomainSpread):
            one.heed(cluster_filters)
    return plugins


def queue_sort(plugins: Sequence[Plugin]) -> QueueSort:
    """The plugin that orders the queue: the only one, or ValueError."""
    sorts = [plugin for plugin in plugins if hasattr(plugin, "sort_key")]
    if len(sorts) != 1:
        raise ValueError(
            "a profile needs exactly one QueueSort plugin, such as PrioritySort; it has "
            f"{len(sorts)}"
        )
    return cast(QueueSort, sorts[0])


def shared_queue_sort(profiles: Sequence[tuple[Profile, Sequence[Plugin]]]) -> QueueSort:
    """The one plugin that orders the queue of all profiles; ValueError where they do not agree on
    it.
    """
    first, plugins = profiles[0]
    chosen = queue_sort(plugins)
    for profile, others in profiles[1:]:
        if _sort_use(profile, queue_sort(others)) != _sort_use(first, chosen):
            raise ValueError(
                f"profile {profile.scheduler_name} sorts the queue by another plugin or other "
                "arguments than profile "
                f"{first.scheduler_name}: there is one queue, so all profiles need the same "
                "QueueSort plugin"
            )
    return chosen


def _sort_use(profile: Profile, sort: QueueSort) -> tuple[str, Mapping[str, Any]]:
    name = cast(Plugin, sort).name
    return name, next((use.args for use in profile.plugins if use.name == name), {})
