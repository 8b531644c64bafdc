"""The one clock of the dispatcher: seconds that never jump back, counted from the wall clock's time
at start.
"""

import time


class Clock:
    """Calling it gives `now`: unix seconds at start plus monotonic seconds since.

    So `now` compares with timestamps from API objects about as well as this machine's clock did at
    start, and a later step of the wall clock (NTP, suspend) moves no deadline and no age.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Unix-like seconds."""
        return time.monotonic() + self._offset
