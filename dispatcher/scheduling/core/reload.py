"""Other profiles while the core runs: what is placed stays, books and promises move over, what
waits is tried anew.
"""

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework import QueueSort
from shared.model.wake_events import WakeEvent


def take_profiles(core: SchedulerCore, profiles: Profiles, sort: QueueSort, now: float) -> None:
    """From now on `profiles` decide, over the same fleet; `sort` is the QueueSort that they share."""
    core.fleet.now = now
    profiles.take_over(core.profiles)
    core.use(profiles)
    core.queue.take_policies(sort, profiles.classify, now, gates=profiles)
    core.queue.wake(
        WakeEvent.POD_ADDED, now
    )  # each was asked before all others had come to the new plugins
    core.report_gated(now)
