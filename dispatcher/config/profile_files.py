"""The profiles of a configuration: from our own profile files, or from kube-scheduler's
configuration files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from dispatcher.config.document import Document, read_document
from dispatcher.config.kube_scheduler import is_kube_scheduler, read_kube_scheduler
from dispatcher.config.problems import ConfigError, Path, Problem
from dispatcher.config.profiles import profile_of
from dispatcher.plugins.registry import PluginContext, PluginSpec, build, shared_queue_sort
from dispatcher.scheduling.cycle.canaries import canary_problems
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.profile import DEFAULT_PROFILE

Named = tuple[
    Path, str, FilePath
]  # the key that names a file, the name as it stands there, the file


@dataclass(frozen=True)
class ProfilesRead:
    """What profile files say. `notes`: what has no meaning here. Back-offs in seconds, None: not
    given.

    `named_by`: the key by which each profile's file is named, by scheduler_name.
    """

    profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,)
    notes: tuple[Problem, ...] = ()
    backoff_first_s: float | None = None
    backoff_longest_s: float | None = None
    named_by: Mapping[str, Path] = field(default_factory=dict)


def read_profile_file(path: FilePath, registry: Mapping[str, PluginSpec]) -> ProfilesRead:
    """One file of either kind; ConfigError with everything that is wrong with it."""
    document = read_document(path)
    if not is_kube_scheduler(document):
        return ProfilesRead((profile_of(document, registry),))
    found = read_kube_scheduler(document, registry)
    return ProfilesRead(found.profiles, found.notes, found.backoff_first_s, found.backoff_longest_s)


def read_profile_files(
    named: Sequence[Named],
    document: Document,
    registry: Mapping[str, PluginSpec],
    problems: list[Problem],
) -> ProfilesRead:
    """All files that `document` names together, the built-in default for none; what is wrong goes
    into `problems`.
    """
    reads: list[ProfilesRead] = []
    seen: set[str] = set()
    for key, name, path in named:
        try:
            read = read_profile_file(path, registry)
        except ConfigError as error:
            problems += error.problems
            continue
        for twice in [one.scheduler_name for one in read.profiles if one.scheduler_name in seen]:
            text = f"{name}: another profile has the scheduler_name {twice} already"
            problems.append(document.problem(key, text))
        seen |= {one.scheduler_name for one in read.profiles}
        reads.append(replace(read, named_by={one.scheduler_name: key for one in read.profiles}))
    if not reads:
        return ProfilesRead()
    together = _together(reads)
    problems += _canary_problems(together.profiles, named, document)
    problems += _sort_problems(together.profiles, named, document, registry)
    return together


def _together(reads: Sequence[ProfilesRead]) -> ProfilesRead:
    firsts = [one.backoff_first_s for one in reads if one.backoff_first_s is not None]
    longests = [one.backoff_longest_s for one in reads if one.backoff_longest_s is not None]
    return ProfilesRead(
        tuple({one.scheduler_name: one for read in reads for one in read.profiles}.values()),
        tuple(note for read in reads for note in read.notes),
        firsts[0] if firsts else None,
        longests[0] if longests else None,
        {name: key for read in reads for name, key in read.named_by.items()},
    )


def _canary_problems(
    profiles: Sequence[Profile], named: Sequence[Named], document: Document
) -> list[Problem]:
    canaries = [(one.scheduler_name, one.canary.of) for one in profiles if one.canary is not None]
    told = canary_problems(canaries, [one.scheduler_name for one in profiles])
    return [document.problem(named[0][0][:1], text) for text in told]


def _sort_problems(
    profiles: tuple[Profile, ...],
    named: Sequence[Named],
    document: Document,
    registry: Mapping[str, PluginSpec],
) -> list[Problem]:
    if len(profiles) < 2:
        return []
    try:
        shared_queue_sort([(one, build(one, PluginContext(), registry)) for one in profiles])
    except ValueError as error:
        return [document.problem(named[0][0][:1], str(error))]
    return []
