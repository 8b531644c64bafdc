"""What plugins answered, and keep, for one pod from PreFilter to PostBind; and the answer of those
that have none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Skip:
    """PreFilter or PreScore answer: this plugin has nothing to say about this pod class."""


SKIP = Skip()
_NOTHING: Mapping[str, object] = MappingProxyType({})


def _skip(key: str) -> object:
    return SKIP


class CycleState:
    """One pod's cycle, as its plugins are handed it at every point about one pod:
    `cycle.read(self.name)`.

    What a plugin answered in PreFilter (or, after it, in PreScore) stands under its name; SKIP if
    it was not asked or had nothing to say. `write` keeps more until the pod is bound or given back.
    """

    __slots__ = ("_answers", "_source", "_written")

    def __init__(
        self, answers: Mapping[str, object] = _NOTHING, source: Callable[[str], object] = _skip
    ) -> None:
        self._answers = answers
        self._source = source
        self._written: dict[str, object] = {}

    def read(self, key: str) -> object:
        """What stands under a plugin's name, or under a key that was written; SKIP if nothing does."""
        if key in self._written:
            return self._written[key]
        return self._answers[key] if key in self._answers else self._source(key)

    def write(self, key: str, value: object) -> None:
        """Keep a value for the points to come."""
        self._written[key] = value

    def kept(self, names: Iterable[str]) -> "CycleState":
        """The same for the points after the decision: what is under `names` now, whatever the fleet
        does meanwhile.
        """
        kept = CycleState({name: self.read(name) for name in names})
        kept._written = self._written
        return kept
