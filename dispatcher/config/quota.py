"""Whether the profiles hold tenants to what their file says, and which of them are said not to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dispatcher.config.document import Document
from dispatcher.config.problems import Problem
from dispatcher.config.profile_files import ProfilesRead
from dispatcher.config.sections import QuotaSection
from dispatcher.plugins.registry import PluginSpec
from dispatcher.plugins.tenant_node_quota import TenantNodeQuota
from dispatcher.plugins.tenant_nodes import TenantNodes
from dispatcher.plugins.tenant_priority import TenantPriority
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.framework import Plugin
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.model.tenant import Tenant, part_of

# Beside quota: what some tenant asks for, the plugin that sees to it, and what passes without it.
_ALSO: tuple[tuple[Callable[[Tenant], bool], type[Plugin], str], ...] = (
    (lambda one: any(map(part_of, one.nominal)), TenantNodeQuota, "`quotas` of parts of the fleet"),
    (lambda one: bool(one.clusters or one.selector), TenantNodes, "`clusters` and `nodes`"),
    (lambda one: one.max_priority is not None, TenantPriority, "`max_priority`"),
)
_ADD = "add TenantQuota to its plugins, or take it out of `disabled`"


@dataclass(frozen=True)
class QuotaOfProfiles:
    """What was read that has a say in it."""

    read: ProfilesRead
    tenants: Sequence[Tenant]
    section: QuotaSection
    registry: Mapping[str, PluginSpec]
    document: Document

    def problems(self) -> list[Problem]:
        """Profiles that would let tenants' pods pass their quota, and names that are of no profile."""
        names = [one.scheduler_name for one in self.read.profiles]
        unlimited = self.section.unlimited_profiles
        problems = [
            self._of_name(
                name, f"{shown(name)} is no profile's scheduler_name{did_you_mean(name, names)}"
            )
            for name in unlimited
            if name not in names
        ]
        for name in self._without_quota() if self._limited() else ():
            if name in unlimited:
                continue
            text = (
                f"profile {name} has no TenantQuota, so its pods would pass the quota of tenants "
                "and not count in it: "
                f"{_ADD}, or list {name} in quota.unlimited_profiles if that is meant"
            )
            problems.append(self.document.problem(self.read.named_by.get(name, ("profile",)), text))
        return [*problems, *self._unfollowed()]

    def _unfollowed(self) -> Iterator[Problem]:
        for asks, plugin, what in _ALSO:
            asking = next((one.name for one in self.tenants if asks(one)), None)
            for name in self._without(plugin) if asking is not None else ():
                if name not in self.section.unlimited_profiles:
                    text = (
                        f"profile {name} has no {plugin.name}, so its pods would pass {what} of "
                        f"tenant {asking}: add {plugin.name} to its plugins, or take it out of "
                        "`disabled`"
                    )
                    path = self.read.named_by.get(name, ("profile",))
                    yield self.document.problem(path, text)

    def notes(self) -> list[Problem]:
        """What it means for tenants that profiles are said to be without quota."""
        if not self._limited():
            return []
        without = self._without_quota()
        passes = "pods of this profile pass the quota of tenants, and do not count in it"
        holds = (
            "has no meaning: this profile has TenantQuota, and holds its pods to the quota of "
            "tenants"
        )
        return [
            self._of_name(name, passes if name in without else holds)
            for name in self.section.unlimited_profiles
        ]

    def _limited(self) -> bool:
        return any(tenant.nominal for tenant in self.tenants)

    def _without_quota(self) -> list[str]:
        return self._without(TenantQuota)

    def _without(self, kind: type[Plugin]) -> list[str]:
        def holds(plugin: str) -> bool:
            return plugin in self.registry and issubclass(self.registry[plugin].plugin, kind)

        return [
            one.scheduler_name
            for one in self.read.profiles
            if not any(holds(use.name) for use in one.plugins)
        ]

    def _of_name(self, name: str, text: str) -> Problem:
        at = self.section.unlimited_profiles.index(name)
        return self.document.problem(("quota", "unlimited_profiles", at), text)
