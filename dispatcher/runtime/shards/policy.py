"""What shards must know of the configuration: the profiles, and where plugins of the operator's own are."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from dispatcher.plugins.registry import PluginContext, PluginSpec, build
from dispatcher.runtime.settings import ConfigError, plugin_registry
from dispatcher.runtime.settings.plugin_files import with_plugin_files
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.framework.points import Plan


class Policy(msgspec.Struct, frozen=True):
    """Profiles and plugin files. `marks`: hashes of what the files hold."""

    profiles: tuple[Profile, ...]
    plugin_files: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()


def policy_bytes(profiles: Sequence[Profile], policy_files: Sequence[Path]) -> bytes:
    """As it is sent. Of the policy files those that are Python are plugins."""
    plugins = [file.resolve() for file in policy_files if file.suffix == ".py"]
    return msgspec.msgpack.encode(
        Policy(tuple(profiles), tuple(map(str, plugins)), tuple(_mark(file) for file in plugins)), enc_hook=_plain
    )


def name_of(policy: bytes) -> str:
    """A name for a policy: equal for equal ones alone."""
    return blake2b(policy, digest_size=12).hexdigest()


def plans_of(policy: bytes) -> list[Plan]:
    """The plans of all profiles; plugins that cannot be had here are left out."""
    read = msgspec.msgpack.decode(policy, type=Policy)
    registry = _registry([Path(file) for file in read.plugin_files])
    return [_plan(profile, registry) for profile in read.profiles]


def _plan(profile: Profile, registry: Mapping[str, PluginSpec]) -> Plan:
    plugins = []
    for use in profile.plugins:
        try:
            plugins += build(Profile(profile.scheduler_name, (use,)), PluginContext(), registry)
        except ValueError:  # not installed here: the driver answers for it
            continue
    return Plan.of(profile, plugins)


def _registry(files: Sequence[Path]) -> Mapping[str, PluginSpec]:
    registry: Mapping[str, PluginSpec] = plugin_registry()
    for file in files:
        try:
            registry = with_plugin_files([file], registry)
        except ConfigError:  # not on this machine
            continue
    return registry


def _mark(file: Path) -> bytes:
    try:
        return blake2b(file.read_bytes(), digest_size=16).digest()
    except OSError:
        return b""


def _plain(value: object) -> object:
    """Arguments are plain values of YAML, but for mappings that cannot be written."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no plain value")
