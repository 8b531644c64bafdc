"""What shards must know of the configuration: the profiles, and where plugins of the operator's own are."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from dispatcher.config import DispatcherConfig, Problem, plugin_registry
from dispatcher.config.plugin_files import with_plugin_files
from dispatcher.plugins.registry import PluginContext, PluginSpec, build
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.framework.points import Plan
from dispatcher.version import version


class Policy(msgspec.Struct, frozen=True):
    """Profiles and plugin files. `modules`: plugin -> the module it is of; that of a file is named by what it holds."""

    profiles: tuple[Profile, ...]
    plugin_files: tuple[str, ...]
    modules: dict[str, str]


def policy_of(config: DispatcherConfig) -> bytes:
    """What shards have to know of a configuration. Of its policy files those that are Python are plugins."""
    files = [str(file.absolute()) for file in config.policy_files if file.suffix == ".py"]
    used = {use.name for profile in config.profiles for use in profile.plugins}
    modules = {name: config.registry[name].plugin.__module__ for name in sorted(used)}
    return msgspec.msgpack.encode(Policy(config.profiles, tuple(files), modules), enc_hook=_plain)


def name_of(policy: bytes) -> str:
    """A name for a policy: equal for equal ones of equal versions of this program alone."""
    return blake2b(policy + version().encode(), digest_size=12).hexdigest()


def plans_of(policy: bytes) -> list[Plan]:
    """The plans of all profiles, without plugins that cannot be had here, or are others here: the driver asks those."""
    read = msgspec.msgpack.decode(policy, type=Policy)
    unusable: list[Problem] = []  # not on this machine: said where the driver reads them
    found = with_plugin_files([Path(file) for file in read.plugin_files], plugin_registry(), unusable)
    registry = {name: spec for name, spec in found.items() if spec.plugin.__module__ == read.modules.get(name)}
    return [_plan(profile, registry) for profile in read.profiles]


def _plan(profile: Profile, registry: Mapping[str, PluginSpec]) -> Plan:
    plugins = []
    for use in profile.plugins:
        try:
            plugins += build(Profile(profile.scheduler_name, (use,)), PluginContext(), registry)
        except ValueError:  # not known here, or its arguments did not arrive as they were: the driver asks its own
            continue
    return Plan.of(profile, plugins)


def _plain(value: object) -> object:
    """Arguments are plain values of YAML, but for mappings that cannot be written."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no plain value")
