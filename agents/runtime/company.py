"""How long a changes answer waits for further changes that can travel with it."""

from collections.abc import Awaitable, Callable

MOST_PAUSES = 5
MANY_CHANGES = 4  # in one pause


async def wait_for_company(revision: Callable[[], int], pause: Callable[[], Awaitable[None]]) -> None:
    """One pause, and up to MOST_PAUSES in all while each brings MANY_CHANGES.

    A call that an actor answers now and then costs the two processes 3 ms of CPU (Ray 2.60, 30 calls a second): while
    pods are bound by the hundred, an answer every 20 ms would cost a sixth of all.
    """
    for _ in range(MOST_PAUSES):
        before = revision()
        await pause()
        if revision() - before < MANY_CHANGES:
            return
