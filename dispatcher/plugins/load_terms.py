"""Terms about live load beside ExpectedLoad, a row each: this project's first ones, and Trimaran's.

What a row's formulas are, and where they are from: `rules.load_formulas`; how readings fade, and
the plugin that a row becomes: `rules.load`.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta

from dispatcher.scheduling.rules.load import (
    FadeArgs,
    Fresh,
    Stale,
    load_term,
    signal_names,
)
from dispatcher.scheduling.rules.load_formulas import HEADROOM, PACKED, RELATIVE, STEADY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL


class LiveArgs(FadeArgs):
    """The fade of readings and the curve."""

    fresh_s: Fresh = 45.0
    stale_s: Stale = 120.0
    hot_above: Annotated[
        float, Meta(ge=0, le=1, description="utilisation (0..1) above which a node is hot")
    ] = 0.8
    hot_steepness: Annotated[
        float,
        Meta(ge=1, le=100, description="how much more a point of utilisation costs on a hot node"),
    ] = 4.0


class HeadroomArgs(LiveArgs):
    """The same, and of which signals."""

    signals: Annotated[
        tuple[str, ...],
        Meta(
            description="signals of which the least headroom counts",
            extra=signal_names(),
        ),
    ] = (NETWORK_SIGNAL,)


class TargetArgs(FadeArgs):
    """The target, and what pods use of their requests."""

    target: Annotated[
        float, Meta(ge=0.01, le=0.99, description="share of CPU to which nodes are filled")
    ] = 0.4
    multiplier: Annotated[
        float, Meta(ge=0.01, le=100, description="how much of its request a pod is expected to use")
    ] = 1.5


class VariationArgs(FadeArgs):
    """How much the deviation counts."""

    margin: Annotated[
        float, Meta(ge=0, le=100, description="how much the deviation counts beside the mean")
    ] = 1.0
    sensitivity: Annotated[
        float,
        Meta(ge=0.01, le=100, description="above 1 small deviations count more, below 1 less"),
    ] = 1.0


_CPU = (CPU_SIGNAL,)
_MEMORY = (MEMORY_SIGNAL,)
_NETWORK = (NETWORK_SIGNAL,)
_term = partial(load_term, __name__)
PLUGINS = (
    _term("LiveCPU", "Prefers nodes with idle CPU.", LiveArgs, _CPU, HEADROOM),
    _term("LiveMemory", "Prefers nodes with free memory.", LiveArgs, _MEMORY, HEADROOM),
    _term("LiveNetwork", "Prefers nodes with idle network.", LiveArgs, _NETWORK, HEADROOM),
    _term(
        "LiveHeadroom",
        "Prefers nodes with headroom in the scarcest of some signals, whatever agents are "
        "configured to measure.",
        HeadroomArgs,
        (),
        HEADROOM,
    ),
    _term(
        "TargetLoadPacking",
        "Prefers nodes that come near to a target of CPU in use, and of those above it the less "
        "loaded.",
        TargetArgs,
        _CPU,
        PACKED,
    ),
    _term(
        "LoadVariationRiskBalancing",
        "Prefers nodes whose CPU and memory in use are low, and vary little.",
        VariationArgs,
        (CPU_SIGNAL, MEMORY_SIGNAL),
        STEADY,
    ),
    _term(
        "RelativeCPU",
        "Prefers nodes with little CPU in use beside the busiest one.",
        FadeArgs,
        _CPU,
        RELATIVE,
    ),
    _term(
        "RelativeNetwork",
        "Prefers nodes with little network in use beside the busiest one.",
        FadeArgs,
        _NETWORK,
        RELATIVE,
    ),
)
