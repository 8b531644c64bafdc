"""Coalescing: how long an answer to `changes` waits for further changes to send in the same
message.
"""

from collections.abc import Awaitable, Callable

MOST_PAUSES = 5
MOST_QUIET_PAUSES = 10


async def coalesce_changes(
    revision: Callable[[], int],
    pause: Callable[[], Awaitable[None]],
    urgent: Callable[[], bool],
    unexpected: Callable[[], bool],
) -> None:
    """One pause, and up to MOST_PAUSES in all while each brings a change and none of them is
    urgent; up to MOST_QUIET_PAUSES, whatever they bring, while none of the changes is `unexpected`.

    Each answer costs both ends CPU, whatever is in it: where readings and bound pods come all the
    time, one every 20 ms would cost more than what is in it. That a pod shows on the node that it
    was bound to is news to nobody who has the outcome of that bind.
    """
    for pauses in range(1, MOST_QUIET_PAUSES + 1):
        before = revision()
        await pause()
        if urgent() or (unexpected() and (pauses >= MOST_PAUSES or revision() == before)):
            return
