"""Turns HTTP responses of the API server into verdicts and messages for the dispatcher.

`response_reader` makes responses of bytes.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.kube.http import FORBIDDEN, TOO_BUSY, Response
from shared.messages import UNKNOWN, Intent, Outcome

TRIES = 3  # writes whose result is unknown are tried this often; then the dispatcher asks again
LOOKS = 2  # and reads: a server that hangs must not hold a pod for minutes
POSTPONED = frozenset(
    (401, 408, TOO_BUSY)
)  # nothing was done: credentials to renew, too slow, too busy; ask again
CONFLICT = 409
NOT_FOUND = 404
INVALID = 422
_MAX_MESSAGE = 1024
# How kube-apiserver says that no authorizer has let a request through. What admission denies is 403,
# too, in words of its own, after others to begin with.
_NO_RIGHT = re.compile(r'(?:[^:]{0,400} is forbidden: )?User "[^"]*" cannot (\w+) resource "')


class Answer(NamedTuple):
    """Verdict and message of a procedure (see messages.Outcome), not yet tied to the ID of an
    intent.
    """

    verdict: str
    message: str = ""
    scope: str = ""  # of a refusal: what it is about
    passing: bool = False  # of a refusal: a failure is why, and no rule


class _Status(msgspec.Struct, gc=False):
    kind: str = ""
    message: str = ""


_STATUS = msgspec.json.Decoder(_Status)


def outcome(
    intent: Intent, verdict: str, message: str = "", scope: str = "", passing: bool = False
) -> Outcome:
    """The outcome of `intent`; a message is cut at 1 kB."""
    return Outcome(
        id=intent.id,
        uid=intent.pod.uid,
        epoch=intent.epoch,
        verdict=verdict,
        message=cut(message, _MAX_MESSAGE),
        scope=scope,
        passing=passing,
    )


def within(outcomes: Sequence[Outcome], most: int) -> tuple[Outcome, ...]:
    """The same with at most so many bytes of manifests, but one of them at least, small ones first:
    equal ones are in the first outcome that has them, and those without room are left out, to be
    asked for again.
    """
    carriers: dict[bytes, str] = {}
    left_out: set[bytes] = set()
    room = most
    for one in sorted(outcomes, key=lambda one: len(one.manifest)):
        manifest = one.manifest
        if not manifest or manifest in carriers or manifest in left_out:
            continue
        if carriers and len(manifest) > room:
            left_out.add(manifest)
            continue
        room -= len(manifest)
        carriers[manifest] = one.id
    return tuple(_shortened(one, carriers) if one.manifest else one for one in outcomes)


def _shortened(one: Outcome, carriers: dict[bytes, str]) -> Outcome:
    carrier = carriers.get(one.manifest)
    if carrier == one.id:
        return one
    if carrier is not None:
        return msgspec.structs.replace(one, manifest=b"", manifest_of=carrier)
    said = "the answer has no room for the manifest: it is to be asked for again"
    return Outcome(one.id, one.uid, one.epoch, UNKNOWN, said, left_out=len(one.manifest))


def is_status(body: bytes) -> bool:
    """Whether an answer is a metav1 Status."""
    found = _read(body)
    return found is not None and found.kind == "Status"


def _read(body: bytes) -> _Status | None:
    try:
        return _STATUS.decode(body)
    except msgspec.MsgspecError:
        return None


def error_text(response: Response) -> str:
    """What went wrong, from an answer that is not 2xx: the message of its metav1 Status, or the
    beginning of its body.

    Never empty; it ends with the HTTP status, or says that no answer came (status 0).
    """
    status = _read(response.body)
    most = 200 if response.code else 400  # of an error of ours the end says what was wrong
    message = response.body[:most].decode("utf-8", "replace") if status is None else status.message
    if not response.code:
        return f"the API server did not answer ({message or 'no reason known'})"
    return f"{message or 'no message'} (HTTP {response.code})"


def lacked_right(response: Response) -> str:
    """The verb that our role does not let us use, "" if another thing is wrong: quotas, webhooks and
    admission policies say 403, too.
    """
    status = _read(response.body) if response.code == FORBIDDEN else None
    found = _NO_RIGHT.match(status.message) if status is not None else None
    return found[1].lower() if found is not None else ""


def is_ambiguous(response: Response) -> bool:
    """Whether to read the object again after a failed patch with preconditions: a conflict, or the
    effect is unknown.

    A wrong UID in a patch is 409 or 422 ("field is immutable"), by Kubernetes version and patch
    type: a GET tells.
    """
    return (
        response.unknown
        or response.status == CONFLICT
        or response.status in POSTPONED
        or _about_uid(response)
    )


def _about_uid(response: Response) -> bool:
    return response.status == INVALID and b"metadata.uid" in response.body


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "..."
