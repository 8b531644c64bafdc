"""The end of pods, and what is mirrored."""

from typing import Any

from tests.simulation.planted import stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.fleet import Sizes


@plant("our finalizer is never taken off", "people", hint=Hint(stories.deleted))
def finalizer_left(patches: Patches) -> None:
    from agents.executor.intents import finish_source

    patches.set(finish_source, "without_ours", lambda pod: tuple(pod.finalizers))


@plant("a source is let go while its delegate still stops", "people", hint=Hint(stories.deleted))
def finalizer_dropped_early(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import protocol

    real = protocol._ended_source

    def end(seen: Any, source: Any, target: str, delegate: Any) -> Any:
        if delegate is not None and delegate.terminating:
            return protocol.NextStep(protocol.Step.FINISH)
        return real(seen, source, target, delegate)

    patches.set(protocol, "_ended_source", end)


@plant("delegates of deleted sources stay", "people", hint=Hint(stories.deleted))
def delegates_stay(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import protocol

    patches.set(protocol, "_collect", lambda seen, delegates: protocol.NOTHING)


@plant("a source whose delegate was drained stays", "people", hint=Hint(stories.drained))
def drained_source_stays(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import protocol

    real = protocol._on_proxy_node

    def beside(*args: Any) -> Any:
        due = real(*args)
        return protocol.NOTHING if due.step in (protocol.Step.DELETE_SOURCE, protocol.Step.FINISH) else due

    patches.set(protocol, "_on_proxy_node", beside)


@plant("once a pod has ended, its observer says how", hint=Hint(stories.told_another_end))
def any_end_is_believed(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import protocol, tracking

    for module in (protocol, tracking):
        patches.set(module, "confirms", lambda end, delegate: bool(end))


@plant("nothing is mirrored", "people")
def nothing_mirrored(patches: Patches) -> None:
    from agents.executor.intents import procedures
    from shared.kube.verdicts import outcome
    from shared.messages import DONE, MirrorStatus

    def nothing(intent: Any, local: Any, now: Any) -> Any:
        yield from ()
        return outcome(intent, DONE)

    patches.item(procedures.PROCEDURES, MirrorStatus, nothing)


@plant("a status goes to another source than its own", "people", "links")
def mirror_to_the_wrong_pod(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import intents

    real: Any = intents.mirror
    last: list[Any] = [None]

    def mirror(home: str, source: Any, cluster: str, told: tuple[Any, bool], epoch: int, now: float) -> Any:
        last[:], other = [told[0]], last[0] or told[0]
        return real(home, source, cluster, (other, told[1]), epoch, now)

    patches.set(intents, "mirror", mirror)


@plant("addresses of any pod network are shown", hint=Hint(stories.deleted, Sizes(routed=("east", "north"))))
def any_address_is_shown(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import steps

    patches.set(steps, "share_network", lambda home, cluster: True)


@plant("where a pod went is read off its annotation alone", hint=Hint(stories.stripped_and_deleted))
def annotation_says_where(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import protocol, tracking

    def target_of(home: str, source: Any) -> str:
        return source.claim.cluster if source.claim is not None and source.claim.cluster != home else ""

    for module in (protocol, tracking):
        patches.set(module, "target_of", target_of)


@plant("delegates go with what a restore took", hint=Hint(stories.sources_restored_away))
def restored_sources_are_deleted(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import tracking

    patches.set(tracking, "_source_gone", lambda *args, **more: True)


@plant("one 404 is enough to collect delegates", hint=Hint(stories.one_source_restored_away))
def one_404_is_enough(patches: Patches) -> None:
    from dispatcher.scheduling.core.outcomes import Outcomes

    real = Outcomes._learn_absence

    def learn(self: Any, tracked: Any, in_flight: Any, outcome: Any, now: float) -> None:
        real(self, tracked, in_flight, outcome, now)
        if tracked.orphaned_at is not None:
            tracked.gone |= {tracked.home}
            tracked.orphaned_at = None

    patches.set(Outcomes, "_learn_absence", learn)


@plant("any number of orphans is collected", hint=Hint(stories.sources_restored_away_for_long))
def no_cap_of_orphans(patches: Patches) -> None:
    from dispatcher.scheduling.delegation.orphans import Orphans

    patches.set(Orphans, "may_go", lambda self, home, now: True)
