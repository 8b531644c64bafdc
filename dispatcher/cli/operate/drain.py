"""Evicts pods through the Eviction API of the cluster where they were submitted, so that its
budgets hold.

As kubectl drain does: 429 is tried again, a pod that is gone or replaced is done, everything else
is a problem. Then it waits until the pods are really gone, which takes a running dispatcher: it
ends their delegates first.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dispatcher.cli.operate.census import PodAt
from dispatcher.cli.operate.members import Member, MemberError
from shared.kube.deletes import delete_options

POLL_S = 1.0
AGAIN_S = 5.0  # kubectl's pause after 429
_AT_ONCE = 16
_GONE = 404
_CONFLICT = 409
_BUDGET = 429


@dataclass
class Clearing:
    """How far the pods are: `waiting` are those that are not gone yet, and why, where that is
    known.
    """

    waiting: dict[PodAt, str]
    failed: dict[PodAt, str] = field(default_factory=dict)
    gone: int = 0


Ask = Callable[[Member, PodAt], Awaitable[str]]
Tell = Callable[[str], None]


async def clear(
    members: Mapping[str, Member], pods: Iterable[PodAt], ask: Ask, tell: Tell, timeout_s: float
) -> Clearing:
    """Ask each pod to go, until all are gone or `timeout_s` is over; `tell` gets a line whenever
    the count changes.
    """
    state = Clearing(dict.fromkeys(pods, ""))
    deadline = time.monotonic() + timeout_s
    asked: dict[PodAt, float] = {}  # when to ask again; infinity: it was told to go
    shown = -1
    while state.waiting and time.monotonic() < deadline:
        now = time.monotonic()
        due = [pod for pod in state.waiting if asked.get(pod, 0.0) <= now]
        for pod, why in zip(due, await _all_of(members, due, ask), strict=True):
            _note(state, asked, pod, why, now)
        await _look(members, state)
        if state.gone != shown:
            shown = state.gone
            tell(f"{state.gone} gone, {len(state.waiting)} to go")
        if state.waiting:
            await asyncio.sleep(POLL_S)
    return state


async def evict(member: Member, pod: PodAt) -> str:
    """Ask for the eviction of one pod; "" if it goes, or why not yet. MemberError if it never will."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return await _going(member.call("POST", f"{pod.path}/eviction", body))


async def delete(member: Member, pod: PodAt) -> str:
    """Delete one pod, exactly this one; as `evict`."""
    return await _going(member.call("DELETE", pod.path, delete_options(pod.uid)))


async def let_go(member: Member, pod: PodAt) -> str:
    """Ask nothing of a pod that the dispatcher lets go; one that has ended stays in its list unless
    it is deleted.
    """
    return await delete(member, pod) if pod.ended else ""


async def _going(call: Awaitable[object]) -> str:
    try:
        await call
    except MemberError as error:
        if error.status in (_GONE, _CONFLICT):
            return ""
        if error.status == _BUDGET or not error.status:
            return str(error)
        raise
    return ""


async def _all_of(
    members: Mapping[str, Member], due: list[PodAt], ask: Ask
) -> list[str | MemberError]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: PodAt) -> str | MemberError:
        async with room:
            try:
                return await ask(members[pod.cluster], pod)
            except MemberError as error:
                return error

    return await asyncio.gather(*map(one, due))


def _note(
    state: Clearing, asked: dict[PodAt, float], pod: PodAt, why: str | MemberError, now: float
) -> None:
    if isinstance(why, MemberError):
        state.failed[pod] = str(why)
        del state.waiting[pod]
        return
    state.waiting[pod] = why
    asked[pod] = now + AGAIN_S if why else float("inf")


async def _look(members: Mapping[str, Member], state: Clearing) -> None:
    """Which of those that wait are gone; a cluster that does not answer is asked again later."""
    for cluster, node in sorted({(pod.cluster, pod.node) for pod in state.waiting}):
        try:
            found = await members[cluster].items(
                "/api/v1/pods", fieldSelector=f"spec.nodeName={node}"
            )
        except MemberError:
            continue
        there = {pod["metadata"]["uid"] for pod in found}
        looked = [one for one in state.waiting if (one.cluster, one.node) == (cluster, node)]
        for pod in [one for one in looked if one.uid not in there]:
            del state.waiting[pod]
            state.gone += 1
