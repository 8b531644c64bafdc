"""Whether the profiles hold tenants to their quota, and which of them are said not to."""

from collections.abc import Iterable, Mapping

from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.profile_files import ProfilesRead
from dispatcher.config.sections import QuotaSection
from dispatcher.model.tenant import Tenant
from dispatcher.plugins.registry import PluginSpec
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown

_ADD = "add TenantQuota to its plugins, or take it out of `disabled`"


def quota_problems(
    read: ProfilesRead,
    tenants: Iterable[Tenant],
    section: QuotaSection,
    registry: Mapping[str, PluginSpec],
    document: Document,
) -> list[Problem]:
    """Profiles that would let tenants' pods pass their quota, and names that are of no profile."""
    names = [one.scheduler_name for one in read.profiles]
    problems = [
        document.problem(_at(section, name), f"{shown(name)} is no profile's scheduler_name{did_you_mean(name, names)}")
        for name in section.unlimited_profiles
        if name not in names
    ]
    if not _limited(tenants):
        return problems
    for name in names:
        if name in section.unlimited_profiles or name not in _without_quota(read.profiles, registry):
            continue
        text = (
            f"profile {name} has no TenantQuota, so its pods would pass the quota of tenants and not count in it: "
            f"{_ADD}, or list {name} in quota.unlimited_profiles if that is meant"
        )
        problems.append(document.problem(read.named_by.get(name, ("profile",)), text))
    return problems


def quota_notes(
    read: ProfilesRead,
    tenants: Iterable[Tenant],
    section: QuotaSection,
    registry: Mapping[str, PluginSpec],
    document: Document,
) -> list[Problem]:
    """What it means for tenants that profiles are said to be without quota."""
    if not _limited(tenants):
        return []
    without = _without_quota(read.profiles, registry)
    passes = "pods of this profile pass the quota of tenants, and do not count in it"
    holds = "has no meaning: this profile has TenantQuota, and holds its pods to the quota of tenants"
    return [
        document.problem(_at(section, name), passes if name in without else holds)
        for name in section.unlimited_profiles
    ]


def _limited(tenants: Iterable[Tenant]) -> bool:
    return any(tenant.nominal for tenant in tenants)


def _without_quota(profiles: Iterable[Profile], registry: Mapping[str, PluginSpec]) -> set[str]:
    def holds(plugin: str) -> bool:
        return plugin in registry and issubclass(registry[plugin].plugin, TenantQuota)

    return {one.scheduler_name for one in profiles if not any(holds(use.name) for use in one.plugins)}


def _at(section: QuotaSection, name: str) -> Path:
    return ("quota", "unlimited_profiles", section.unlimited_profiles.index(name))
