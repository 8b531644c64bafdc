"""What must be so before a plugin can be asked anything: its name, and a method for every point
that it inherits.
"""

import re
from collections.abc import Iterator
from typing import Any

from dispatcher.plugins.registry import PluginSpec
from dispatcher.scheduling.framework import CountedPlugin, Filter, Permit, Plugin, Reserve, Score
from dispatcher.scheduling.framework.asked import are_fields
from dispatcher.scheduling.framework.lifecycle import (
    Bind,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreScore,
)
from shared.model.reasons import Reason

NAME = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")
# Point -> the methods of which a plugin that inherits it must have its own.
_METHODS: dict[Any, tuple[str, ...]] = {
    Filter: ("filter",),
    Score: ("score",),
    Reserve: ("reserve", "unreserve"),
    Permit: ("permit",),
    PreEnqueue: ("pre_enqueue",),
    PreScore: ("pre_score",),
    PostFilter: ("post_filter",),
    PreBind: ("pre_bind",),
    Bind: ("bind",),
    PostBind: ("post_bind",),
}
_DERIVED = (
    "checked_rules",
    "pre_score_domains",
    "filter_parts",
    "score_parts",
    "filter",
    "score",
)
_LOOKING = (
    Filter,
    Score,
    Reserve,
    Permit,
    PostFilter,
)  # whose answers are kept for a class of pods


def broken_form(spec: PluginSpec) -> list[str]:
    """What keeps a class from being a plugin, in words for its author; empty if it is one."""
    cls: object = spec.plugin
    if not isinstance(cls, type) or not issubclass(cls, Plugin):
        return [
            "PluginSpec needs a class that inherits Filter, Score or another extension point, "
            f"not {cls!r:.100}"
        ]
    return [*_name(cls), *_reasons(cls), *_reads(cls), *_missing(cls)]


def _name(cls: type[Plugin]) -> Iterator[str]:
    name: object = getattr(cls, "name", None)
    if name is None:
        yield f'class {cls.__name__} needs a name, under which profiles know it: name: ClassVar[str] = "{cls.__name__}"'
    elif not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"{name!r:.80} is no name for a plugin: write it like NodeAffinity, letters and digits only"


def _reasons(cls: type[Plugin]) -> Iterator[str]:
    told: object = cls.REASONS
    if not isinstance(told, tuple) or not all(isinstance(one, Reason) for one in told):
        yield "REASONS must be a tuple of shared.model.reasons.Reason"


def _reads(cls: type[Plugin]) -> Iterator[str]:
    if not are_fields(cls.reads):
        yield f"reads must be a tuple of fields of Pod or PodInfo, or keys of annotations, not {cls.reads!r:.80}"


def _missing(cls: type[Plugin]) -> Iterator[str]:
    if cls.class_key is Plugin.class_key and any(issubclass(cls, point) for point in _LOOKING):
        yield "class_key is missing: it answers everything of the pod that the plugin looks at, None for nothing"
    if issubclass(cls, CountedPlugin):
        yield from _derived(cls)
        return
    for point, methods in _METHODS.items():
        for method in methods:
            if issubclass(cls, point) and getattr(cls, method) is getattr(point, method):
                yield f"{method} is missing: {cls.__name__} inherits {point.__name__}"


def _derived(cls: type[CountedPlugin[Any]]) -> Iterator[str]:
    """What follows from the rules is said by these alone."""
    for method in _DERIVED:
        if getattr(cls, method) is not getattr(CountedPlugin, method):
            yield f"{method} follows from the rules of a CountedPlugin: say it in pre_filter or rules"
