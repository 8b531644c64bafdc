"""What each command does once its survey was shown and agreed to. Each may be repeated: what is
done stays done.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dispatcher.cli.operate import executor_words, words
from dispatcher.cli.operate.census import Census, PodAt
from dispatcher.cli.operate.drain import POLL_S, Ask, Clearing, Tell, clear, delete, evict, let_go
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.cli.operate.survey import Sight, bound, copies, survey
from dispatcher.cli.operate.words import Word
from shared.model import names


class Errand(NamedTuple):
    """The cluster in question, the clusters that can be asked, what was seen of them, and how long
    pods may take.

    `asked` fills with the pods that have been told to go.
    """

    cluster: str
    members: Mapping[str, Member]
    sights: list[Sight]
    timeout_s: float
    tell: Tell
    asked: list[PodAt]


async def say_everywhere(errand: Errand, word: Word) -> None:
    """On the proxy node of the cluster in every other cluster that answers."""
    for sight in errand.sights:
        if not sight.problem and sight.name != errand.cluster:
            await _say(errand, sight, errand.cluster, word)


async def look_at_closed(errand: Errand) -> None:
    """Whether `leave` has closed the cluster for its own pods."""
    member = errand.members.get(errand.cluster)
    if member is None:
        return
    sight = Sight(member.name)
    try:
        sight.closed = await words.closed_by_leave(member)
        sight.note = (
            f"leave has cordoned {', '.join(sight.closed)} here, for its own pods: they may go "
            "there again"
        )
    except MemberError as error:
        sight.problem = str(error)
    if sight.closed or sight.problem:
        errand.sights.append(sight)


async def uncordon(errand: Errand) -> None:
    """Let pods go there again, and those of its own elsewhere if `leave` had closed that."""
    await say_everywhere(errand, words.UNCORDON)
    for sight in errand.sights:
        for other in sight.closed:
            await _say(errand, sight, other, words.UNCORDON)


async def drain(errand: Errand) -> None:
    """Cordon, then evict all pods that run there."""
    await say_everywhere(errand, words.CORDON)
    await _clear(errand, bound(errand.sights), evict, "evicted")
    await _verify(errand, lambda found: found.bound, whole=False)


async def leave(errand: Errand) -> None:
    """Cordon in both directions, then evict what went there and what came from there, and see that
    nothing is left.
    """
    await say_everywhere(errand, words.CORDON)
    for sight in errand.sights:
        if sight.name == errand.cluster and not sight.problem:
            for other in (one.name for one in errand.sights if one.name != errand.cluster):
                await _close(errand, sight, other)
    await _clear(errand, bound(errand.sights), evict, "evicted")
    await _verify(errand, lambda found: found.left, whole=True)


async def confirm(errand: Errand) -> None:
    """Say in the cluster itself that what its API server shows is meant."""
    writes = (
        executor_words.say(
            errand.members[sight.name], sight, names.CONFIRM_RESTORED, "confirmed", errand.timeout_s
        )
        for sight in errand.sights
        if not sight.problem
    )
    await asyncio.gather(*writes)


async def look_at_keys(errand: Errand) -> None:
    """Which keys of the cluster each other one believes now, and with which it signs itself."""
    for sight in errand.sights:
        if not sight.problem:
            try:
                known = await executor_words.known_keys(errand.members[sight.name], errand.cluster)
                sight.note = f"forgets {known}" if known else "knows no key of it"
            except MemberError as error:
                sight.note = "knows no key of it" if error.status == 404 else ""
                sight.problem = "" if error.status == 404 else str(error)
    member = errand.members.get(errand.cluster)
    if member is not None:
        await _look_at_own_keys(errand, member)


async def _look_at_own_keys(errand: Errand, member: Member) -> None:
    """An agent of the cluster itself that has another key waits for the word. Nothing to say where
    none is stored.
    """
    sight = Sight(member.name)
    try:
        signs = await executor_words.own_key(member)
        sight.note = f"signs with {signs}; an agent with another key may act for it from now on"
    except MemberError as error:
        signs = ""
        sight.problem = "" if error.status == 404 else str(error)
    if signs or sight.problem:
        errand.sights.append(sight)


async def forget_keys(errand: Errand) -> None:
    """Say in every cluster that answers, the one in question too, that its keys are to be
    forgotten.
    """
    word = executor_words.forget(errand.cluster)
    writes = (
        executor_words.say(errand.members[sight.name], sight, word, "forgotten", errand.timeout_s)
        for sight in errand.sights
        if not sight.problem
    )
    await asyncio.gather(*writes)


async def leave_lost(errand: Errand) -> None:
    """Fence, wait until the dispatcher has let its pods go, delete the copies of its own pods
    elsewhere.
    """
    await say_everywhere(errand, words.FENCE)
    mine = [one for one in errand.sights if one.name != errand.cluster]
    await _clear(errand, copies(mine), delete, "deleted")
    await _clear(errand, bound(mine), let_go, "let go")
    await _verify(errand, lambda found: found.left, whole=True)


async def _close(errand: Errand, sight: Sight, other: str) -> None:
    """Cordon another cluster for the pods of the one that leaves, unless that was said already for
    itself.
    """
    try:
        stands = await words.standing(errand.members[sight.name], other)
    except MemberError as error:
        sight.problem = str(error)
        return
    if not stands.cordoned:
        await _say(errand, sight, other, words.CLOSE)


async def _say(errand: Errand, sight: Sight, about: str, word: Word) -> None:
    try:
        result, now = await words.say(errand.members[sight.name], about, word)
        sight.did.append(result if about == errand.cluster else f"{about} {result}")
        if about == errand.cluster:
            sight.proxy = str(now)
    except MemberError as error:
        sight.problem = f"node {names.proxy_node_name(about)}: {error}"


async def _clear(errand: Errand, pods: Iterable[PodAt], ask: Ask, done: str) -> None:
    wanted = list(pods)
    if not wanted:
        return

    async def counted(member: Member, pod: PodAt) -> str:
        why = await ask(member, pod)
        if not why:
            errand.asked.append(pod)
        return why

    state = await clear(errand.members, wanted, counted, errand.tell, errand.timeout_s)
    for sight in errand.sights:
        asked = [pod for pod in wanted if pod.cluster == sight.name]
        if asked:
            left = sum(pod.cluster == sight.name for pod in (*state.waiting, *state.failed))
            sight.did.append(f"{len(asked) - left} {done}")
            sight.problem = sight.problem or _undone(state, sight.name)


def _undone(state: Clearing, cluster: str) -> str:
    failed = {pod: why for pod, why in state.failed.items() if pod.cluster == cluster}
    waiting = {pod: why for pod, why in state.waiting.items() if pod.cluster == cluster}
    for pods, what in ((failed, "cannot go"), (waiting, "are not gone yet")):
        if pods:
            pod, why = next(iter(pods.items()))
            because = (
                why
                or "its delegate still ends, or no dispatcher runs, or no agent in the cluster of "
                "its delegate"
            )
            return f"{len(pods)} pods {what}, such as {pod.namespace}/{pod.name}: {because}"
    return ""


async def _verify(
    errand: Errand, left_of: Callable[[Census], Sequence[PodAt]], *, whole: bool
) -> None:
    """Look until nothing is left, or the time is over: marks go a moment after pods do, and pods
    may have come.
    """
    deadline = time.monotonic() + errand.timeout_s
    again = await survey(errand.members, errand.cluster, whole=whole)
    while any(left_of(one.found) for one in again) and time.monotonic() < deadline:
        if any(one.problem for one in errand.sights):
            break
        await asyncio.sleep(POLL_S)
        again = await survey(errand.members, errand.cluster, whole=whole)
    now = {sight.name: sight for sight in again}
    for sight in errand.sights:
        seen = now[sight.name]
        if not seen.problem:
            sight.found = seen.found
            sight.proxy = seen.proxy
        left = left_of(seen.found)
        if left:
            problem = (
                f"{len(left)} pods are left, such as {left[0].namespace}/{left[0].name}: repeat "
                "this"
            )
            sight.problem = sight.problem or problem
        sight.problem = sight.problem or seen.problem
        if not sight.problem:
            sight.did.append("nothing is left")
