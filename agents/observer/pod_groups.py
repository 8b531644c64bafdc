"""PodGroups of a cluster, and its pods that name one and have no place yet: whether these wait, and
why.
"""

from collections.abc import Sequence

import msgspec

from agents.observer.seen import PodSeen
from shared.model.pod import Pod

MAX_SHOWN = 63
MAX_PROBLEM = 300  # characters, as of other problems
MISSING = (
    "is missing, or the agent may not list podgroups.scheduling.k8s.io; make the group, and the "
    "pod goes on, "
    "or make the pod anew without this field"
)


class PodGroups:
    """Who is judged by which group. A pod whose group holds it back has that as a problem."""

    def __init__(self) -> None:
        self._holds: dict[str, str] = {}  # by namespace/name
        self._members: dict[str, dict[str, PodSeen]] = {}  # by namespace/name of the group, and UID
        self._group_of: dict[str, str] = {}  # by UID of the member

    def put(self, key: str, holds: str | None) -> Sequence[PodSeen]:
        """A group as it is now, None: it is gone. The pods to be judged anew."""
        if holds == self._holds.get(key):
            return ()
        if holds is None:
            del self._holds[key]
        else:
            self._holds[key] = holds
        return list(self._members.get(key, {}).values())

    def judged(self, seen: PodSeen) -> Pod | None:
        """The pod, with why it waits for its group."""
        self.forget_pod(seen.uid)
        pod = seen.pod
        if pod is None or not seen.group:
            return pod
        key = f"{pod.namespace}/{seen.group}"
        self._group_of[seen.uid] = key
        self._members.setdefault(key, {})[seen.uid] = seen
        holds = self._holds.get(key, MISSING)
        if not holds:
            return pod
        problem = f"spec.schedulingGroup: PodGroup {seen.group[:MAX_SHOWN]!r} {holds}"
        return msgspec.structs.replace(pod, problems=(*pod.problems, problem[:MAX_PROBLEM]))

    def forget_pod(self, uid: str) -> None:
        """The pod is gone, or no member any more."""
        key = self._group_of.pop(uid, None)
        if key is None:
            return
        members = self._members[key]
        del members[uid]
        if not members:
            del self._members[key]
