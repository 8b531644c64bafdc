"""Whether the profiles hold tenants to their quota, and which of them are said not to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.config.document import Document
from dispatcher.config.problems import Problem
from dispatcher.config.profile_files import ProfilesRead
from dispatcher.config.sections import QuotaSection
from dispatcher.plugins.registry import PluginSpec
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.model.tenant import Tenant

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
        return problems

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
        def holds(plugin: str) -> bool:
            return plugin in self.registry and issubclass(self.registry[plugin].plugin, TenantQuota)

        return [
            one.scheduler_name
            for one in self.read.profiles
            if not any(holds(use.name) for use in one.plugins)
        ]

    def _of_name(self, name: str, text: str) -> Problem:
        at = self.section.unlimited_profiles.index(name)
        return self.document.problem(("quota", "unlimited_profiles", at), text)
