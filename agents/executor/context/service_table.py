"""What is known of the Services of other clusters' namespaces that are here: see `services`."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.model.pod import PodRef, SourceRef

# namespaces of other clusters, and of one of them, whose Services are here
MOST_SPACES = 1_000
MOST_OF_CLUSTER = 500
MOST_FOUND = 1_000  # that were found by their marks alone, which anybody may have written
_NEVER = float("-inf")


class Space(NamedTuple):
    """A namespace of a source cluster. `cluster_uid`: of its kube-system namespace."""

    cluster: str
    cluster_uid: str
    namespace: str

    @property
    def whose(self) -> SourceRef:
        """Whose bytes it counts as: those of its cluster and namespace, of no pod."""
        return SourceRef(self.cluster, self.cluster_uid, self.namespace, "", "", 0)


@dataclass(slots=True)
class Held:
    """What is here of one namespace. `content`: as the source gave it last, b"" if that is not
    known. Times are monotonic: `answered`: it gave it, or said that it is the same, `answers`
    times; `written`: all was here as it should be; `used`: a delegate of it was last known, or
    about to be made. `named`: by a delegate, in this life; else it counts for nothing: anybody may
    have made it. `heard`: how often the source said anything, if only no. `left`: names of its
    Services that are not here, with the reason. `shut`: its addresses were withdrawn.
    """

    space: Space
    answered: float
    answers: int = 0
    heard: int = 0
    content: bytes = b""
    digest: bytes = b""
    size: int = 0
    written: float = _NEVER
    used: float = _NEVER
    named: bool = False
    left: dict[str, str] = field(default_factory=dict)
    shut: bool = False
    removing: bool = False


Users = dict[Space, list[PodRef]]  # a few of its delegates' sources


@dataclass(slots=True)
class Services:
    """By namespace of a source cluster. All of it may be lost: marks on the objects tell of what
    was made (`listed`; `listed_in`: while that lasts, kinds and namespaces that were listed each
    for itself; `overflowed`: there was more than may be known at once).
    """

    known: dict[Space, Held] = field(default_factory=dict)
    listed: bool = False
    listed_in: set[tuple[str, str]] = field(default_factory=set)
    overflowed: bool = False
    # as of Copies: the look who uses what, and what it found
    looked_at: float = _NEVER
    look: Generator[None, None, Users] | None = None
    known_since: float = _NEVER
    due: Users = field(default_factory=dict)
    _bytes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def bytes_of(self, cluster: str, namespace: str = "") -> int:
        """Of what is here, of a source cluster, or of a namespace of it."""
        return self._bytes[cluster, namespace]

    def put(self, space: Space, now: float) -> Held:
        """One that is used now, or about to be."""
        held = self.known.get(space)
        if held is None:
            held = self.known[space] = Held(space, answered=now)
        held.named = True
        held.used = max(held.used, now)
        return held

    def found(self, space: Space, now: float) -> None:
        """One of which something bears the marks."""
        if space in self.known:
            return
        if self.has_room:
            self.known[space] = Held(space, answered=now)
        else:
            self.overflowed = True

    @property
    def has_room(self) -> bool:
        """Whether more may be found."""
        return sum(not held.named for held in self.known.values()) < MOST_FOUND

    def full(self, space: Space) -> str:
        """Why one more, of this namespace, is too much; '' if it is not."""
        held = self.known.get(space)
        if held is not None and held.named:
            return ""
        named = [one.cluster for one, held in self.known.items() if held.named]
        of_cluster = named.count(space.cluster)
        if len(named) < MOST_SPACES and of_cluster < MOST_OF_CLUSTER:
            return ""
        return (
            f"Services of {len(named)} namespaces of other clusters are here, {of_cluster} of "
            f'them of cluster "{space.cluster}": at most {MOST_SPACES} and {MOST_OF_CLUSTER} are'
        )

    def counts(self, held: Held, size: int) -> None:
        """So many bytes of it are here now."""
        space = held.space
        for key in ((space.cluster, ""), (space.cluster, space.namespace)):
            self._bytes[key] += size - held.size
        held.size = size

    def drop(self, space: Space) -> None:
        """There is nothing of it, and nobody uses it."""
        held = self.known.pop(space, None)
        if held is not None:
            self.counts(held, 0)

    def doubt(self) -> None:
        """What was written is not believed any more, and some may be back that were deleted."""
        self.listed = False
        self.listed_in.clear()
        for held in self.known.values():
            held.written = _NEVER

    def unused(self, since: float) -> Iterator[Space]:
        """Those that were last used before."""
        return (space for space, held in list(self.known.items()) if held.used < since)
