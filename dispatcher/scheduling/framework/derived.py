"""What the fleet keeps of readings beside shares and means, because a plugin asks for it
(`Plugin.derives`).
"""

from collections.abc import Iterable

from shared.model.pod import Record


class HotRule(Record, frozen=True):
    """When a node is hot by a signal, and when it is so no more; shares 0..1.

    It becomes hot when mean and last reading are `enter` or more, and stays so until the mean is
    `leave` or less, or the reading is `stale_s` seconds old. While more than the share `most` of a
    cluster's Ready nodes are hot, none of them is shown as such: the source may lie, and pods need
    a place.
    """

    signal: str
    enter: float
    leave: float
    stale_s: float
    most: float


class Derived(Record, frozen=True):
    """`deviations`: the deviation of each signal (`Signals.deviation`). `hot`: rules for
    `Signals.hot`.
    """

    deviations: bool = False
    hot: tuple[HotRule, ...] = ()


NOTHING = Derived()


def joined(wanted: Iterable[Derived]) -> Derived:
    """All that any of them asks for, in that order, each rule once."""
    every = list(wanted)
    rules = dict.fromkeys(rule for one in every for rule in one.hot)
    return Derived(any(one.deviations for one in every), tuple(rules))
