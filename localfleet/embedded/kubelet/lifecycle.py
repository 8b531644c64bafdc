"""The life of one pod on its node as a small state machine: what to write next, and when to look
again.

Starting -> Running -> (Waiting -> Running)* -> Ended; a deletion leads to Ended from anywhere. No
I/O: each step answers what the kubelet shall write. Resuming from a written status never starts a
pod twice.
"""

from enum import Enum
from math import inf
from typing import NamedTuple

from localfleet.embedded.kubelet import status
from localfleet.embedded.kubelet.behaviour import Behaviour
from localfleet.embedded.kubelet.references import Lack
from localfleet.embedded.kubelet.status import TERMINATED_BY_SIGNAL, Ending, Place
from localfleet.embedded.meta import (
    Object,
    annotations_of,
    is_finished,
    is_ready,
    is_terminating,
    seconds,
)
from shared.model.resources import Resources

_LONGEST_BACKOFF_S = 300.0


class Stage(Enum):
    """Where in its life a pod is."""

    STARTING, RUNNING, WAITING, ENDED = range(4)


class Step(NamedTuple):
    """What the kubelet shall do: write this status (None: nothing), then perhaps remove the pod
    (grace 0).
    """

    status: Object | None = None
    remove: bool = False


class PodRun:
    """One pod on one node. `due` is when `advance` wants to be called next (unix seconds, inf:
    never by itself).
    """

    def __init__(
        self, pod: Object, behaviour: Behaviour, requests: Resources, place: Place, now: float
    ) -> None:
        metadata = pod["metadata"]
        self.uid: str = metadata["uid"]
        self.namespace: str = metadata["namespace"]
        self.name: str = metadata["name"]
        self.node: str = pod["spec"]["nodeName"]
        self.behaviour = behaviour
        self.annotations = annotations_of(pod)
        self.requests = requests
        self.generation = pod["metadata"].get("generation")
        self.place = place
        self.stage = Stage.STARTING
        self.restarts = 0
        self.started = now
        self.last: Ending | None = None
        self.stopping = False
        self.lack: Lack | None = None
        self.due = now + behaviour.start_s
        self._resume(pod, now)

    @property
    def begins(self) -> bool:
        """Whether its containers are about to be started for the first time."""
        return self.stage is Stage.STARTING and not self.stopping

    @property
    def uses(self) -> bool:
        """Whether its containers run now."""
        return self.stage is Stage.RUNNING

    @property
    def holds(self) -> bool:
        """Whether it still takes room on its node."""
        return self.stage is not Stage.ENDED

    def reject(self) -> None:
        """Refused at admission: it never runs here."""
        self.stage = Stage.ENDED
        self.due = inf

    def observe(self, pod: Object, now: float) -> None:
        """Take note of what others wrote: a deletion, or an end that is not ours."""
        if is_terminating(pod) and not self.stopping:
            self.stopping = True
            deadline = seconds(pod["metadata"]["deletionTimestamp"])
            wait = self.behaviour.stop_s if self.stage is Stage.RUNNING else 0.0
            self.due = min(max(deadline, now), now + wait)
        elif self.stopping and self.stage is not Stage.ENDED:  # deleted again, maybe with less time
            self.due = min(self.due, max(seconds(pod["metadata"]["deletionTimestamp"]), now))
        elif is_finished(pod) and self.stage is not Stage.ENDED:
            self.stage = Stage.ENDED
            self.due = inf
        elif (
            self.stage is Stage.RUNNING
            and not self.stopping
            and (not is_ready(pod) or status.lacks_debug(pod))
        ):
            # The node controller doubted the node; its kubelet knows better. Never before a due
            # step.
            self.due = min(self.due, now)

    def advance(self, pod: Object, now: float, backoff_s: float) -> Step:
        """Do what is due. `backoff_s` is the first pause before a container is started again."""
        if self.stopping:
            return self._stop(pod, now)
        if self.stage is Stage.RUNNING:
            return self._while_running(pod, now, backoff_s)
        if self.stage is Stage.ENDED:
            self.due = inf
            return Step()
        if self.stage is Stage.WAITING:
            self.restarts += 1
        return self._run(pod, now)

    def _resume(self, pod: Object, now: float) -> None:
        if is_finished(pod):
            self.stage = Stage.ENDED
            self.due = inf
            return
        entries = pod.get("status", {}).get("containerStatuses") or [{}]
        self.restarts = int(entries[0].get("restartCount", 0))
        state = entries[0].get("state") or {}
        if "running" in state:
            self.stage, self.started = Stage.RUNNING, seconds(state["running"].get("startedAt"))
            self.due = self._end()
        elif (state.get("waiting") or {}).get("reason") in ("CrashLoopBackOff", "Completed"):
            self.stage = Stage.WAITING
            self.due = now

    def _end(self) -> float:
        return inf if self.behaviour.run_s is None else self.started + self.behaviour.run_s

    def _run(self, pod: Object, now: float) -> Step:
        self.stage = Stage.RUNNING
        self.started = now
        self.due = self._end()
        return Step(status.running(pod, self.place, now, restarts=self.restarts, last=self.last))

    def _while_running(self, pod: Object, now: float, backoff_s: float) -> Step:
        if now < self._end():
            self.due = self._end()
            return Step(
                status.running(
                    pod, self.place, self.started, restarts=self.restarts, last=self.last
                )
            )
        ending = Ending(self.behaviour.exit_code, self.started, now)
        if _restarts(pod["spec"].get("restartPolicy", "Always"), ending.exit_code):
            self.last = ending
            self.stage = Stage.WAITING
            self.due = now + _backoff(self.restarts, backoff_s)
            return Step(
                status.backing_off(pod, self.place, now, restarts=self.restarts, last=ending)
            )
        self.stage = Stage.ENDED
        self.due = inf
        return Step(status.finished(pod, self.place, now, restarts=self.restarts, ending=ending))

    def _stop(self, pod: Object, now: float) -> Step:
        was = self.stage
        self.stage = Stage.ENDED
        self.due = inf
        if was is Stage.ENDED:
            return Step(remove=True)
        began = self.started if was is Stage.RUNNING else now
        ending = Ending(TERMINATED_BY_SIGNAL, began, now)
        return Step(
            status.finished(pod, self.place, now, restarts=self.restarts, ending=ending),
            remove=True,
        )


def _restarts(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _backoff(restarts: int, first_s: float) -> float:
    return 0.0 if restarts == 0 else min(first_s * 2.0 ** min(restarts - 1, 16), _LONGEST_BACKOFF_S)
