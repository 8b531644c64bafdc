"""Names of signals in profiles that no source is known to tell: a misspelt one would never count,
without a word.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.observer import signals
from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.sections import ClusterSection
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.model.signals import BASE_SIGNALS

_BUILT_IN = (
    *BASE_SIGNALS,
    *(
        signals.RECEIVE,
        signals.TRANSMIT,
        signals.DISK,
        signals.DISK_BUSY,
        signals.GPU,
        signals.GPU_MEMORY,
    ),
    *(signals.PRESSURE_CPU, signals.PRESSURE_MEMORY, signals.PRESSURE_IO),
)


def known_signals(clusters: Sequence[ClusterSection]) -> list[str]:
    """Those that agents may tell as they come, and those of the `signals` of these clusters'
    agents.
    """
    configured = (
        one.get("name") for cluster in clusters for one in _rows(cluster.agent.get("signals"))
    )
    return list(
        dict.fromkeys([*_BUILT_IN, *(name for name in configured if isinstance(name, str))])
    )


def signal_notes(document: Document, known: Sequence[str]) -> Iterator[Problem]:
    """A note for each name below a key `signals` of a profile's arguments, or of `rebalancing`,
    that is not known.
    """
    for path, name in _named(document.data, ()):
        if name not in known:
            text = (
                f"no signal {shown(name)} is built in or configured "
                f"here{did_you_mean(name, known)}; it never counts "
                f"unless an agent with a file of its own tells it. Known: {', '.join(known)}"
            )
            yield document.problem(path, text)


def _named(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """(path, name) of all signals that are named in a value."""
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from _named(one, (*path, at))
    if not isinstance(value, Mapping):
        return
    for key, one in value.items():
        here = (*path, key)
        if here[-2:] in (("args", "signals"), ("rebalancing", "signals")) and isinstance(
            one, list | Mapping
        ):
            names = ((name, name) for name in one) if isinstance(one, Mapping) else enumerate(one)
            yield from (((*here, place), name) for place, name in names if isinstance(name, str))
        else:
            yield from _named(one, here)


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
