"""How much each signal of a node counts in a score, as a profile writes it."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from dispatcher.scheduling.framework.plugin_args import number, shown
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL, is_signal_name

Weights = tuple[tuple[str, float], ...]
USUAL_WEIGHTS: Weights = ((CPU_SIGNAL, 2.0), (MEMORY_SIGNAL, 1.0), (NETWORK_SIGNAL, 1.0))
WrittenWeights = Annotated[dict[str, Annotated[float, Meta(ge=0.01, le=1000)]], Meta(min_length=1)]


def signal_weights(raw: object) -> Weights:
    """{signal: weight}, one at least."""
    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(
            f"must map signals to weights, for example {{cpu: 2, memory: 1}}, not {shown(raw)}"
        )
    wrong = [name for name in raw if not isinstance(name, str) or not is_signal_name(name)]
    if wrong:
        raise ValueError(
            f"{shown(wrong[0])} is no signal: lower case letters, digits and underscores, 40 at "
            "most"
        )
    weight = number(0.01, 1000)
    return tuple((name, weight(value)) for name, value in raw.items())
