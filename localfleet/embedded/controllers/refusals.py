"""When to try again to make pods that the API refused."""

from localfleet.embedded.controllers.world import Ref

_PAUSE_S = 5.0


class Refusals:
    """Remembers which owners' pods were refused, and until when trying again would only repeat it.

    Without it the status that reports a refusal would be the event that causes the next one.
    """

    def __init__(self) -> None:
        self._until: dict[Ref, float] = {}

    def waits(self, key: Ref, now: float) -> bool:
        """Whether it is too early to try again."""
        return now < self._until.get(key, now)

    def note(self, key: Ref, refused: bool, now: float) -> float | None:
        """Note how it stands; answers in how many seconds to try again, None when nothing is
        refused.
        """
        if not refused:
            self._until.pop(key, None)
            return None
        if not self.waits(key, now):
            self._until[key] = now + _PAUSE_S
        return self._until[key] - now
