"""Pods that are members of groups, and the PodGroups that define some of these: of which group each
pod is told to be, and which of those without a place wait for it, and why.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from agents.observer.seen import GroupMark, GroupSeen, PodSeen
from shared.model.group_kinds import OBJECTS, POD_GROUPS
from shared.model.pod import Group, Pod

MAX_SHOWN = 63
MAX_PROBLEM = 300  # characters, as of other problems
MISSING = (
    "is missing, or the agent may not list {}; make the group, and the pod goes on, or make the "
    "pod anew without this field"
)
# Of other APIs, which are served only where somebody has installed them.
NOT_THERE = (
    "is missing, or this cluster does not serve {}, or the agent may not list them; make the "
    "group, and the pod goes on, or take this mark off"
)
_Key = tuple[str, str, str]  # of a group: its kind, namespace and name


class _Members(msgspec.Struct):
    """Pods of one group by their UIDs; `said`: those that wait, by what they say of a group that
    its members define.
    """

    seen: dict[str, PodSeen] = {}
    said: dict[Group, dict[str, PodSeen]] = {}


class PodGroups:
    """Who is judged by which group. A pod whose group holds it back has that as a problem.

    Groups that members define hold those without a place while these say different things of it: at
    which number of members they start would rest on which of them came first.
    """

    def __init__(self) -> None:
        self._defined: dict[_Key, GroupSeen] = {}
        self._members: dict[_Key, _Members] = {}
        self._of: dict[str, PodSeen] = {}  # members as they were judged last, by UID
        # not a dict: that is slow to find its first entry after many first ones were taken out
        self._again: OrderedDict[str, PodSeen] = OrderedDict()

    def put(self, seen: GroupSeen) -> None:
        """A group as it is now: its pods are to be judged anew."""
        key = (seen.kind, seen.namespace, seen.name)
        before = self._defined.get(key)
        self._defined[key] = seen
        if before is None or _definition(before) != _definition(seen):
            self._judge_anew(key)

    def drop(self, kind: str, name: str) -> None:
        """The group of this namespace/name is gone: its pods are to be judged anew."""
        namespace, _, name = name.partition("/")
        key = (kind, namespace, name)
        if self._defined.pop(key, None) is not None:
            self._judge_anew(key)

    def judged(self, seen: PodSeen) -> Pod | None:
        """The pod with its group, and with why it waits for that. Others of the group may have to
        be judged anew then (`next_again`).
        """
        pod = seen.pod
        self._move(seen.uid, seen if pod is not None and seen.marks else None)
        return self._with_group(pod, seen.marks) if pod is not None and seen.marks else pod

    def forget_pod(self, uid: str) -> None:
        """The pod is gone."""
        self._move(uid, None)

    def next_again(self) -> PodSeen | None:
        """A pod that is to be judged anew since its group, or others of it, came, changed or went."""
        return next(iter(self._again.values()), None)

    def _judge_anew(self, key: _Key) -> None:
        members = self._members.get(key)
        self._again.update(members.seen if members is not None else {})

    # --- who is a member
    # ----------------------------------------------------------------------------------------------

    def _move(self, uid: str, seen: PodSeen | None) -> None:
        before = self._of.get(uid)
        if before is None and seen is None:
            self._again.pop(uid, None)
            return
        touched = {key for one in (before, seen) if one is not None for key in _keys(one)}
        held = {key: self._holds_all(key) for key in touched}
        if before is not None:
            self._take_out(before)
        if seen is not None:
            self._put_in(seen)
        for key, was in held.items():
            if self._holds_all(key) != was:
                self._judge_anew(key)
        self._again.pop(uid, None)

    def _holds_all(self, key: _Key) -> bool:
        """Whether the group holds its members for what they are together."""
        members = self._members.get(key)
        return members is not None and (len(members.said) > 1 or self._is_beyond(key))

    def _is_beyond(self, key: _Key) -> bool:
        """Whether a group that is right only as a whole has more members than start together."""
        defined = self._defined.get(key)
        if defined is None or defined.group is None or not defined.of_all:
            return False
        members = self._members.get(key)
        return members is not None and len(members.seen) > defined.group.min_count

    def _put_in(self, seen: PodSeen) -> None:
        self._of[seen.uid] = seen
        for key, group in _keys(seen).items():
            members = self._members.setdefault(key, _Members())
            members.seen[seen.uid] = seen
            if _says(seen, key):
                members.said.setdefault(group, {})[seen.uid] = seen

    def _take_out(self, seen: PodSeen) -> None:
        del self._of[seen.uid]
        for key, group in _keys(seen).items():
            members = self._members[key]
            del members.seen[seen.uid]
            if _says(seen, key):
                del members.said[group][seen.uid]
                if not members.said[group]:
                    del members.said[group]
            if not members.seen:
                del self._members[key]

    # --- what is told of one
    # ----------------------------------------------------------------------------------------------

    def _with_group(self, pod: Pod, marks: Sequence[GroupMark]) -> Pod:
        found = [self._found(pod, mark) for mark in marks]
        groups = [one for one in found if one is not None]
        if not groups:
            return msgspec.structs.replace(pod, group=None)
        mark, why = groups[0]
        if len(groups) > 1:
            other = groups[1][0]
            why = (
                f"{mark.field}: names group {mark.group.name[:MAX_SHOWN]!r}, and {other.field} "
                f"group {other.group.name[:MAX_SHOWN]!r}; a pod is of one group, remove one of both"
            )
        waits = why and _waits(pod)
        problems = (*pod.problems, why[:MAX_PROBLEM]) if waits else pod.problems
        return msgspec.structs.replace(pod, group=mark.group, problems=problems)

    def _found(self, pod: Pod, mark: GroupMark) -> tuple[GroupMark, str] | None:
        """The mark with all that is known of its group, and why the pod waits for that; None: each
        of its pods is placed as any other.
        """
        key = _key(pod.namespace, mark)
        if mark.group.kind not in OBJECTS:
            return mark, self._disagreement(pod, mark, self._members[key])
        defined = self._defined.get(key)
        about = f"{mark.field}: PodGroup {mark.group.name[:MAX_SHOWN]!r}"
        if defined is None:
            words = MISSING if mark.group.kind == POD_GROUPS else NOT_THERE
            return mark, f"{about} {words.format(mark.group.kind)}"
        if defined.holds:
            return mark, f"{about} {defined.holds}"
        if defined.group is None:
            return None
        why = f"{about} {defined.of_all}" if self._is_beyond(key) else ""
        return GroupMark(mark.field, defined.group), why

    def _disagreement(self, pod: Pod, mark: GroupMark, members: _Members) -> str:
        own = mark.group
        other = next((one for one in members.said if one != own), None)
        if other is None:
            return ""
        named = next(iter(members.said[other].values())).pod
        assert named is not None  # noqa: S101 - who says something is a pod
        differ = [
            f"{what} {mine} here and {theirs} of pod {named.name[:MAX_SHOWN]!r}"
            for what, mine, theirs in (
                ("the least number", own.min_count, other.min_count),
                ("the domain", own.within[:MAX_SHOWN], other.within[:MAX_SHOWN]),
            )
            if mine != theirs
        ]
        return (
            f"{mark.field}: members of group {own.name[:MAX_SHOWN]!r} do not agree: "
            f"{', '.join(differ)}; write the same on all"
        )


def _definition(seen: GroupSeen) -> tuple[Group | None, str, str]:
    return seen.group, seen.holds, seen.of_all


def _key(namespace: str, mark: GroupMark) -> _Key:
    return mark.group.kind, namespace, mark.group.name


def _keys(seen: PodSeen) -> dict[_Key, Group]:
    pod = seen.pod
    return {_key(pod.namespace, mark): mark.group for mark in seen.marks} if pod is not None else {}


def _waits(pod: Pod) -> bool:
    return not (pod.node or pod.claim is not None or pod.terminating or pod.terminal)


def _says(seen: PodSeen, key: _Key) -> bool:
    """Whether what the pod says of this group counts."""
    return key[0] not in OBJECTS and seen.pod is not None and _waits(seen.pod)
