"""A profile file: plugins in the order in which filters run, each with a weight (scores only) and arguments."""

import math
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field

from dispatcher.config.document import Document, read_document
from dispatcher.config.problems import UNKNOWN_PLUGIN, ConfigError, Path, Problem
from dispatcher.config.sections import Section
from dispatcher.config.validation import validated
from dispatcher.model.names import SCHEDULER_NAME, is_ours
from dispatcher.plugins.registry import PluginContext, PluginSpec, canonical
from dispatcher.scheduling.framework import PluginUse, Profile
from dispatcher.scheduling.framework.plugin_args import check_args, did_you_mean, shown

MAX_WEIGHT = 1000.0


class PluginEntry(Section):
    """One plugin of a profile."""

    name: str
    weight: Annotated[Any, Field(description="0..1000; 0 turns a score off")] = None
    args: dict[str, Any] = {}


class ProfileFile(Section):
    """A whole profile."""

    scheduler_name: str = SCHEDULER_NAME
    plugins: Annotated[tuple[PluginEntry, ...], Field(min_length=1)]


def read_profile(path: FilePath, registry: Mapping[str, PluginSpec]) -> Profile:
    """The profile of a file; ConfigError with everything that is wrong with it."""
    return profile_of(read_document(path), registry)


def profile_of(document: Document, registry: Mapping[str, PluginSpec]) -> Profile:
    """The profile of a document; ConfigError with everything that is wrong with it."""
    problems: list[Problem] = []
    entries = validated(ProfileFile, document, problems)
    plugins = tuple(one.model_copy(update={"name": canonical(one.name, registry)}) for one in entries.plugins)
    entries = entries.model_copy(update={"plugins": plugins})
    problems += _whole(entries, document, registry)
    for at, entry in enumerate(entries.plugins):
        problems += _entry_problems(entry, ("plugins", at), document, registry)
    if problems:
        raise ConfigError(problems)
    uses = (PluginUse(one.name, 1.0 if one.weight is None else float(one.weight), one.args) for one in entries.plugins)
    return Profile(entries.scheduler_name, tuple(uses))


def _whole(entries: ProfileFile, document: Document, registry: Mapping[str, PluginSpec]) -> list[Problem]:
    problems, seen = [], set()
    if not is_ours(entries.scheduler_name):
        text = f"must be {SCHEDULER_NAME} or {SCHEDULER_NAME}-<suffix>: agents hand over no other pods"
        problems.append(document.problem(("scheduler_name",), text))
    for at, entry in enumerate(entries.plugins):
        if entry.name in seen:
            problems.append(document.problem(("plugins", at, "name"), f"{entry.name} is listed twice"))
        seen.add(entry.name)
    sorts = [name for name in seen if name in registry and "QueueSort" in registry[name].points]
    if len(sorts) != 1:
        text = f"needs exactly one QueueSort plugin, such as PrioritySort; it has {len(sorts)}"
        problems.append(document.problem(("plugins",), text))
    return problems


def _entry_problems(
    entry: PluginEntry, path: Path, document: Document, registry: Mapping[str, PluginSpec]
) -> list[Problem]:
    spec = registry.get(entry.name)
    if spec is None:
        text = f"{UNKNOWN_PLUGIN} {shown(entry.name)}{did_you_mean(entry.name, registry)}"
        return [document.problem((*path, "name"), text)]
    problems = [document.problem((*path, "weight"), text) for text in _weight_problems(entry, spec)]
    values, wrong = check_args(spec.arguments, entry.args)
    problems += [document.problem((*path, "args", one.key), one.text) for one in wrong]
    if not wrong:
        try:
            spec.make_checked(values, PluginContext())
        except ValueError as error:  # arguments that are right one by one but not together
            problems.append(document.problem((*path, "args"), str(error)))
    return problems


def _weight_problems(entry: PluginEntry, spec: PluginSpec) -> list[str]:
    weight = entry.weight
    if weight is None:
        return []
    if "Score" not in spec.points:
        return [f"{entry.name} does not score: remove the weight"]
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        return [f"must be a number from 0 to {MAX_WEIGHT:g}, not {shown(weight)}"]
    return [] if 0 <= weight <= MAX_WEIGHT else [f"must be from 0 to {MAX_WEIGHT:g}, not {shown(weight)}"]
