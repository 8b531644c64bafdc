"""The dispatcher's whole configuration from dispatcher.yaml, the files it names and the
environment.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TypeVar

from dispatcher.config.access import access_problems, lease_problems
from dispatcher.config.agents import agent_file_problems, cluster_problems, peer_word_problems
from dispatcher.config.document import Document, read_document
from dispatcher.config.entries import readable_clusters
from dispatcher.config.gateway import gateway_notes, gateway_problems, here, placed
from dispatcher.config.http import http_notes, http_placed, http_problems
from dispatcher.config.links import link_problems
from dispatcher.config.listeners import listener_problems
from dispatcher.config.plugin_files import with_plugin_files
from dispatcher.config.problems import UNKNOWN_PLUGIN, ConfigError, Problem
from dispatcher.config.profile_files import Named, ProfilesRead, read_profile_files
from dispatcher.config.quota import QuotaOfProfiles
from dispatcher.config.sections import (
    ENV_NESTING,
    ENV_PREFIX,
    IN_CLUSTER,
    ClusterProfilesSection,
    ClusterSection,
    ConfigFile,
    GatewaySection,
    HttpSection,
    JournalSection,
    LeaderElectionSection,
    LinksSection,
    LogSection,
    QuotaSection,
    RaySection,
    RebalancingSection,
    SigningSection,
    TimingSection,
    TracingSection,
)
from dispatcher.config.signal_names import known_signals, signal_notes
from dispatcher.config.signing import signing_notes, signing_placed, signing_problems
from dispatcher.config.tenants import read_tenants
from dispatcher.config.validation import keys_at, validated
from dispatcher.config.written import written_notes
from dispatcher.plugins.registry import REGISTRY, PluginSpec
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.framework.plugin_args import did_you_mean
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.tenant import Tenant
from shared.process.file_paths import with_whole_paths

T = TypeVar("T")
_AS_GIVEN = ("ray", "tracing", "cluster_profiles", "rebalancing", "links", "log")


@dataclass(frozen=True)
class DispatcherConfig:
    """Everything that is configured, checked; `file` is None for the built-in defaults.

    `registry`: all plugins that profiles may name. `notes`: what the files say that has no meaning
    here, or none that is known. `policy_files`: plugins, profiles and tenants, to be read again
    when they change. `start_files`: those that are read at the start alone, by what they are.
    """

    clusters: tuple[ClusterSection, ...] = ()
    profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,)
    tenants: tuple[Tenant, ...] = ()
    ray: RaySection = field(default_factory=RaySection)
    gateway: GatewaySection = field(default_factory=GatewaySection)
    signing: SigningSection = field(default_factory=SigningSection)
    http: HttpSection = field(default_factory=HttpSection)
    journal: JournalSection = field(default_factory=JournalSection)
    tracing: TracingSection = field(default_factory=TracingSection)
    quota: QuotaSection = field(default_factory=QuotaSection)
    leader_election: LeaderElectionSection = field(default_factory=LeaderElectionSection)
    cluster_profiles: ClusterProfilesSection = field(default_factory=ClusterProfilesSection)
    rebalancing: RebalancingSection = field(default_factory=RebalancingSection)
    links: LinksSection = field(default_factory=LinksSection)
    timing: TimingSection = field(default_factory=TimingSection)
    log: LogSection = field(default_factory=LogSection)
    file: FilePath | None = None
    registry: Mapping[str, PluginSpec] = field(default_factory=lambda: REGISTRY)
    notes: tuple[Problem, ...] = ()
    policy_files: tuple[FilePath, ...] = ()
    start_files: Mapping[str, FilePath] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        """The first profile."""
        return self.profiles[0]


def load_config(
    path: FilePath | str | None,
    *,
    registry: Mapping[str, PluginSpec] = REGISTRY,
    reach: bool = False,
    expired_too: bool = False,
) -> DispatcherConfig:
    """Read everything; ConfigError lists all that is wrong, in all files. None: defaults and
    environment alone.

    `reach`: the clusters are to be reached from here, so their kubeconfigs and certificates are
    looked at, too. `expired_too`: a certificate that is not of this time is no error (the other
    clusters can be served).
    """
    document = read_document(FilePath(path)) if path is not None else Document("defaults")
    config, problems = _shaped(document)
    misread = _misread(problems)
    problems += _section_problems(config, document)
    clusters = tuple(_placed(cluster, document) for cluster in config.clusters)
    election, gateway, signing, http, written = _files_placed(config, document)
    problems += gateway_problems(
        gateway, config.clusters, document, reach=reach, expired_too=expired_too
    )
    problems += signing_problems(signing, document, reach=reach, expired_too=expired_too)
    if reach:
        problems += http_problems(http, document)
        problems += _reach_problems(
            config, clusters, election, document, known_bad="clusters" in misread
        )
    unusable = list[Problem]()
    of_profiles = list[Problem]()
    plugin_files = _plugin_files(document, config, unusable)
    known = with_plugin_files(plugin_files, registry, unusable)
    named = _there(_profile_files(document, config, problems), document, problems)
    read = read_profile_files(named, document, known, of_profiles)
    doubtful = unusable or "plugin_files" in misread
    problems += unusable + [
        one for one in of_profiles if not (doubtful and one.text.startswith(UNKNOWN_PLUGIN))
    ]
    timing = _with_backoffs(config.timing, read)
    problems += _timing_problems(timing, document)
    problems += peer_word_problems(config.clusters, timing.peers_s, document)
    tenants = _tenants(document, config, problems)
    of_quota = QuotaOfProfiles(read, tenants, config.quota, known, document)
    problems += of_quota.problems() if not (of_profiles or doubtful) else []
    if problems:
        raise ConfigError(_in_order(problems))
    of_files = (
        [*_file_notes(gateway, signing, clusters, document), *written_notes(*written, document)]
        if reach
        else []
    )
    signals = _signal_notes(document, named, clusters)
    return DispatcherConfig(
        clusters=clusters,
        profiles=read.profiles,
        tenants=tenants,
        gateway=gateway,
        signing=signing,
        http=http,
        journal=config.journal.model_copy(update={"path": written[0]}),
        quota=config.quota.model_copy(update={"ledger": written[1]}),
        leader_election=election,
        timing=timing,
        **{section: getattr(config, section) for section in _AS_GIVEN},
        file=FilePath(path) if path is not None else None,
        registry=known,
        notes=(*http_notes(http, document), *of_files, *read.notes, *of_quota.notes(), *signals),
        policy_files=(
            *plugin_files,
            *(file for _, _, file in named),
            *([_beside(document, config.tenants)] if config.tenants else []),
        ),
        start_files={"dispatcher": FilePath(path)} if path is not None else {},
    )


def _section_problems(config: ConfigFile, document: Document) -> list[Problem]:
    """What sections say that cannot be so, whatever the files say that they name."""
    return [
        *_environment_problems(),
        *cluster_problems(config.clusters, document),
        *listener_problems(config, document),
        *_election_problems(config.leader_election, document),
        *_rebalancing_problems(config.rebalancing, document),
        *link_problems(config.links, [cluster.name for cluster in config.clusters], document),
    ]


def _files_placed(
    config: ConfigFile, document: Document
) -> tuple[LeaderElectionSection, GatewaySection, SigningSection, HttpSection, tuple[str, str]]:
    def whole(name: str) -> str:
        return _whole(document, name)

    election = _lease_placed(config.leader_election, document)
    gateway = placed(config.gateway, whole)
    signing = signing_placed(config.signing, whole)
    return (
        election,
        gateway,
        signing,
        http_placed(config.http, whole),
        (whole(config.journal.path), whole(config.quota.ledger)),
    )


def _file_notes(
    gateway: GatewaySection,
    signing: SigningSection,
    clusters: Sequence[ClusterSection],
    document: Document,
) -> list[Problem]:
    return [
        *gateway_notes(gateway, clusters, document),
        *signing_notes(signing, clusters, document),
    ]


def _shaped(document: Document) -> tuple[ConfigFile, list[Problem]]:
    """The file's values, of the clusters at least those that can be read, and what is wrong with
    their form.
    """
    problems: list[Problem] = []
    shape: list[Problem] = []
    config = _collected(
        problems, lambda: validated(ConfigFile, document, shape), ConfigFile.model_construct()
    )
    problems += [one for one in shape if one not in problems]
    if not config.clusters and any(one.key.startswith("clusters") for one in problems):
        config = config.model_copy(update={"clusters": readable_clusters(document)})
    return config, problems


def _misread(problems: Sequence[Problem]) -> set[str]:
    """The keys that were not read. A variable that is wrong leaves nothing that can be read, good
    sections neither.
    """
    unread = (
        {"clusters", "plugin_files"}
        if any(one.file == "environment" for one in problems)
        else set()
    )
    return unread | {one.key.partition("[")[0] for one in problems}


def check_config(
    path: FilePath | str, *, registry: Mapping[str, PluginSpec] = REGISTRY, reach: bool = False
) -> list[Problem]:
    """Everything that is wrong with a configuration; empty if it can be used. `reach` as above."""
    try:
        load_config(path, registry=registry, reach=reach)
    except ConfigError as error:
        return list(error.problems)
    return []


def _signal_notes(
    document: Document, named: list[Named], clusters: tuple[ClusterSection, ...]
) -> list[Problem]:
    """Names of signals in these files that nobody is known to tell; the files were read and are
    good.
    """
    known = known_signals(clusters)
    documents = (document, *(read_document(file) for _, _, file in named))
    return [note for one in documents for note in signal_notes(one, known)]


def _in_order(problems: list[Problem]) -> list[Problem]:
    """File by file as they were read, each by line."""
    files = list(dict.fromkeys(one.file for one in problems))
    return sorted(problems, key=lambda one: (files.index(one.file), one.line))


def _collected(problems: list[Problem], read: Callable[[], T], fallback: T) -> T:
    """What `read` gives; where it fails its problems are noted and the rest is checked with
    `fallback`.
    """
    try:
        return read()
    except ConfigError as error:
        problems += error.problems
        return fallback


def _tenants(document: Document, config: ConfigFile, problems: list[Problem]) -> tuple[Tenant, ...]:
    """What the file of tenants holds, also when the file that names it has problems of its own."""
    name = config.tenants
    clusters = [cluster.name for cluster in config.clusters]
    raw = document.data.get("tenants") if isinstance(document.data, dict) else None
    if not name and problems and isinstance(raw, str):
        name = raw
    found = _there(
        [(("tenants",), name, _beside(document, name))] if name else [], document, problems
    )
    return _collected(problems, lambda: read_tenants(found[0][2], clusters), ()) if found else ()


def _plugin_files(
    document: Document, config: ConfigFile, problems: list[Problem]
) -> list[FilePath]:
    named: list[Named] = [
        (("plugin_files", at), name, _beside(document, name))
        for at, name in enumerate(config.plugin_files)
    ]
    return [path for _, _, path in _there(named, document, problems)]


def _there(named: list[Named], document: Document, problems: list[Problem]) -> list[Named]:
    """Those of the named files that are there; `problems` gets the others."""
    wrong = [(key, _no_file(path)) for key, _, path in named]
    problems += [document.problem(key, why) for key, why in wrong if why]
    return [one for one, (_, why) in zip(named, wrong, strict=True) if not why]


def _no_file(path: FilePath) -> str:
    if not os.path.exists(path):
        return (
            f"there is no file {path}: correct it (paths are relative to the folder of this "
            "file), or leave it out"
        )
    return f"{path} is a folder: name a file, or leave it out" if os.path.isdir(path) else ""


def _profile_files(document: Document, config: ConfigFile, problems: list[Problem]) -> list[Named]:
    """The one file of `profile`, or those of `profiles`; also if the file that names them has
    problems of its own.
    """
    if not config.profiles:
        raw = document.data.get("profile") if isinstance(document.data, dict) else None
        name = config.profile or (raw if problems and isinstance(raw, str) else "")
        return [(("profile",), name, _beside(document, name))] if name else []
    if config.profile:
        problems.append(
            document.problem(
                ("profile",),
                "is given beside profiles: put it into that list, and leave this empty",
            )
        )
    return [
        (("profiles", at), name, _beside(document, name)) for at, name in enumerate(config.profiles)
    ]


def _with_backoffs(timing: TimingSection, read: ProfilesRead) -> TimingSection:
    given = {"backoff_first_s": read.backoff_first_s, "backoff_longest_s": read.backoff_longest_s}
    return timing.model_copy(
        update={key: float(value) for key, value in given.items() if value is not None}
    )


def _beside(document: Document, name: str) -> FilePath:
    return FilePath(document.file).parent / FilePath(name).expanduser()


def _whole(document: Document, name: str) -> str:
    return str(_beside(document, name).absolute()) if name else ""


def _placed(cluster: ClusterSection, document: Document) -> ClusterSection:
    agent = with_whole_paths(cluster.agent, lambda name: _whole(document, name))
    return cluster.model_copy(
        update={"kubeconfig": _whole(document, cluster.kubeconfig), "agent": agent}
    )


def _lease_placed(section: LeaderElectionSection, document: Document) -> LeaderElectionSection:
    if section.kubeconfig in ("", IN_CLUSTER):
        return section
    return section.model_copy(update={"kubeconfig": _whole(document, section.kubeconfig)})


def _reach_problems(
    config: ConfigFile,
    clusters: tuple[ClusterSection, ...],
    election: LeaderElectionSection,
    document: Document,
    *,
    known_bad: bool,
) -> list[Problem]:
    """What keeps clusters and Lease from being reached. Agents on another Ray have files on its
    nodes, not here.
    """
    if not clusters:
        text = "none is listed: name at least one, such as {name: west, context: west-admin}"
        return [] if known_bad else [document.problem(("clusters",), text)]
    started = () if config.ray.address else here(clusters)
    if config.cluster_profiles.namespace and not (election.kubeconfig or started):
        text = "is where the Lease is, and leader_election.kubeconfig does not say where that is"
        return [document.problem(("cluster_profiles", "namespace"), text)]
    if election.enabled and not election.kubeconfig and not started and not config.ray.address:
        text = "is empty, and no agent is started here: say where the Lease is"
        return [document.problem(("leader_election", "kubeconfig"), text)]
    if not started:
        return lease_problems(election, (), document) if election.kubeconfig != IN_CLUSTER else []
    files = [
        one
        for at, cluster in enumerate(clusters)
        for one in agent_file_problems(cluster, at, document)
    ]
    return [
        *access_problems(clusters, document),
        *files,
        *lease_problems(election, started, document),
    ]


def _election_problems(section: LeaderElectionSection, document: Document) -> list[Problem]:
    """A leader must have stopped before another may begin, and must have tried more than once by
    then.
    """
    problems = []
    if section.renew_deadline_s >= section.lease_s:
        text = f"must be less than lease_s ({section.lease_s:g})"
        problems.append(document.problem(("leader_election", "renew_deadline_s"), text))
    if section.retry_s * 2 > section.renew_deadline_s:
        text = f"must be at most half of renew_deadline_s ({section.renew_deadline_s:g})"
        problems.append(document.problem(("leader_election", "retry_s"), text))
    return problems


def _rebalancing_problems(section: RebalancingSection, document: Document) -> list[Problem]:
    text = f"must be less than hot ({section.hot:g})"
    return [document.problem(("rebalancing", "cool"), text)] if section.cool >= section.hot else []


def _environment_problems() -> list[Problem]:
    """Variables of sections that do not exist; pydantic reads those that do."""
    prefix = ENV_PREFIX.upper()
    known = [name.upper() for name in ConfigFile.model_fields]
    sections = {name: name.upper()[len(prefix) :].partition(ENV_NESTING) for name in os.environ}
    unknown = [
        Problem("environment", 0, name, f"unknown section{did_you_mean(section, known)}")
        for name, (section, nested, _) in sorted(sections.items())
        if nested and name.upper().startswith(prefix) and section not in known
    ]
    meant = {
        f"{prefix}{section}_{key}": f"{prefix}{section}{ENV_NESTING}{key}"
        for section, key in _nested_keys()
    }
    return unknown + [
        Problem("environment", 0, name, f"sets nothing; did you mean {meant[name.upper()]}?")
        for name, value in sorted(os.environ.items())
        if name.upper() in meant and "://" not in value  # a Service's port looks so in a pod
    ]


def _nested_keys() -> list[tuple[str, str]]:
    """(section, key) of every key in a section, as variables spell them."""
    sections = {
        name: keys_at(ConfigFile, (name,)) for name in ConfigFile.model_fields if name != "clusters"
    }
    return [(section.upper(), key.upper()) for section, keys in sections.items() for key in keys]


def _timing_problems(timing: TimingSection, document: Document) -> list[Problem]:
    pairs = (
        ("poll_wait_s", "cluster_silent_s"),
        ("deadline_s", "execute_s"),
        ("backoff_first_s", "backoff_longest_s"),
    )
    problems = [
        document.problem(
            ("timing", low), f"must not be greater than {high} ({getattr(timing, high):g})"
        )
        for low, high in pairs
        if getattr(timing, low) > getattr(timing, high)
    ]
    if (
        timing.peers_s * 4 > timing.delegate_lease_s
    ):  # a renewal is as old as two of them, and one may be lost
        text = f"must be at most a quarter of delegate_lease_s ({timing.delegate_lease_s:g})"
        problems.append(document.problem(("timing", "peers_s"), text))
    if timing.cluster_lost_s < timing.cluster_silent_s:
        text = f"must not be less than cluster_silent_s ({timing.cluster_silent_s:g})"
        problems.append(document.problem(("timing", "cluster_lost_s"), text))
    return problems
