"""Who leads, and from when on an attempt is new."""

import asyncio
import time
from datetime import datetime
from typing import Any

from tests.simulation.planted import stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant


@plant("each term of a dispatcher has the epoch of the first", hint=Hint(stories.restarted_in_the_past))
def epochs_begin_anew(patches: Patches) -> None:
    from dispatcher.service.leading.leadership import Leadership

    real = Leadership._begin
    patches.set(Leadership, "_begin", lambda self, epoch: real(self, 1))


@plant("whoever has led once goes on, and whoever speaks is obeyed", hint=Hint(stories.two_dispatchers))
def no_dispatcher_fence(patches: Patches) -> None:
    from agents.executor.trust.epoch_guard import EpochGuard
    from dispatcher.service.service import Service
    from shared.kube.elector import Elector

    patches.set(EpochGuard, "superseded", lambda self, dispatcher, epoch: "")
    patches.set(Elector, "valid", lambda self: self._renewed_at > 0)
    patches.set(Elector, "_lost", lambda self: "")

    patches.set(Service, "depose", lambda self, by: None)

    async def hold(self: Any) -> str:
        await asyncio.Event().wait()
        return ""

    patches.set(Elector, "hold", hold)


@plant("a Lease that another holds is taken", hint=Hint(stories.two_dispatchers))
def lease_taken_from_its_holder(patches: Patches) -> None:
    from shared.kube.elector import Elector

    patches.set(Elector, "_anothers", lambda self, found: False)


@plant("the epoch of a term is read off the wall clock", hint=Hint(stories.restarted_in_the_past))
def epochs_from_the_wall_clock(patches: Patches) -> None:
    from dispatcher.service.leading.leadership import Leadership

    real = Leadership._begin
    patches.set(Leadership, "_begin", lambda self, epoch: real(self, int(time.time() - 1.7e9)))


@plant("whether a Lease has run out is read off the wall clock", hint=Hint(stories.a_rival_by_another_clock))
def lease_by_the_wall_clock(patches: Patches) -> None:
    from shared.kube.elector import Elector

    def anothers(self: Any, found: Any) -> bool:
        renewed = datetime.fromisoformat(found.times[1].replace("Z", "+00:00")).timestamp()
        return found.holder not in ("", self.identity) and self._world.wall() < renewed + found.duration_s

    patches.set(Elector, "_anothers", anothers)


@plant(
    "a standby leads by what it last knew of each cluster",
    hint=Hint(stories.a_standby_that_missed_some, stories.SCARCE),
)
def led_by_old_news(patches: Patches) -> None:
    from dispatcher.scheduling.core.follower import Follower

    real = Follower.take_over

    def take_over(self: Any, boot_epoch: int) -> None:
        real(self, boot_epoch)
        self._reported.update(self._state.clusters)
        for view in self._state.clusters.values():
            view.heard = True

    patches.set(Follower, "take_over", take_over)
