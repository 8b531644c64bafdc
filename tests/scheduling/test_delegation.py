"""The delegate protocol: every situation has one next step."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dispatcher.model.names import proxy_node_name
from dispatcher.model.pod import Claim, Pod
from dispatcher.scheduling.delegation.protocol import Next, Situation, Step, next_step

BOTH = frozenset(("east", "west"))
PENDING = Pod("u1", "default", "web-1", scheduler_name="global-dispatcher")
CLAIMED = msgspec.structs.replace(PENDING, claim=Claim("west", "w1", 5), has_finalizer=True)
REMOTE = msgspec.structs.replace(CLAIMED, node=proxy_node_name("west"))
ENDING = msgspec.structs.replace(REMOTE, terminating=True)
DELEGATE = Pod("d1", "default", "web-1-abc", node="w1", phase="Running", status=b"{}")
DYING = msgspec.structs.replace(DELEGATE, terminating=True)
DONE = msgspec.structs.replace(DELEGATE, phase="Succeeded", status=b"done")


def seen(source: Pod | None, west: Pod | None = None, **more: Any) -> Situation:
    delegates = {} if west is None else {"west": west}
    return replace(Situation("east", source, delegates, reachable=BOTH), **more)


GONE: dict[str, Any] = {"delegate_gone": frozenset(("west",))}
WEST_LOST: dict[str, Any] = {"reachable": frozenset(("east",))}
EAST_LOST: dict[str, Any] = {"reachable": frozenset(("west",))}


@pytest.mark.parametrize(
    ("situation", "want"),
    [
        pytest.param(seen(PENDING), Step.QUEUE, id="a fresh pod wants a place"),
        pytest.param(seen(msgspec.structs.replace(PENDING, node="e1")), Step.NOTHING, id="a local pod runs"),
        pytest.param(seen(msgspec.structs.replace(PENDING, terminating=True)), Step.NOTHING, id="a fresh pod goes"),
        pytest.param(seen(CLAIMED), Step.RESUME, id="a claim without a delegate goes on"),
        pytest.param(seen(CLAIMED, **WEST_LOST), Step.NOTHING, id="a claim waits for its cluster"),
        pytest.param(seen(CLAIMED, msgspec.structs.replace(DELEGATE, node="")), Step.RESUME, id="an unbound delegate"),
        pytest.param(seen(CLAIMED, DELEGATE), Step.BIND_PROXY, id="a bound delegate, the source not yet"),
        pytest.param(seen(CLAIMED, DYING), Step.NOTHING, id="a dying delegate is waited for"),
        pytest.param(seen(REMOTE, DELEGATE), Step.MIRROR, id="a new status is mirrored"),
        pytest.param(seen(REMOTE, DELEGATE, mirrored=b"{}"), Step.NOTHING, id="a mirrored status rests"),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, ready=True), DELEGATE, mirrored=b"{}"),
            Step.MIRROR,
            id="a readiness that somebody else wrote is mirrored again",
        ),
        pytest.param(seen(REMOTE, DONE), Step.MIRROR, id="the end is mirrored"),
        pytest.param(
            seen(REMOTE, DYING), Step.DELETE_SOURCE, id="a delegate that is drained or evicted takes its source"
        ),
        pytest.param(
            seen(REMOTE, msgspec.structs.replace(DONE, terminating=True)),
            Step.MIRROR,
            id="an ended delegate is mirrored",
        ),
        pytest.param(seen(REMOTE), Step.NOTHING, id="a delegate not seen yet is not gone"),
        pytest.param(seen(REMOTE, **GONE), Step.FINISH, id="a delegate that is gone takes its source"),
        pytest.param(seen(REMOTE, **GONE, **EAST_LOST), Step.NOTHING, id="a lost home is waited for"),
        pytest.param(seen(ENDING, DELEGATE), Step.DELETE_DELEGATE, id="a deleted source ends its delegate"),
        pytest.param(seen(ENDING, DYING), Step.NOTHING, id="the delegate is ending"),
        pytest.param(seen(ENDING), Step.NOTHING, id="a deleted source waits for proof"),
        pytest.param(seen(ENDING, **GONE), Step.FINISH, id="a deleted source is let go"),
        pytest.param(seen(ENDING, DELEGATE, **WEST_LOST), Step.NOTHING, id="a deleted source waits for a lost cluster"),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, phase="Failed"), DELEGATE),
            Step.DELETE_DELEGATE,
            id="a source that failed by itself ends its delegate",
        ),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, phase="Succeeded"), **GONE),
            Step.FINISH,
            id="an ended source loses its finalizer",
        ),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, phase="Succeeded"), DONE, mirrored=b"done"),
            Step.NOTHING,
            id="an ended pair stays for its logs",
        ),
        pytest.param(seen(PENDING, DELEGATE), Step.DELETE_DELEGATE, id="a delegate that nobody claimed goes"),
        pytest.param(seen(PENDING, DELEGATE, home_settled=False), Step.NOTHING, id="a claim may be unseen yet"),
        pytest.param(seen(PENDING, DYING), Step.HOLD, id="a pod whose stray still dies has no other place"),
        pytest.param(seen(PENDING, DELEGATE, **WEST_LOST), Step.HOLD, id="nor one whose stray is out of reach"),
        pytest.param(
            seen(PENDING, msgspec.structs.replace(DYING, phase="Failed")),
            Step.QUEUE,
            id="an ended stray holds nobody up",
        ),
        pytest.param(
            seen(PENDING, msgspec.structs.replace(DYING, node="")), Step.QUEUE, id="nor does one that never ran"
        ),
        pytest.param(
            replace(seen(CLAIMED), delegates={"north": DYING}), Step.HOLD, id="a claim waits for a stray elsewhere"
        ),
        pytest.param(
            replace(seen(CLAIMED), delegates={"north": DYING, "west": DELEGATE}),
            Step.BIND_PROXY,
            id="what runs already is bound, whatever is stray",
        ),
        pytest.param(
            replace(seen(ENDING, **GONE), delegates={"north": DYING}), Step.FINISH, id="a stray keeps no deleted source"
        ),
        pytest.param(
            seen(msgspec.structs.replace(CLAIMED, node="e1"), DELEGATE),
            Step.DELETE_DELEGATE,
            id="a source bound elsewhere by hand",
        ),
        pytest.param(seen(None, DELEGATE), Step.NOTHING, id="a source not seen is not gone"),
        pytest.param(seen(None, DELEGATE, source_gone=True), Step.DELETE_DELEGATE, id="an orphan is collected"),
        pytest.param(seen(None, DYING, source_gone=True), Step.NOTHING, id="a dying orphan is waited for"),
        pytest.param(seen(None, DELEGATE, source_gone=True, **WEST_LOST), Step.NOTHING, id="an orphan out of reach"),
    ],
)
def test_next_step(situation: Situation, want: Step) -> None:
    assert next_step(situation).step is want


def test_steps_in_another_cluster_name_it() -> None:
    assert next_step(seen(ENDING, DELEGATE)) == Next(Step.DELETE_DELEGATE, "west")
    assert next_step(seen(CLAIMED, DELEGATE)) == Next(Step.BIND_PROXY, "west")
