"""A profile file: plugins in the order in which filters run, each with a weight (scores only) and
arguments.

All of them, or with `extends` what is different from a profile that is built in.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field

from dispatcher.config.document import Document, read_document
from dispatcher.config.problems import UNKNOWN_PLUGIN, ConfigError, Path, Problem
from dispatcher.config.sections import Section
from dispatcher.config.validation import validated
from dispatcher.plugins.registry import PluginContext, PluginSpec, canonical
from dispatcher.scheduling.framework import Canary, PluginUse, Profile
from dispatcher.scheduling.framework.plugin_args import (
    check_args,
    did_you_mean,
    is_finite_number,
    shown,
)
from dispatcher.scheduling.profile import BUILT_IN
from shared.model.names import SCHEDULER_NAME, is_ours

MAX_WEIGHT = 1000.0


class PluginEntry(Section):
    """One plugin of a profile."""

    name: str
    weight: Annotated[Any, Field(description="0..1000; 0 turns a score off")] = None
    args: dict[str, Any] | None = None


class CanarySection(Section):
    """That this profile decides a share of another profile's pods in its place, to be compared with
    it.
    """

    of: Annotated[str, Field(description="schedulerName of that profile")] = SCHEDULER_NAME
    percent: Annotated[
        float,
        Field(
            ge=0,
            le=100,
            multiple_of=0.01,
            description="of its pods, by their UIDs; 0: none of them",
        ),
    ]


class ProfileFile(Section):
    """A whole profile, or what it changes of one that is built in."""

    scheduler_name: str = SCHEDULER_NAME
    extends: Annotated[str, Field(description="a profile that is built in; empty: none")] = ""
    canary: CanarySection | None = None
    disabled: Annotated[tuple[str, ...], Field(description="its plugins that are left out")] = ()
    plugins: Annotated[
        tuple[PluginEntry, ...],
        Field(description="all plugins; with `extends`, other weights and arguments, and more"),
    ] = ()


def read_profile(path: FilePath, registry: Mapping[str, PluginSpec]) -> Profile:
    """The profile of a file; ConfigError with everything that is wrong with it."""
    return profile_of(read_document(path), registry)


def profile_of(document: Document, registry: Mapping[str, PluginSpec]) -> Profile:
    """The profile of a document; ConfigError with everything that is wrong with it."""
    problems: list[Problem] = []
    entries = validated(ProfileFile, document, problems)
    plugins = tuple(
        one.model_copy(update={"name": canonical(one.name, registry)}) for one in entries.plugins
    )
    disabled = tuple(canonical(name, registry) for name in entries.disabled)
    entries = entries.model_copy(update={"plugins": plugins, "disabled": disabled})
    base = BUILT_IN.get(entries.extends)
    uses = _extended(base.plugins if base else (), entries)
    problems += _base_problems(entries, document)
    problems += _whole(entries, uses, document, registry)
    for at, entry in enumerate(entries.plugins):
        problems += _entry_problems(entry, ("plugins", at), document, registry)
    if problems:
        raise ConfigError(problems)
    canary = Canary(entries.canary.of, entries.canary.percent) if entries.canary else None
    return Profile(entries.scheduler_name, uses, canary)


def _extended(base: Sequence[PluginUse], entries: ProfileFile) -> tuple[PluginUse, ...]:
    """The base's plugins in its order, with what the file says of each, then the plugins that only
    the file has.
    """
    uses = {use.name: use for use in base if use.name not in entries.disabled}
    for entry in entries.plugins:
        known = uses.get(entry.name, PluginUse(entry.name, 1.0, {}))
        weight = known.weight if not is_finite_number(entry.weight) else float(entry.weight)
        uses[entry.name] = PluginUse(
            entry.name, weight, entry.args if entry.args is not None else known.args
        )
    return tuple(uses.values())


def _base_problems(entries: ProfileFile, document: Document) -> list[Problem]:
    base = BUILT_IN.get(entries.extends)
    if entries.extends and base is None:
        text = f"no profile {shown(entries.extends)} is built in; there are {', '.join(BUILT_IN)}"
        return [document.problem(("extends",), text)]
    names = [use.name for use in base.plugins] if base else []
    given = {entry.name for entry in entries.plugins}
    problems = []
    for at, name in enumerate(entries.disabled):
        if name not in names:
            text = (
                f"{shown(name)} is not in the profile that this one "
                f"extends{did_you_mean(name, names)}"
            )
            problems.append(document.problem(("disabled", at), text))
        elif name in given:
            problems.append(document.problem(("disabled", at), f"{name} is listed in plugins, too"))
    return problems


def _whole(
    entries: ProfileFile,
    uses: Sequence[PluginUse],
    document: Document,
    registry: Mapping[str, PluginSpec],
) -> list[Problem]:
    problems = []
    seen = set()
    if not is_ours(entries.scheduler_name):
        text = (
            f"must be {SCHEDULER_NAME} or {SCHEDULER_NAME}-<suffix>: agents hand over no other pods"
        )
        problems.append(document.problem(("scheduler_name",), text))
    for at, entry in enumerate(entries.plugins):
        if entry.name in seen:
            problems.append(
                document.problem(("plugins", at, "name"), f"{entry.name} is listed twice")
            )
        seen.add(entry.name)
    sorts = [
        use.name
        for use in uses
        if use.name in registry and "QueueSort" in registry[use.name].points
    ]
    if len(sorts) != 1 and entries.extends in ("", *BUILT_IN):
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
    values, wrong = check_args(spec.arguments, entry.args or {})
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
    if not is_finite_number(weight):
        return [f"must be a number from 0 to {MAX_WEIGHT:g}, not {shown(weight)}"]
    return (
        []
        if 0 <= weight <= MAX_WEIGHT
        else [f"must be from 0 to {MAX_WEIGHT:g}, not {shown(weight)}"]
    )
