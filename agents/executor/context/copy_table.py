"""Copies of objects of other clusters that are here, as they were last seen: see `copies`."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agents.executor.bounds.recent import Recent
from shared.model.pod import PodRef, SourceRef

# Copies of one namespace of a cluster, and of a cluster, whether there is an original or not.
MOST_OF_NAMESPACE = 2_000
MOST_OF_CLUSTER = 20_000
_MOST_ASKED = 10 * 1024  # bytes of one question, about
# between two questions to a source cluster: with kubelet's period, within a minute
REFRESH_S = 20.0
BARRED_S = 60.0  # until it is tried again what a namespace did not let us write


class Original(NamedTuple):
    """The object at home. `cluster_uid`: the UID of that cluster's kube-system namespace."""

    cluster: str
    cluster_uid: str
    namespace: str
    kind: str
    name: str

    @property
    def whose(self) -> SourceRef:
        """Whose bytes it counts as: those of its cluster and namespace, of no pod."""
        return SourceRef(self.cluster, self.cluster_uid, self.namespace, "", "", 0)


class CopyKey(NamedTuple):
    """Where a copy is: its kind, namespace and own name."""

    kind: str
    namespace: str
    name: str


Sought = dict[str, list[tuple[PodRef, list[Original]]]]


@dataclass(slots=True)
class Copy:
    """One that is here. `digest`: of its content when it was last read, at `seen` (monotonic; minus
    infinity: never). `secret`: by which its home keys the digest of a Secret; b"": not known in
    this life. `used`: when it was last known to be named, or about to be. `named`: by a delegate,
    in this life; else it counts for nothing: anybody may have made it. `removing`: it is being
    deleted. `failed`: how often in a row it could not be made what its original is, for now.
    """

    original: Original
    digest: bytes = b""
    secret: bytes = field(default=b"", repr=False)
    size: int = 0
    seen: float = float("-inf")
    used: float = float("-inf")
    named: bool = False
    removing: bool = False
    failed: int = 0


@dataclass(slots=True)
class Copies:
    """All of it may be lost: each is read again before it is relied upon, and those without a pod
    are found by their label (`listed`; `listed_in`: while that lasts, namespaces that were listed
    each for itself).
    """

    known: dict[CopyKey, Copy] = field(default_factory=dict)
    listed: bool = False
    listed_in: set[str] = field(default_factory=set)
    # When it was last begun to look who uses what, that look while it lasts, and when the last one
    # began that has come to its end: of what was not used before that it is known.
    looked_at: float = float("-inf")
    look: Generator[None, None, Sought] | None = None
    known_since: float = float("-inf")
    # what is to be asked for, and of which pods, in questions to one cluster each
    due: Sought = field(default_factory=dict)
    # by namespace: what delegates name and our policy takes no more, each with one of its pods; and
    # of what of it the copies were deleted
    untaken: dict[str, list[tuple[PodRef, Original]]] = field(default_factory=dict)
    taken_back: Recent[Original, bool] = field(default_factory=lambda: Recent(MOST_OF_CLUSTER))
    # the delegates of these pods, by UID of their cluster and their own
    bearers: dict[tuple[str, str], PodRef] = field(default_factory=dict)
    # pods, named likewise, by which their home has denied something last: others are asked by first
    denied: set[tuple[str, str]] = field(default_factory=set)
    _bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _count_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    _barred: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    def bytes_of(self, cluster: str, namespace: str = "") -> int:
        """Of content, of a source cluster, or of a namespace of it."""
        return self._bytes[cluster, namespace]

    def full(self, original: Original) -> str:
        """Why one more, of this, is too much; '' if it is not."""
        cluster = original.cluster
        namespace = original.namespace
        for key, most in (
            ((cluster, namespace), MOST_OF_NAMESPACE),
            ((cluster, ""), MOST_OF_CLUSTER),
        ):
            if self._count_of[key] >= most:
                whose = f'namespace "{namespace}" of cluster' if key[1] else "cluster"
                return f'pods of {whose} "{cluster}" name more than {most} objects here'
        return ""

    def put(self, key: CopyKey, original: Original, now: float, *, named: bool = True) -> Copy:
        """One that is named now, or about to be; or, not `named`, one that was found here."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Copy(original)
        if named and not found.named:
            found.named = True
            self._count_of.update(_counted(original))
        found.used = max(found.used, now)
        return found

    def saw(self, key: CopyKey, digest: bytes, size: int, now: float) -> None:
        """It was read, or written. One that is not in use is nobody's."""
        if (copy := self.known.get(key)) is not None:
            self._count(copy, size)
            copy.digest = digest
            copy.size = size
            copy.seen = now

    def gone(self, key: CopyKey) -> None:
        """There is none."""
        if (copy := self.known.get(key)) is not None:
            self._count(copy, 0)
            copy.digest = b""
            copy.size = 0
            copy.seen = float("-inf")

    def drop(self, key: CopyKey) -> None:
        """There is none, and nobody uses it."""
        self.gone(key)
        if (copy := self.known.pop(key, None)) is not None and copy.named:
            self._count_of.subtract(_counted(copy.original))

    def doubt(self) -> None:
        """What was seen is not believed any more, and some may be back that were deleted."""
        self.listed = False
        self.listed_in.clear()
        self.taken_back.clear()
        for copy in self.known.values():
            copy.seen = float("-inf")

    def bar(self, kind: str, namespace: str, now: float, why: str) -> None:
        """We may write none of this kind in this namespace."""
        self._barred[kind, namespace] = (now, why)

    def barred(self, kind: str, namespace: str, now: float) -> str:
        """Why none can be written there; '' if that is not known."""
        at, why = self._barred.get((kind, namespace), (float("-inf"), ""))
        if now - at < BARRED_S:
            return why
        self._barred.pop((kind, namespace), None)
        return ""

    def unused(self, since: float) -> Iterator[CopyKey]:
        """Those that were last used before."""
        return (key for key, copy in list(self.known.items()) if copy.used < since)

    def _count(self, copy: Copy, size: int) -> None:
        for key in _counted(copy.original):
            self._bytes[key] += size - copy.size


def _counted(original: Original) -> tuple[tuple[str, str], ...]:
    return (original.cluster, ""), (original.cluster, original.namespace)


def questions(
    sought: list[tuple[PodRef, list[Original]]],
) -> Iterator[list[tuple[PodRef, list[Original]]]]:
    """Questions of a size that can be asked."""
    part: list[tuple[PodRef, list[Original]]] = []
    size = 0
    for pod, of in sought:
        about = len(pod.namespace) + len(pod.name) + len(pod.uid)
        for original in of:
            size += len(original.kind) + len(original.name) + 48
            if part and part[-1][0] == pod:
                part[-1][1].append(original)
            else:
                size += about
                part.append((pod, [original]))
            if size >= _MOST_ASKED:
                yield part
                part = []
                size = 0
    if part:
        yield part
