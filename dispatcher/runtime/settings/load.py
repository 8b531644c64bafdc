"""The dispatcher's whole configuration from dispatcher.yaml, the files it names and the environment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import TypeVar

from dispatcher.model.tenant import Tenant
from dispatcher.plugins.registry import REGISTRY, PluginContext, PluginSpec, build, shared_queue_sort
from dispatcher.runtime.settings.agents import agent_problems
from dispatcher.runtime.settings.document import Document, read_document
from dispatcher.runtime.settings.problems import ConfigError, Problem
from dispatcher.runtime.settings.profiles import read_profile
from dispatcher.runtime.settings.sections import (
    ClusterSection,
    ConfigFile,
    HttpSection,
    JournalSection,
    LogSection,
    RaySection,
    TimingSection,
)
from dispatcher.runtime.settings.tenants import read_tenants
from dispatcher.runtime.settings.validation import validated
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.profile import DEFAULT_PROFILE

T = TypeVar("T")


@dataclass(frozen=True)
class DispatcherConfig:
    """Everything that is configured, checked; `file` is None for the built-in defaults."""

    clusters: tuple[ClusterSection, ...] = ()
    profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,)
    tenants: tuple[Tenant, ...] = ()
    ray: RaySection = field(default_factory=RaySection)
    http: HttpSection = field(default_factory=HttpSection)
    journal: JournalSection = field(default_factory=JournalSection)
    timing: TimingSection = field(default_factory=TimingSection)
    log: LogSection = field(default_factory=LogSection)
    file: FilePath | None = None

    @property
    def profile(self) -> Profile:
        """The first profile."""
        return self.profiles[0]


def load_config(path: FilePath | str | None, *, registry: Mapping[str, PluginSpec] = REGISTRY) -> DispatcherConfig:
    """Read everything; ConfigError lists all that is wrong, in all files. None: defaults and environment alone."""
    document = read_document(FilePath(path)) if path is not None else Document("defaults")
    problems: list[Problem] = []
    shape: list[Problem] = []
    config = _collected(problems, lambda: validated(ConfigFile, document, shape), ConfigFile.model_construct())
    problems = [*problems, *(one for one in shape if one not in problems)]
    problems += _cluster_problems(config, document)
    problems += _timing_problems(config, document)
    profiles = _profiles(document, config, problems, registry)
    nobody: tuple[Tenant, ...] = ()
    tenants = _referred(document, config, "tenants", problems, read_tenants, nobody)
    if problems:
        raise ConfigError(_in_order(problems))
    return DispatcherConfig(
        clusters=tuple(_placed(cluster, document) for cluster in config.clusters),
        profiles=profiles,
        tenants=tenants,
        ray=config.ray,
        http=config.http,
        journal=config.journal,
        timing=config.timing,
        log=config.log,
        file=FilePath(path) if path is not None else None,
    )


def check_config(path: FilePath | str, *, registry: Mapping[str, PluginSpec] = REGISTRY) -> list[Problem]:
    """Everything that is wrong with a configuration; empty if it can be used."""
    try:
        load_config(path, registry=registry)
    except ConfigError as error:
        return list(error.problems)
    return []


def _in_order(problems: list[Problem]) -> list[Problem]:
    """File by file as they were read, each by line."""
    files = list(dict.fromkeys(one.file for one in problems))
    return sorted(problems, key=lambda one: (files.index(one.file), one.line))


def _collected(problems: list[Problem], read: Callable[[], T], fallback: T) -> T:
    """What `read` gives; where it fails its problems are noted and the rest is checked with `fallback`."""
    try:
        return read()
    except ConfigError as error:
        problems += error.problems
        return fallback


def _referred(
    document: Document,
    config: ConfigFile,
    key: str,
    problems: list[Problem],
    read: Callable[[FilePath], T],
    default: T,
) -> T:
    """What the file named by `key` holds, also when the file that names it has problems of its own."""
    name = getattr(config, key)
    raw = document.data.get(key) if isinstance(document.data, dict) else None
    if not name and problems and isinstance(raw, str):
        name = raw
    return _collected(problems, lambda: read(_beside(document, name)), default) if name else default


def _profiles(
    document: Document, config: ConfigFile, problems: list[Problem], registry: Mapping[str, PluginSpec]
) -> tuple[Profile, ...]:
    """One profile by `profile`, or several by `profiles`; what is wrong with them is noted."""

    def read(file: FilePath) -> Profile:
        return read_profile(file, registry)

    if not config.profiles:
        return (_referred(document, config, "profile", problems, read, DEFAULT_PROFILE),)
    if config.profile:
        problems.append(
            document.problem(("profile",), "is given beside profiles: put it into that list, and leave this empty")
        )
    found: dict[str, Profile] = {}
    for at, name in enumerate(config.profiles):
        file = _beside(document, name)
        one = _collected(problems, partial(read, file), None)
        if one is None:
            continue
        if one.scheduler_name in found:
            text = f"{name}: another profile has the scheduler_name {one.scheduler_name} already"
            problems.append(document.problem(("profiles", at), text))
        found[one.scheduler_name] = one
    problems += _sort_problems(tuple(found.values()), document, registry)
    return tuple(found.values())


def _sort_problems(
    profiles: tuple[Profile, ...], document: Document, registry: Mapping[str, PluginSpec]
) -> list[Problem]:
    if len(profiles) < 2:
        return []
    try:
        shared_queue_sort([(one, build(one, PluginContext(), registry)) for one in profiles])
    except ValueError as error:
        return [document.problem(("profiles",), str(error))]
    return []


def _beside(document: Document, name: str) -> FilePath:
    return FilePath(document.file).parent / FilePath(name).expanduser()


def _placed(cluster: ClusterSection, document: Document) -> ClusterSection:
    if not cluster.kubeconfig:
        return cluster
    return cluster.model_copy(update={"kubeconfig": str(_beside(document, cluster.kubeconfig))})


def _cluster_problems(config: ConfigFile, document: Document) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for at, cluster in enumerate(config.clusters):
        if cluster.name in seen:
            problems.append(document.problem(("clusters", at, "name"), f"cluster {cluster.name} is listed twice"))
        seen.add(cluster.name)
        problems += agent_problems(cluster, at, document)
    return problems


def _timing_problems(config: ConfigFile, document: Document) -> list[Problem]:
    timing = config.timing
    pairs = (
        ("poll_wait_s", "cluster_silent_s"),
        ("deadline_s", "execute_s"),
        ("backoff_first_s", "backoff_longest_s"),
    )
    return [
        document.problem(("timing", low), f"must not be greater than {high} ({getattr(timing, high):g})")
        for low, high in pairs
        if getattr(timing, low) > getattr(timing, high)
    ]
