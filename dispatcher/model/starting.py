"""Whether the containers of a pod have ever run, as the status says that its kubelet has written."""

from typing import Any

import msgspec

from dispatcher.model.pod import PENDING

_MOST_WORDS = 300  # characters of what a kubelet says


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
        return self.state.ran or self.last_state.ran or self.restart_count != 0 or self.started is True


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None
    ephemeral_container_statuses: list[_Container] | None = None


_decode = msgspec.json.Decoder(_Status).decode


def why_not_started(status: bytes) -> str:
    """What the containers of a pod wait for of which none has ever run; '' where one has, or its kubelet does not say.

    Example: 'CreateContainerConfigError: secret "token" not found'.
    """
    try:
        read = _decode(status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    own, first = read.container_statuses or [], read.init_container_statuses or []
    if read.phase != PENDING or not own or any(one.ran for one in (*first, *own)):
        return ""
    if any(one.ran for one in read.ephemeral_container_statuses or ()):
        return ""
    waiting = [one.state.waiting for one in (*first, *own) if one.state.waiting is not None]
    if not waiting:
        return ""
    # What is wrong with one of them, before that the others wait for it.
    worst = max(
        waiting, key=lambda one: (bool(one.message), one.reason not in ("ContainerCreating", "PodInitializing"))
    )
    return ": ".join(filter(None, (worst.reason or "waiting", worst.message)))[:_MOST_WORDS]
