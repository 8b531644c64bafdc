"""Hot nodes get no new pods, until they are cool again: a hard rule beside the scores.

A node becomes hot by one of `signals` when the mean of its readings and the last one are `enter` or
more. It stays so until the mean is `leave` or less, or the reading is `stale_s` old. In between
nothing changes, so that nodes do not take turns in being refused. What is unknown or stale is not
hot. While more than the share `most` of a cluster's Ready nodes are hot, none of them is refused: a
source that lies, or an hour in which all is busy, must not stop the queue.

The fleet keeps which nodes are hot (`scheduling.fleet.hot`), from when a profile asks for it; after
a restart by the first readings. Example: `enter` 0.85, `leave` 0.7, readings of 0.9 for ten
minutes, then of 0.6: the mean falls from 0.9 to 0.7 in 330 s (0.6 + 0.3 * e^(-330 / 300)), and then
the node takes pods again.

Source: ours. It is the filter of Crane's Dynamic plugin, Koordinator's LoadAware and Volcano's
usage, with hysteresis: with one threshold on one number nodes flip (koordinator #1563, #2076), and
one that is believed for ever is worse.
"""

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, PodInfo, Rows
from dispatcher.scheduling.framework.derived import Derived, HotRule
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.rules.load import signal_names
from shared.model.reasons import Reason
from shared.model.signals import CPU_SIGNAL
from shared.model.wake_events import NODES, WakeEvent

HOT = Reason(
    "hot",
    "node(s) were hot ({})",
    remedy="The node was too busy by that signal, and is not cool yet (HotNode): `top "
    "nodes` shows since when. It is tried again when a node is cool.",
    helped_by=NODES | WakeEvent.COOLED,
    resolvable=False,
)


class HotArgs(Args):
    """Which signals, and when a node is hot by one of them."""

    signals: Annotated[
        tuple[str, ...],
        Meta(
            description="signals by any of which a node is hot",
            extra=signal_names(most=8),
        ),
    ] = (CPU_SIGNAL,)
    enter: Annotated[
        float,
        Meta(
            ge=0, le=1, description="share in use (mean and last reading) from which a node is hot"
        ),
    ] = 0.85
    leave: Annotated[
        float, Meta(ge=0, le=1, description="mean share in use up to which it is hot no more")
    ] = 0.7
    stale_s: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="seconds after its last reading from which a node is not hot",
        ),
    ] = 300.0
    most: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of a cluster's nodes; while more are hot, none is refused",
        ),
    ] = 0.5


class HotNode(Filter[None]):
    """Keeps new pods off nodes that are hot."""

    name: ClassVar[str] = "HotNode"
    REASONS = (HOT,)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(
        self, signals: tuple[str, ...], enter: float, leave: float, stale_s: float, most: float
    ) -> None:
        if leave >= enter:
            raise ValueError(f"leave ({leave:g}) must be less than enter ({enter:g})")
        self._rules = tuple(HotRule(signal, enter, leave, stale_s, most) for signal in signals)
        self.derives = Derived(hot=self._rules)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Nothing of the pod."""
        return None

    def filter(self, state: None, fleet: FleetView, rows: Rows) -> Codes:
        """HOT with the first signal by which the node is hot."""
        codes = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        for rule in self._rules:
            code = fleet.reasons.code(
                HOT, f"{rule.signal} from {rule.enter:g} until {rule.leave:g}"
            )
            np.copyto(codes, np.uint16(code), where=(codes == 0) & fleet.signals.hot(rule)[rows])
        return codes

    def explain(
        self, state: None, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """By signal: mean and last reading of the node, and what they were held against."""
        return {rule.signal: self._told(rule, fleet, row) for rule in self._rules}

    def _told(self, rule: HotRule, fleet: FleetView, row: int) -> dict[str, Any]:
        mean = float(fleet.signals.mean(rule.signal)[row])
        used = float(fleet.signals.used(rule.signal)[row])
        known = bool(np.isfinite(mean) and np.isfinite(used))
        numbers = (
            {"mean": round(mean, 4), "reading": round(used, 4)}
            if known
            else {"mean": None, "reading": None}
        )
        return {**numbers, "enter": rule.enter, "leave": rule.leave}
