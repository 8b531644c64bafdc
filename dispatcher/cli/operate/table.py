"""What each of `global-dispatcher cluster ...` does, and how it is told before and when it is
interrupted.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from dispatcher.cli.operate import actions, words
from dispatcher.cli.operate.actions import Errand
from dispatcher.cli.options import DEFAULT_SERVER
from dispatcher.cli.output import Output


class Wish(NamedTuple):
    """What was asked for on the command line."""

    action: str
    cluster: str
    config: Path
    yes: bool
    dry_run: bool
    output: Output
    timeout_s: float = 600.0
    force: bool = False
    lost: bool = False
    server: str = DEFAULT_SERVER

    @property
    def does(self) -> "Action":
        """Its row in ACTIONS."""
        return ACTIONS["leave --lost" if self.lost else self.action]


class Action(NamedTuple):
    """One command."""

    do: Callable[[Errand], Awaitable[None]]
    # what it will do; {name}, {pods}, {copies}, {gone}: what becomes of pods without a controller
    will: str
    whole: bool = False  # whether it looks at the cluster itself and at all that is left
    evicts: bool = False
    itself: bool = False  # whether it is about that cluster alone
    look: Callable[[Errand], Awaitable[None]] | None = None  # what else to look at first
    proxies: bool = True  # whether it writes on proxy nodes
    # the command for a cluster that is alive, where this one is for dead clusters
    instead: str = ""
    # when it is interrupted; {name}, {asked} pods
    stays: str = "what was written stays; repeat the command"
    # of clusters whose agents are {silent}; {name}
    unseen: str = "nothing changes there until {silent} answers and the command is repeated"


_CORDON = "no new pods of other clusters go to {name}; what runs there stays ({pods} pods)"
_DRAIN = "{name} is cordoned, and {pods} pods that run there are evicted"
_FENCE = (
    "you say that nothing runs in {name} any more: its {pods} pods are let go, and those with a "
    "controller are "
    "replaced elsewhere{gone}. If they run on all the same, they run twice"
)
_LEAVE = (
    "{name} is cordoned both ways, and {pods} pods that went there, or came from there, are evicted"
)
_LOST = (
    "you say that nothing runs in {name} any more and that it never comes back: {pods} pods that "
    "went there are "
    "let go, and those with a controller are replaced elsewhere{gone}; {copies} copies of its own "
    "pods in other "
    "clusters are deleted"
)
_CONFIRM = (
    "you say that what {name} shows since it was restored is meant ({pods} pods of its own in "
    "other clusters, {copies} "
    "copies of theirs): what is missing there is gone. Copies elsewhere of pods that it lacks are "
    "deleted, and pods "
    "elsewhere are let go whose copies it lacks"
)
_UNCONFIRMED = (
    "nothing is confirmed. While its agent holds the API server to be restored "
    "(api.restored_hold_s from the last step "
    "back on), nothing that is missing there counts as gone; repeat the command when {silent} "
    "answers"
)
_FORGET = (
    "the other clusters forget the keys of {name} and believe the next ones that they hear of it: "
    "its agent must run "
    "with its new key already, and it alone: {name} signs with that from then on. What the old "
    "key has signed counts "
    "for nothing there"
)
_EVICTED = (
    "the cordon and {asked} evictions asked for stay; repeat the command, or `cluster uncordon "
    "{name}`"
)
_LET_GO = (
    "the fence and {asked} deletions asked for stay; repeat the command, or `cluster unfence "
    "{name}`"
)
ACTIONS = {
    "confirm": Action(actions.confirm, _CONFIRM, itself=True, proxies=False, unseen=_UNCONFIRMED),
    "forget-keys": Action(actions.forget_keys, _FORGET, look=actions.look_at_keys, proxies=False),
    "cordon": Action(lambda errand: actions.say_everywhere(errand, words.CORDON), _CORDON),
    "uncordon": Action(
        actions.uncordon, "pods may go to {name} again", look=actions.look_at_closed
    ),
    "drain": Action(actions.drain, _DRAIN, evicts=True, stays=_EVICTED),
    "fence": Action(
        lambda errand: actions.say_everywhere(errand, words.FENCE), _FENCE, instead="drain"
    ),
    "unfence": Action(
        lambda errand: actions.say_everywhere(errand, words.UNFENCE),
        "what runs in {name} counts again; where it is cordoned it stays so until `cluster "
        "uncordon {name}`",
    ),
    "leave": Action(actions.leave, _LEAVE, whole=True, evicts=True, stays=_EVICTED),
    "leave --lost": Action(actions.leave_lost, _LOST, whole=True, instead="leave", stays=_LET_GO),
}
