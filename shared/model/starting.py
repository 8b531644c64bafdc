"""Whether the containers of a pod have ever run, as the status says that its kubelet has written."""

from typing import Any, NamedTuple

import msgspec

from shared.model.delegate_events import events_of
from shared.model.pod import PENDING

_MOST_WORDS = 300  # characters of what a kubelet says
_CREATING = (
    "ContainerCreating",
    "PodInitializing",
)  # what it says of each container before anything has failed
_SANDBOX = "PodReadyToStartContainers"


class NotStarted(NamedTuple):
    """None of a pod's containers has ever run.

    `why`: what they wait for, as `CreateContainerConfigError: secret "token" not found`. `pulls`:
    images are pulled, since sandbox, network and volumes are there and nothing failed. `failed`:
    its kubelet says that something did, by a container or a Warning event; kubelets before 1.36
    show what `pulls` is read from only once images are there.
    """

    why: str
    pulls: bool
    failed: bool


class _Waiting(msgspec.Struct, gc=False):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None

    @property
    def ran(self) -> bool:
        return self.running is not None or self.terminated is not None


_NO_STATE = _State()


class _Container(msgspec.Struct, gc=False, rename="camel"):
    state: _State = _NO_STATE
    last_state: _State = _NO_STATE
    restart_count: int = 0
    started: bool | None = None

    @property
    def ran(self) -> bool:
        return (
            self.state.ran or self.last_state.ran or self.restart_count != 0 or self.started is True
        )


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None
    ephemeral_container_statuses: list[_Container] | None = None


_decode = msgspec.json.Decoder(_Status).decode


def not_started(status: bytes) -> NotStarted | None:
    """What is known of a pod of which no container has ever run; None where one has, or its kubelet
    does not say.
    """
    try:
        read = _decode(status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    own = read.container_statuses or []
    first = read.init_container_statuses or []
    if read.phase != PENDING or not own or any(one.ran for one in (*first, *own)):
        return None
    if any(one.ran for one in read.ephemeral_container_statuses or ()):
        return None
    waiting = [one.state.waiting for one in (*first, *own) if one.state.waiting is not None]
    if not waiting:
        return None
    # What is wrong with one of them, before that the others wait for it.
    worst = max(waiting, key=lambda one: (bool(one.message), one.reason not in _CREATING))
    if worst.message or worst.reason not in _CREATING:
        return NotStarted(
            _words(worst.reason or "waiting", worst.message), pulls=False, failed=True
        )
    if any(one.type == _SANDBOX and one.status == "True" for one in read.conditions or ()):
        return NotStarted(worst.reason, pulls=True, failed=False)
    events = events_of(status)
    why = _words(events[-1].reason, events[-1].message) if events else worst.reason
    return NotStarted(why, pulls=False, failed=bool(events))


def _words(*said: str) -> str:
    return ": ".join(filter(None, said))[:_MOST_WORDS]
