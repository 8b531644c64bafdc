"""The delegate protocol: every situation has one next step."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dispatcher.scheduling.delegation.protocol import NextStep, ObservedState, Step, generation_seen, next_step
from shared.messages import DELETING
from shared.model.names import proxy_node_name
from shared.model.pod import Claim, Pod

BOTH = frozenset(("east", "west"))
PENDING = Pod("u1", "default", "web-1", scheduler_name="global-dispatcher")
CLAIMED = msgspec.structs.replace(PENDING, claim=Claim("west", "w1", 5), has_finalizer=True)
REMOTE = msgspec.structs.replace(CLAIMED, node=proxy_node_name("west"))
SHOWN = msgspec.structs.replace(REMOTE, phase="Running")
ENDING = msgspec.structs.replace(REMOTE, terminating=True)
DELEGATE = Pod("d1", "default", "web-1-abc", node="w1", phase="Running", status=b"{}")
DYING = msgspec.structs.replace(DELEGATE, terminating=True)
DONE = msgspec.structs.replace(DELEGATE, phase="Succeeded", status=b"done")


def seen(source: Pod | None, west: Pod | None = None, **more: Any) -> ObservedState:
    delegates = {} if west is None else {"west": west}
    return replace(ObservedState("east", source, delegates, reachable=BOTH), **more)


def told(pod: Pod, files: str) -> Pod:
    return msgspec.structs.replace(pod, files=files)


def changed(pod: Pod, live: str) -> Pod:
    return msgspec.structs.replace(pod, live=live)


def counted(pod: Pod, generation: int, live: str = "2a.1a", **more: Any) -> Pod:
    return msgspec.structs.replace(pod, generation=generation, live=live, **more)


@pytest.mark.parametrize(
    ("source", "delegate", "want"),
    [
        pytest.param(counted(SHOWN, 2), counted(DELEGATE, 7), 2, id="as home counts it"),
        pytest.param(counted(SHOWN, 2), counted(DELEGATE, 0), 0, id="its kubelet has not seen it yet"),
        pytest.param(counted(SHOWN, 0), counted(DELEGATE, 7), 0, id="home counts none"),
        pytest.param(counted(SHOWN, 3, "2b.1b"), counted(DELEGATE, 7), 0, id="a change has not reached it"),
        pytest.param(counted(SHOWN, 3, "2b.1b"), counted(DELEGATE, 8, "2b.1b"), 3, id="and has"),
        pytest.param(counted(SHOWN, 3, "2b.1a"), counted(DELEGATE, 8, "1a"), 3, id="by the format that both tell"),
        pytest.param(counted(SHOWN, 3, "2b"), counted(DELEGATE, 8, "1a"), 0, id="there is none"),
        pytest.param(counted(SHOWN, 3, ""), counted(DELEGATE, 8, ""), 0, id="nothing follows"),
        pytest.param(counted(SHOWN, 3, "2-.1-"), counted(DELEGATE, 8), 0, id="what home has now may not cross"),
        pytest.param(counted(SHOWN, 3, terminating=True), counted(DELEGATE, 7), 0, id="a deletion is one, too"),
        pytest.param(
            counted(SHOWN, 3, terminating=True), counted(DELEGATE, 8, terminating=True), 3, id="which reached it"
        ),
    ],
)
def test_a_generation_of_home_is_seen_once_the_kubelet_there_has_seen_all_of_it(
    source: Pod, delegate: Pod, want: int
) -> None:
    assert generation_seen(source, delegate) == want


GONE: dict[str, Any] = {"absent": frozenset(("west",))}
ENDED: dict[str, Any] = {"ended": {"west": "Succeeded"}}
FAILED: dict[str, Any] = {"ended": {"west": "Failed"}}
GOING: dict[str, Any] = {"ended": {"west": DELETING}}
MISSING: dict[str, Any] = {"missing": frozenset(("west",))}
WEST_RESTORED: dict[str, Any] = {"restored": frozenset(("west",))}
EAST_RESTORED: dict[str, Any] = {"restored": frozenset(("east",))}
STRIPPED = msgspec.structs.replace(REMOTE, claim=None)
BY_HAND = msgspec.structs.replace(STRIPPED, has_finalizer=False)
AT_HOME = msgspec.structs.replace(BY_HAND, at_home=True)
WEST_LOST: dict[str, Any] = {"reachable": frozenset(("east",))}
FENCED: dict[str, Any] = {"fenced": frozenset(("west",))}
FENCED_LOST: dict[str, Any] = {**FENCED, "reachable": frozenset(("east", "north"))}
EAST_LOST: dict[str, Any] = {"reachable": frozenset(("west",))}


@pytest.mark.parametrize(
    ("situation", "want"),
    [
        pytest.param(seen(PENDING), Step.QUEUE, id="a fresh pod wants a place"),
        pytest.param(seen(msgspec.structs.replace(PENDING, node="e1")), Step.NOTHING, id="a local pod runs"),
        pytest.param(seen(msgspec.structs.replace(PENDING, terminating=True)), Step.NOTHING, id="a fresh pod goes"),
        pytest.param(seen(AT_HOME), Step.NOTHING, id="a pod runs on a machine that is named as proxy nodes are"),
        pytest.param(seen(msgspec.structs.replace(AT_HOME, terminating=True)), Step.NOTHING, id="and goes from it"),
        pytest.param(seen(AT_HOME, DELEGATE), Step.DELETE_DELEGATE, id="beside which no copy belongs"),
        pytest.param(
            seen(msgspec.structs.replace(SHOWN, at_home=True), DELEGATE, mirrored=b"{}"),
            Step.NOTHING,
            id="a proxy node without its marks is no reason to give up what runs behind it",
        ),
        pytest.param(seen(CLAIMED, decided=True), Step.RESUME, id="a claim of ours without a delegate goes on"),
        pytest.param(seen(CLAIMED), Step.CONFIRM, id="one that we did not decide is asked about"),
        pytest.param(seen(CLAIMED, disproved=True), Step.UNCLAIM, id="and taken off once no delegate can come of it"),
        pytest.param(
            seen(CLAIMED, disproved=True, **WEST_LOST), Step.WAIT, id="but not while its cluster cannot be asked again"
        ),
        pytest.param(
            seen(CLAIMED, disproved=True, **WEST_RESTORED), Step.WAIT, id="nor on the word of a restored server"
        ),
        pytest.param(seen(CLAIMED, **GONE), Step.CONFIRM, id="nor because a delegate was seen to go"),
        pytest.param(seen(CLAIMED, **WEST_LOST), Step.WAIT, id="a claim waits for its cluster, and says so"),
        pytest.param(
            seen(CLAIMED, **WEST_LOST, untouched=True), Step.UNCLAIM, id="a claim whose target was never asked moves on"
        ),
        pytest.param(seen(CLAIMED, given_up=True), Step.UNCLAIM, id="a claim that was given up is no decision"),
        pytest.param(seen(CLAIMED, **WEST_LOST, given_up=True), Step.UNCLAIM, id="wherever it leads"),
        pytest.param(seen(CLAIMED, DELEGATE, given_up=True), Step.BIND_PROXY, id="what runs goes on all the same"),
        pytest.param(
            seen(CLAIMED, msgspec.structs.replace(DELEGATE, node=""), decided=True),
            Step.RESUME,
            id="an unbound delegate",
        ),
        pytest.param(
            seen(CLAIMED, msgspec.structs.replace(DELEGATE, node="")), Step.CONFIRM, id="which is not ours to finish"
        ),
        pytest.param(seen(CLAIMED, DELEGATE), Step.BIND_PROXY, id="a bound delegate, the source not yet"),
        pytest.param(seen(CLAIMED, DYING), Step.NOTHING, id="a dying delegate is waited for"),
        pytest.param(seen(REMOTE, DELEGATE), Step.MIRROR, id="a new status is mirrored"),
        pytest.param(seen(SHOWN, DELEGATE, mirrored=b"{}"), Step.NOTHING, id="a mirrored status rests"),
        pytest.param(seen(REMOTE, DELEGATE, paced=True), Step.NOTHING, id="one that follows too many waits"),
        pytest.param(seen(REMOTE, DONE, paced=True, **ENDED), Step.MIRROR, id="but not an end"),
        pytest.param(seen(REMOTE, DONE, paced=True), Step.CONFIRM_END, id="nor the question for it"),
        pytest.param(seen(REMOTE, DYING, paced=True, **GOING), Step.DELETE_SOURCE, id="nor a deletion"),
        pytest.param(seen(REMOTE, DELEGATE, mirrored=b"{}"), Step.MIRROR, id="an older phase is mirrored again"),
        pytest.param(
            seen(msgspec.structs.replace(SHOWN, ready=True), DELEGATE, mirrored=b"{}"),
            Step.MIRROR,
            id="a readiness that somebody else wrote is mirrored again",
        ),
        pytest.param(
            seen(told(SHOWN, "new"), told(DELEGATE, "old"), mirrored=b"{}"),
            Step.UPDATE,
            id="its files follow the source",
        ),
        pytest.param(
            seen(told(SHOWN, "new"), told(DELEGATE, "old"), mirrored=b""), Step.MIRROR, id="after its status is shown"
        ),
        pytest.param(
            seen(changed(SHOWN, "1a"), changed(DELEGATE, "1b"), mirrored=b"{}"),
            Step.UPDATE,
            id="what may change follows the source",
        ),
        pytest.param(
            seen(changed(SHOWN, "1-"), changed(DELEGATE, "1b"), mirrored=b"{}"),
            Step.UPDATE,
            id="and what may cross no more is refused at home",
        ),
        pytest.param(
            seen(changed(SHOWN, "1a"), changed(DELEGATE, "1a"), mirrored=b"{}"), Step.NOTHING, id="and rests as one"
        ),
        pytest.param(
            seen(changed(SHOWN, "1a"), DELEGATE, mirrored=b"{}"), Step.NOTHING, id="an older target is not asked"
        ),
        pytest.param(seen(SHOWN, changed(DELEGATE, "1a"), mirrored=b"{}"), Step.NOTHING, id="nor is an older home"),
        pytest.param(
            seen(changed(SHOWN, "2a"), changed(DELEGATE, "1a"), mirrored=b"{}"),
            Step.NOTHING,
            id="nor are those who tell in other formats",
        ),
        pytest.param(
            seen(told(SHOWN, "new"), told(DELEGATE, "new"), mirrored=b"{}"), Step.NOTHING, id="and rest once they do"
        ),
        pytest.param(
            seen(told(SHOWN, "new"), DELEGATE, mirrored=b"{}"), Step.NOTHING, id="an older agent there writes none"
        ),
        pytest.param(
            seen(SHOWN, told(DELEGATE, "old"), mirrored=b"{}"), Step.NOTHING, id="an older agent at home signs none"
        ),
        pytest.param(seen(REMOTE, DONE), Step.CONFIRM_END, id="whether a delegate has ended is asked"),
        pytest.param(
            seen(counted(SHOWN, 3), counted(DELEGATE, 8), mirrored=b"{}", generation=2),
            Step.MIRROR,
            id="a generation that was seen is shown",
        ),
        pytest.param(
            seen(counted(SHOWN, 3), counted(DELEGATE, 8), mirrored=b"{}", generation=3), Step.NOTHING, id="once"
        ),
        pytest.param(
            seen(counted(SHOWN, 3), counted(DELEGATE, 0), mirrored=b"{}", generation=2),
            Step.NOTHING,
            id="nothing is to be told of one that is awaited",
        ),
        pytest.param(seen(REMOTE, DONE, **ENDED), Step.MIRROR, id="the end is mirrored"),
        pytest.param(seen(REMOTE, DONE, **FAILED), Step.CONFIRM_END, id="not one that is another than was confirmed"),
        pytest.param(seen(REMOTE, DONE, **GOING), Step.CONFIRM_END, id="nor that of one that was to be deleted"),
        pytest.param(
            seen(REMOTE, msgspec.structs.replace(DONE, status=b'{"phase":"Failed"}'), **ENDED),
            Step.CONFIRM_END,
            id="nor one that its status says otherwise",
        ),
        pytest.param(seen(REMOTE, DELEGATE, **ENDED), Step.MIRROR, id="what is not final is mirrored as it is told"),
        pytest.param(seen(REMOTE, DYING), Step.CONFIRM_END, id="whether a delegate is being deleted is asked"),
        pytest.param(
            seen(REMOTE, DYING, **ENDED), Step.CONFIRM_END, id="one that has succeeded is not taken for a drained one"
        ),
        pytest.param(
            seen(REMOTE, DYING, **GOING),
            Step.DELETE_SOURCE,
            id="a delegate that is drained or evicted takes its source",
        ),
        pytest.param(
            seen(REMOTE, msgspec.structs.replace(DONE, terminating=True), **ENDED),
            Step.MIRROR,
            id="an ended delegate is mirrored",
        ),
        pytest.param(seen(REMOTE), Step.NOTHING, id="a delegate not seen yet is not gone"),
        pytest.param(seen(REMOTE, **MISSING), Step.CONFIRM, id="its API server is asked after a while"),
        pytest.param(seen(REMOTE, **GONE, **WEST_RESTORED), Step.NOTHING, id="a restored target proves nothing"),
        pytest.param(seen(REMOTE, DELEGATE, **WEST_LOST), Step.NOTHING, id="what a lost target last said is not news"),
        pytest.param(seen(STRIPPED, DELEGATE), Step.RESTORE, id="a claim that was taken off is restored"),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, has_finalizer=False), DELEGATE),
            Step.RESTORE,
            id="a finalizer that was taken off is restored",
        ),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, claim=Claim("north", "n1", 3)), DELEGATE),
            Step.RESTORE,
            id="an old claim of its own does not move a bound pod",
        ),
        pytest.param(seen(BY_HAND, **GONE), Step.NOTHING, id="a pod bound to a proxy node by hand is left alone"),
        pytest.param(
            seen(BY_HAND, mirrored=b"{}", **GONE), Step.FINISH, id="unless a delegate's status was written to it"
        ),
        pytest.param(
            seen(msgspec.structs.replace(PENDING, has_finalizer=True)),
            Step.UNCLAIM,
            id="marks without a claim are taken off",
        ),
        pytest.param(
            seen(msgspec.structs.replace(PENDING, has_finalizer=True), home_settled=False),
            Step.NOTHING,
            id="unless a claim may be unseen yet",
        ),
        pytest.param(
            seen(msgspec.structs.replace(CLAIMED, node="e1")), Step.UNCLAIM, id="a claimed pod bound at home is let go"
        ),
        pytest.param(seen(REMOTE, **GONE), Step.FINISH, id="a delegate that is gone takes its source"),
        pytest.param(seen(REMOTE, **GONE, **EAST_LOST), Step.NOTHING, id="a lost home is waited for"),
        pytest.param(seen(ENDING, DELEGATE), Step.DELETE_DELEGATE, id="a deleted source ends its delegate"),
        pytest.param(seen(ENDING, DYING), Step.NOTHING, id="the delegate is ending"),
        pytest.param(seen(ENDING), Step.COLLECT, id="a deleted source asks for proof"),
        pytest.param(seen(ENDING, **WEST_LOST), Step.NOTHING, id="a deleted source waits for proof"),
        pytest.param(seen(ENDING, **GONE, **WEST_RESTORED), Step.NOTHING, id="a restored target is no proof"),
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
        pytest.param(seen(PENDING, DELEGATE), Step.RESTORE, id="an unbound source is claimed again for what runs"),
        pytest.param(seen(PENDING, DONE), Step.RESTORE, id="or has run to its end"),
        pytest.param(seen(PENDING, DYING), Step.HOLD, id="a pod whose stray still dies has no other place"),
        pytest.param(seen(PENDING, DELEGATE, **WEST_LOST), Step.RESTORE, id="nor one whose stray is out of reach"),
        pytest.param(
            replace(seen(CLAIMED), delegates={"north": DELEGATE}),
            Step.COLLECT,
            id="a claim gives way to what runs elsewhere",
        ),
        pytest.param(
            replace(seen(CLAIMED, **GONE), delegates={"north": DELEGATE}),
            Step.UNCLAIM,
            id="once its own target has none",
        ),
        pytest.param(
            replace(seen(CLAIMED, **WEST_LOST), delegates={"north": DELEGATE}),
            Step.HOLD,
            id="and waits while that cannot be asked",
        ),
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
            replace(
                seen(REMOTE, reachable=frozenset(("east", "north", "west"))),
                delegates={"north": DELEGATE, "west": DELEGATE},
            ),
            Step.DELETE_DELEGATE,
            id="of two copies the one that the source is bound to stays",
        ),
        pytest.param(
            replace(
                seen(SHOWN, mirrored=b"{}", reachable=frozenset(("east", "north", "west")), **EAST_RESTORED),
                delegates={"north": DELEGATE, "west": DELEGATE},
            ),
            Step.NOTHING,
            id="a restored source decides of no copy",
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
        pytest.param(seen(None, DELEGATE, source_missing=True), Step.CONFIRM_SOURCE, id="its API server is asked"),
        pytest.param(
            seen(None, DELEGATE, source_gone=True, **EAST_RESTORED), Step.NOTHING, id="a restored home has no orphans"
        ),
        pytest.param(seen(None, DELEGATE, source_gone=True), Step.DELETE_DELEGATE, id="an orphan is collected"),
        pytest.param(seen(None, DYING, source_gone=True), Step.NOTHING, id="a dying orphan is waited for"),
        pytest.param(seen(None, DELEGATE, source_gone=True, **WEST_LOST), Step.NOTHING, id="an orphan out of reach"),
        pytest.param(seen(REMOTE, DELEGATE, **FENCED_LOST), Step.FINISH, id="a fence lets go of what was there"),
        pytest.param(seen(REMOTE, **FENCED_LOST), Step.FINISH, id="seen there or not"),
        pytest.param(
            seen(REMOTE, **FENCED_LOST, **WEST_RESTORED), Step.FINISH, id="whatever its API server went through"
        ),
        pytest.param(seen(ENDING, DELEGATE, **FENCED_LOST), Step.FINISH, id="a fence frees what waits to be deleted"),
        pytest.param(seen(REMOTE, DYING, **FENCED), Step.FINISH, id="and waits for no delegate that ends for ever"),
        pytest.param(
            seen(REMOTE, DELEGATE, **FENCED), Step.DELETE_DELEGATE, id="a copy that can be reached goes first"
        ),
        pytest.param(seen(CLAIMED, **FENCED_LOST), Step.UNCLAIM, id="a claim for a fenced cluster is taken back"),
        pytest.param(seen(CLAIMED, DELEGATE, **FENCED_LOST), Step.UNCLAIM, id="begun or not"),
        pytest.param(seen(CLAIMED, DELEGATE, **FENCED), Step.DELETE_DELEGATE, id="unless its delegate can be deleted"),
        pytest.param(seen(PENDING, DELEGATE, **FENCED_LOST), Step.QUEUE, id="a fenced copy holds no new place up"),
        pytest.param(
            seen(PENDING, DELEGATE, **FENCED), Step.DELETE_DELEGATE, id="one that comes back is deleted first"
        ),
        pytest.param(
            replace(
                seen(SHOWN, mirrored=b"{}", fenced=frozenset(("north",))), delegates={"west": DELEGATE, "north": DONE}
            ),
            Step.NOTHING,
            id="a fenced cluster out of reach keeps nobody busy",
        ),
        pytest.param(
            replace(
                seen(
                    REMOTE, mirrored=b"{}", reachable=frozenset(("east", "north", "west")), fenced=frozenset(("north",))
                ),
                delegates={"west": DELEGATE, "north": DELEGATE},
            ),
            Step.DELETE_DELEGATE,
            id="a copy in a fenced cluster that is back is deleted",
        ),
        pytest.param(
            replace(seen(CLAIMED, **FENCED_LOST), delegates={"north": DELEGATE}),
            Step.UNCLAIM,
            id="a claim for a fenced cluster gives way to what runs elsewhere",
        ),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, phase="Succeeded"), DONE, **FENCED),
            Step.FINISH,
            id="an ended pair there loses its finalizer",
        ),
        pytest.param(
            seen(msgspec.structs.replace(REMOTE, phase="Succeeded", has_finalizer=False), DONE, **FENCED),
            Step.NOTHING,
            id="and stays for its logs",
        ),
        pytest.param(
            seen(BY_HAND, **FENCED_LOST), Step.NOTHING, id="a fence is no word about pods that somebody else bound"
        ),
        pytest.param(
            seen(REMOTE, DELEGATE, **FENCED, **EAST_RESTORED), Step.DELETE_DELEGATE, id="the word is of today"
        ),
        pytest.param(
            seen(REMOTE, DELEGATE, fenced=frozenset(("west",)), **EAST_LOST),
            Step.NOTHING,
            id="a lost home is waited for still",
        ),
        pytest.param(seen(None, DELEGATE, **FENCED), Step.NOTHING, id="nor is a source gone because of a fence"),
    ],
)
def test_next_step(situation: ObservedState, want: Step) -> None:
    assert next_step(situation).step is want


def test_steps_in_another_cluster_name_it() -> None:
    assert next_step(seen(ENDING, DELEGATE)) == NextStep(Step.DELETE_DELEGATE, "west")
    assert next_step(seen(CLAIMED, DELEGATE)) == NextStep(Step.BIND_PROXY, "west")
