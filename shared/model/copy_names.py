"""Names of the copies of objects that follow pods, and what is said of these by their originals'.

A copy has a name of its own in the namespace of its original (agents/executor/objects/copies).
"""

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache

from shared.model.pod import SourceRef

_DIGITS = 16  # hex characters in the name of a copy: 64 bits; a collision is refused, never adopted
HASH = f"[0-9a-f]{{{_DIGITS}}}"  # how the name of a copy ends, after a hyphen
_MOST_NAME = 63  # characters of the name of a copy
MOST_TOLD = 3 * 1024  # characters that name all followers of one pod
_COPY = re.compile(f"-{HASH}")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def copy_hash(cluster_uid: str, namespace: str, kind: str, name: str) -> str:
    """What tells the copies of two objects apart, wherever these are."""
    whole = f"{cluster_uid}/{namespace}/{kind}/{name}"
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=2**14)
def copy_name(cluster_uid: str, namespace: str, kind: str, name: str) -> str:
    """DNS-safe '<name, cut>-<hash of source cluster UID / namespace / kind / name>'."""
    head = name[: _MOST_NAME - _DIGITS - 1].strip("-.")
    return f"{head or 'copy'}-{copy_hash(cluster_uid, namespace, kind, name)}"


def read_followers(told: str) -> Iterator[tuple[str, str]]:
    """Kind and name of the followers of a delegate, by its annotation of them; of none, if that is
    longer than agents write it.
    """
    words = (word.partition("/") for word in told.split()) if len(told) <= MOST_TOLD else ()
    return ((kind, name) for kind, _, name in words if _NAME.fullmatch(name))


def as_at_home(text: str, source: SourceRef, told: str) -> str:
    """What is said of a delegate of this source, JSON or not, with originals' names in place of
    their copies'. `told`: its annotation of what follows it; anybody may have written that.
    """
    if _COPY.search(text) is None:
        return text
    for kind, name in read_followers(told):
        copy = copy_name(source.cluster_uid, source.namespace, kind, name)
        if copy in text and _NAME.fullmatch(name):
            text = text.replace(copy, name)
    return text


def lacking(why: str, told: str) -> str:
    """The object that follows a pod and that a kubelet's words, as at home, say is lacking, or has
    no such key: 'ConfigMap "settings"'; '' if it says that of none. A copy is as at home, and the
    pod would wait there as well.
    """
    for kind, name in read_followers(told):
        gone = f'{kind.lower()} "{name}" not found' in why
        if gone or (
            "couldn't find key" in why and re.search(f"{kind} [^ ]*/{re.escape(name)}$", why)
        ):
            return f'{kind} "{name}"'
    return ""
