"""Whether the API server is known to have gone back in time, and for how long that is held against
it.

etcd restored from a backup: what was made since is missing, and what was deleted since is there
again. Nothing of that was anybody's wish, so for a while absence there proves nothing, or until an
operator has looked.
"""

from collections.abc import Mapping


class ServerRestore:
    """Held for `hold_s` seconds from the last step back, or until it is confirmed. `now`: monotonic
    seconds.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._until = float("-inf")
        self._words = ""
        self._highest: dict[str, int] = {}

    def tell(self, seen: int, found: int, now: float, highest: Mapping[str, int]) -> None:
        """The server, known at version `seen`, shows version `found`. `highest`: of each kind,
        before that.
        """
        if not self.holds(now):
            self._highest = {}
        self._highest = higher(self._highest, highest)
        self._until = now + self._hold_s
        self._words = (
            f"the API server went back from version {seen} to {found}: restored from a backup? "
            "Nothing is deleted on "
            f"its account until an operator confirms it, or {self._hold_s:g} s have passed "
            "without another step back"
        )

    def confirm(self) -> None:
        """An operator says that what the server shows now is meant."""
        self._until = float("-inf")

    def holds(self, now: float) -> bool:
        """Whether the server is held to have gone back."""
        return now < self._until

    def problem(self, now: float) -> str:
        """The same for people; '' when it is not held."""
        return self._words if self.holds(now) else ""

    def highest(self, now: float) -> Mapping[str, int]:
        """The versions from which it went back, by kind, while that is held: another life would
        find it out again.
        """
        return self._highest if self.holds(now) else {}


def higher(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The higher number of each key."""
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in one.keys() | other.keys()}
