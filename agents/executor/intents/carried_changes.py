"""UpdateDelegate: what changed of a source after it went is written onto its delegate.

The source's executor has signed the manifest as it is now. What differs in it from what reached the
delegate before (`live`) is written, and only that, by one write for each that the source's API has
of its own: every debug container, the resources, and the rest. One that this cluster's policy, or
its server, refuses leaves the delegate as it was; the others are made. A refusal is an event of the
delegate, and a condition as long as it stands, which both go home with its status.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.crossing import downward, live, manifest, shape
from agents.executor.crossing.fields import Object
from agents.executor.crossing.live import Mark, Part
from agents.executor.crossing.restrict import Copied, restrict
from agents.executor.intents.delegate import delegate_name, unsigned
from agents.executor.objects import adoption, copies, events, kinds, pods, target_needs
from agents.executor.objects.pods import LivePod, Lookup, guarded_change
from shared.kube.http import SERVER_ERROR, STRATEGIC_PATCH, Procedure, Request, Response
from shared.kube.times import rfc3339
from shared.kube.verdicts import NOT_FOUND, TRIES, Answer, cut, error_text, is_ambiguous, outcome
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, Outcome, PodRef, UpdateDelegate
from shared.model.names import CARRIES, FOLLOWED, PREFIX
from shared.model.pod import SourceRef

_MAX_WHY = 1024  # bytes of what the condition says
_WORDS_S = 60.0  # before it says the next refusal in other words
_FAILED = 3 * TRIES  # times that the server fails at a change in a row, until that is told
_PROFILE = "`kubectl debug --profile=baseline` adds one that asks for nothing"
_AMOUNTS = ("requests", "limits")
_NO_RESIZE = "the API server there, Kubernetes before 1.33, resizes no pod in place"


class _ReadAgainError(Exception):
    """The delegate is to be read again: another has written it, or nobody knows."""

    def __init__(self, response: Response) -> None:
        super().__init__(error_text(response))
        self.failed = response.code >= SERVER_ERROR


@dataclass
class _Write:
    """One delegate as it was just read, and what is to be written onto it."""

    source: SourceRef
    pod: LivePod
    body: bytes
    signed: bytes  # manifest
    wanted: Object  # the same, sanitised
    let_in: Object  # the same, as far as this cluster's policy lets it in
    local: Local
    now: Moment
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.version = self.pod.metadata.resource_version
        self.passing = False  # the last refusal, of a webhook that failed
        self.there: Object = msgspec.json.decode(self.body)

    @property
    def ref(self) -> PodRef:
        """The delegate."""
        return PodRef(self.source.namespace, delegate_name(self.source), self.pod.uid)

    @property
    def why(self) -> str:
        """What was refused, '' if nothing was."""
        return cut("; ".join(dict.fromkeys(self.refused)), _MAX_WHY)

    def room_for(self, more: int) -> str:
        """Why so many more bytes may not be written now; '' if they may be."""
        budget = self.local.foreign_budget
        no = budget.no_room(self.source, more, self.local.view, self.now.mono)
        return no.message if no is not None else ""

    def send(self, change: Object, subresource: str = "") -> Procedure[str]:
        """Write it; why it is refused, '' if it is done."""
        response = yield guarded_change(self.ref, self.version, change, subresource)
        if response.ok:
            after = pods.read(response.body)
            self.version = after.metadata.resource_version if after else ""
            self.local.foreign_budget.spend(self.source, self.now.mono, len(response.body))
            return ""
        if is_ambiguous(response):
            raise _ReadAgainError(response)
        if response.status == NOT_FOUND and subresource == live.RESIZE:
            return _NO_RESIZE
        if response.status == NOT_FOUND:
            raise _ReadAgainError(response)
        self.passing = response.passing
        return error_text(response)


def update_delegate(intent: UpdateDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Write what differs, if the source's cluster has signed for it."""
    no = unsigned(intent, local)
    if no is not None:
        return outcome(intent, *no)
    try:
        shape.check(intent.manifest)
        wanted = msgspec.json.decode(manifest.sanitise(intent.manifest))
        let_in = _let_in(wanted, intent.source, local)
    except manifest.ManifestError as error:
        return outcome(intent, REFUSED, str(error))
    answer = Answer(UNKNOWN)
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.source.namespace, delegate_name(intent.source))
        gone = _gone(look, intent.source, local)
        if gone is not None:
            answer = gone
        else:
            assert look.pod is not None  # noqa: S101 - _gone() answers for a missing pod
            write = _Write(
                intent.source,
                look.pod,
                look.body,
                intent.manifest,
                wanted,
                let_in,
                local,
                now,
            )
            answer = yield from _carry_due(write)
        if answer.verdict != UNKNOWN:
            break
    return outcome(intent, *answer)


def _let_in(wanted: Object, source: SourceRef, local: Local) -> Object:
    """Of the manifest what may change and this cluster's policy lets in; of debug containers each
    is asked for by itself.
    """
    spec = {"tolerations": wanted["spec"].get("tolerations") or []}
    held = {"metadata": wanted["metadata"], "spec": spec}
    return restrict(held, local.cluster, local.policy.grants(source))


def _gone(look: Lookup, source: SourceRef, local: Local) -> Answer | None:
    """The answer where there is no delegate to write onto; UNKNOWN where it is to be read again."""
    if not look.answered:
        return Answer(UNKNOWN, look.problem)
    pod = look.pod
    if pod is None or pod.terminating or pod.terminal or not _is_of(pod, source, local):
        name = delegate_name(source)
        return Answer(STALE, f"no delegate {source.namespace}/{name} of this pod goes on")
    return None


def _is_of(pod: LivePod, source: SourceRef, local: Local) -> bool:
    signed = pod.delegated(local.keys.public)
    return signed is not None and (signed.source.cluster_uid, signed.source.uid) == (
        source.cluster_uid,
        source.uid,
    )


def _carry_due(write: _Write) -> Procedure[Answer]:
    """Each of the writes that are due."""
    try:
        mark = live.read(write.pod.annotations.get(CARRIES, ""))
        if mark is None:  # an agent of an older version has made it
            yield from _write_rest(write, {}, None)
        else:
            yield from _write_parts(write, mark)
        yield from _show(write)
    except _ReadAgainError as error:
        if error.failed:
            _count_failure(write, str(error))
        return Answer(UNKNOWN, str(error))
    write.local.change_failed.drop(write.pod.uid)
    return Answer(REFUSED, write.why) if write.refused else Answer(DONE)


def _count_failure(write: _Write, why: str) -> None:
    """An event once the server has failed so often: it may do so for ever."""
    failed = (write.local.change_failed.get(write.pod.uid) or 0) + 1
    write.local.change_failed.put(write.pod.uid, failed)
    if failed == _FAILED:
        said = f"its API server fails at it, and it is tried again: {why}"
        events.not_carried(write.local, write.ref, said, write.now)


def _write_parts(write: _Write, mark: Mark) -> Procedure[None]:
    try:
        digests = live.digests(live.parts(msgspec.json.decode(write.signed)))
        found = live.parts(write.wanted)
        mark = mark.lengthened(live.digests_of_all(live.parts(write.there)), digests)
    except manifest.ManifestError as error:
        write.refused.append(str(error))
        yield from _write_rest(write, {}, None)
        return
    changed = {name for name, digest in digests.items() if mark.reached.get(name) != digest}
    new = {part: value for part, value in found.items() if live.name_digest(part) in changed}
    for part in [one for one in new if _is_of_another_container(one, mark)]:
        del new[part]
        why = f'container "{part[1]}" is none that the delegate was made with: its {part[0]} stays'
        write.refused.append(why)
    # What this version lets nothing cross of has arrived as soon as it was read.
    aside = digests.keys() - {live.name_digest(part) for part in found}
    reached = {**mark.reached, **{name: digests[name] for name in aside}}

    def reach(parts: list[Part]) -> None:
        reached.update((live.name_digest(part), digests[live.name_digest(part)]) for part in parts)

    doubt = yield from _write_apart(write, new, reach)
    rest = {
        part: value for part, value in new.items() if part[0] not in (live.ADDED, live.RESOURCES)
    }
    before = Mark(live.words(write.local.server_minor), dict(reached))
    reach(list(rest))
    gone = reached.keys() - digests.keys()
    after = Mark(before.words, {name: reached[name] for name in reached if name not in gone})
    metadata, spec = _rest_of(write, rest, mark, gone)
    done = yield from _write_rest(write, {"metadata": metadata, "spec": spec}, after)
    if not done and (spec or metadata["labels"] or metadata["annotations"]):
        # Refused as one: what files show is carried all the same, and what was written is noted.
        yield from _write_rest(write, {}, before)
    if doubt is not None:
        raise doubt


def _write_apart(
    write: _Write, new: dict[Part, Any], reach: Callable[[list[Part]], None]
) -> Procedure[_ReadAgainError | None]:
    """What has writes of its own, debug containers and resources. That the server fails at one is
    told at the end: it may do so for long, and the rest goes on.
    """
    doubt: _ReadAgainError | None = None
    for part in [one for one in new if one[0] == live.ADDED]:
        try:
            if (yield from _add_debug(write, part[1])):
                reach([part])
        except _ReadAgainError as error:
            doubt = _lasting(error)
    resized = {part: value for part, value in new.items() if part[0] == live.RESOURCES}
    try:
        if resized and (yield from _resize(write, resized)):
            reach(list(resized))
    except _ReadAgainError as error:
        doubt = _lasting(error)
    return doubt


def _lasting(doubt: _ReadAgainError) -> _ReadAgainError:
    """The same, where the server fails at a write; raised, where a look tells."""
    if not doubt.failed:
        raise doubt
    return doubt


def _is_of_another_container(part: Part, mark: Mark) -> bool:
    """Whether it is of a container that was not in the manifest from the beginning: one of that
    name is this cluster's own, as admission has added it.
    """
    kind, name = part
    if kind not in (live.IMAGE, live.RESOURCES) or not name:
        return False
    return live.name_digest((live.IMAGE, name)) not in mark.reached


def _add_debug(write: _Write, name: str) -> Procedure[bool]:
    """Add one debug container; whether that is over: what is refused by a rule is told, and not
    tried again, as nobody can take it back at home.
    """
    every = write.wanted["spec"]["ephemeralContainers"]
    container = next(one for one in every if one["name"] == name)
    those = write.there["spec"].get("ephemeralContainers") or ()
    there = next((one for one in those if one["name"] == name), None)
    if there is not None and all(
        there.get(key) == container.get(key) for key in ("image", "command", "args")
    ):
        return True  # an earlier attempt has added it
    change = {"spec": {"ephemeralContainers": [container]}}
    what = f'debug container "{name}"'
    if no_room := write.room_for(_size(change)):
        write.refused.append(f"{what}: {no_room}")
        return False
    write.passing = False
    why = "another one of that name is there" if there is not None else ""
    why = (
        why or (yield from _barred(write, container)) or (yield from write.send(change, live.DEBUG))
    )
    if why:
        write.refused.append(f"{what} ({_PROFILE}): {why}")
    return not (why and write.passing)


def _barred(write: _Write, container: Object) -> Procedure[str]:
    """Why this cluster does not take a debug container; '' if it does."""
    local = write.local
    metadata: Object = {"labels": {}, "annotations": {}, "namespace": write.source.namespace}
    alone = {"metadata": metadata, "spec": {"ephemeralContainers": [container]}}
    try:
        mounted = _mounted(container, write.there["spec"])
        said = _mounted(container, write.wanted["spec"])
        if another := next(
            (one for one in mounted if not mounted[one] <= said.get(one, set())), ""
        ):
            return f'mounts volume "{another}", which is none of its pod at home'
        volumes = [
            one for one in write.there["spec"].get("volumes") or () if one["name"] in mounted
        ]
        grants = local.policy.grants(write.source)
        for kind in kinds.KINDS.values():  # theirs may be another one
            named = {one for one in kinds.named(alone, kind) if grants.takes(kind.word, one)}
            if named and kind.word in local.follows:
                return f'names {kind.word} "{min(named)}", and none follows a debug container'
        restrict(alone, local.cluster, grants)
        made = Copied(copies.copied_secrets(write.source, write.pod.annotations))
        held = {**alone, "spec": {"volumes": volumes}}
        restrict(held, local.cluster, grants, copied=made)
        sought = target_needs.unseen(msgspec.json.encode(alone), local, write.now)
    except manifest.ManifestError as error:
        return str(error)
    return (yield from target_needs.missing(sought, local, write.now)) if sought else ""


def _mounted(container: Object, spec: Object) -> dict[str, set[str]]:
    """The volumes of a pod that a container mounts, by name: of what kinds they are. Those that
    admission has added may hold what no pod of another cluster has.
    """
    mounts = {one["name"] for one in container.get("volumeMounts") or ()}
    return {
        one["name"]: {*one, *chain(*((one.get("projected") or {}).get("sources") or ()))}
        for one in spec.get("volumes") or ()
        if one["name"] in mounts
    }


def _resize(write: _Write, new: dict[Part, Any]) -> Procedure[bool]:
    """Ask for other resources of containers, of the pod as a whole where a part has no name."""
    wanted = {name: value for (_, name), value in new.items()}
    spec: Object = {}
    for kind in ("initContainers", "containers"):
        for one in write.there["spec"].get(kind) or ():
            change = _other_resources(one, wanted)
            if change:
                spec.setdefault(kind, []).append({"name": one["name"], "resources": change})
    whole = _other_resources({"name": "", **write.there["spec"]}, wanted)
    spec |= {"resources": whole} if whole else {}
    if not spec:
        return True
    if live.RESIZE not in live.words(write.local.server_minor):
        why = _NO_RESIZE
    else:
        why = write.room_for(_size(spec)) or (yield from write.send({"spec": spec}, live.RESIZE))
    if why:
        write.refused.append(f"resources: {why}")
    return not why


def _other_resources(holder: Object, wanted: dict[str, Object]) -> Object:
    """The merge patch of a container's (or pod's) resources; {} where they are as wanted."""
    if holder["name"] not in wanted:
        return {}
    to = wanted[holder["name"]]
    has = holder.get("resources") or {}
    change = {kind: _changed(has.get(kind) or {}, to.get(kind) or {}) for kind in _AMOUNTS}
    return {kind: amounts for kind, amounts in change.items() if amounts}


def _changed(has: Object, to: Object) -> Object:
    gone = dict.fromkeys(key for key in has if key not in to)
    return {**gone, **{key: value for key, value in to.items() if has.get(key) != value}}


def _rest_of(
    write: _Write, new: dict[Part, Any], mark: Mark, gone: set[str]
) -> tuple[Object, Object]:
    """The patches of metadata and spec for the parts that are new; `gone` (digests of names) are
    taken off.
    """
    metadata: Object = {}
    for kind, where in ((live.LABEL, "labels"), (live.ANNOTATION, "annotations")):
        has = write.there["metadata"].get(where) or {}
        let_in = write.let_in["metadata"][where]
        names = {key: live.name_digest((kind, key)) for key in has}
        # What is there otherwise than the source had it is this cluster's own, and stays.
        # Nor is any of ours, of which a user may have found one whose short digest is the same.
        ours = {
            key
            for key in has
            if mark.reached.get(names[key]) == live.value_digest(has[key])
            and not key.startswith(PREFIX)
        }
        change: Object = {key: None for key in ours if names[key] in gone}
        for of, key in new:
            if of == kind and key in let_in and (key in ours or key not in has):
                change[key] = let_in[key]
        metadata[where] = change
    spec: Object = {}
    for kind in ("initContainers", "containers"):
        for one in write.there["spec"].get(kind) or ():
            image = new.get((live.IMAGE, one["name"]))
            if image and image != one.get("image"):
                spec.setdefault(kind, []).append({"name": one["name"], "image": image})
    for (of, name), value in new.items():
        if of == live.FIELD and name != live.TOLERATIONS:
            spec[name] = value
    if (live.FIELD, live.TOLERATIONS) in new:
        has = write.there["spec"].get("tolerations") or []
        to = _tolerations(has, live.tolerations(write.let_in["spec"]))
        spec |= {"tolerations": to} if to != has else {}
    return metadata, spec


def _tolerations(has: list[Object], wanted: list[Object]) -> list[Object]:
    """None is ever taken away; of one that is there the seconds alone may change."""

    def of(one: Object) -> tuple[Any, ...]:
        return tuple(one.get(key) for key in ("key", "operator", "value", "effect"))

    new = {of(one): one for one in wanted}
    return [*(new.pop(of(one), one) for one in has), *new.values()]


def _write_rest(write: _Write, change: Object, mark: Mark | None) -> Procedure[bool]:
    """Write the change with what files show and the mark; whether it is done."""
    files = _files(write)
    marked = {CARRIES: str(mark)} if mark is not None else {}
    kept = {key: text for key, text in marked.items() if write.pod.annotations.get(key) != text}
    metadata = change.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), **files, **kept}
    labels = metadata.get("labels") or {}
    spec = change.get("spec") or {}
    if not (annotations or labels or spec):
        return True
    body: Object = {"metadata": {"annotations": annotations}}
    if labels:
        body["metadata"]["labels"] = labels
    if spec:
        body["spec"] = spec
    more = _growth(write.pod.annotations, annotations) + _growth(write.pod.labels, labels)
    why = _adopted(write, labels) or write.room_for(more) or (yield from write.send(body))
    if why:
        write.refused.append(why)
    return not why


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _growth(has: dict[str, str], to: Object) -> int:
    return sum(_size(value) - _size(has.get(key)) for key, value in to.items())


def _files(write: _Write) -> dict[str, str]:
    """The annotations that files are read from and that differ: of these only those that the
    delegate has from its beginning.
    """
    shown = downward.shown(write.pod.annotations)
    wanted = downward.with_topology(
        downward.shown(write.wanted["metadata"]["annotations"]), write.pod.labels
    )
    return {key: wanted[key] for key, text in shown.items() if wanted.get(key, text) != text}


def _adopted(write: _Write, labels: Object) -> str:
    """Who here would take the delegate for its own by its new labels."""
    if not labels:
        return ""
    pod = write.local.read_pod(write.body)
    after = {**pod.labels, **labels}
    kept = {key: value for key, value in after.items() if value is not None}
    return adoption.adopter(msgspec.structs.replace(pod, labels=kept), write.local)


def _show(write: _Write) -> Procedure[None]:
    """The condition, and an event where it is news."""
    conditions = write.pod.status.conditions or ()
    now = next((one for one in conditions if one.type == FOLLOWED), None)
    why = write.why
    if not why and (now is None or now.status == "True"):
        return
    if now is not None and now.status == "False" and why:
        # Words that are others each time would bring a new status, and with it the next order.
        shown = write.local.refusal_shown.get(write.pod.uid)
        recent = shown is not None and write.now.mono - shown < _WORDS_S
        if recent or now.message == why:
            return
    if why:
        write.local.refusal_shown.put(write.pod.uid, write.now.mono)
        events.not_carried(write.local, write.ref, why, write.now)
    condition = {
        "type": FOLLOWED,
        "status": "False" if why else "True",
        "reason": "ChangeRefused" if why else "Followed",
        "message": why,
        "lastTransitionTime": rfc3339(write.now.wall),
    }
    body = {"metadata": {"uid": write.pod.uid}, "status": {"conditions": [condition]}}
    # What it answers does not matter: as long as it stands, the next order says so again.
    response = yield Request(
        "PATCH",
        pods.path(write.source.namespace, write.ref.name, "status"),
        msgspec.json.encode(body),
        STRATEGIC_PATCH,
    )
    if response.ok:
        write.local.foreign_budget.spend(write.source, write.now.mono, len(response.body))
