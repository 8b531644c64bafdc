"""What of a pod may change while it runs, part by part, and what of it has reached its delegate.

An annotation of ours on the delegate (names.CARRIES) tells which writes on its source reach it, and
keeps a short digest of each part as the source had it when it last reached the delegate:

    pods,ephemeralcontainers,resize 20123456789abcdef.1fedcba9876543210 89ab...

So only what changed at home is written: what the target's own admission has set otherwise stays as
it set it, and what it has added is never taken away. Both agents digest the manifest as it was
signed, not what their versions let cross of it, and which parts there are is of FORMATS: else two
versions would never agree on what has arrived. All of them are told, and the newest that both tell
is compared. A mark of format 1, with digests half as long, is made anew by the next change.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from agents.executor.crossing import downward
from agents.executor.crossing.fields import Object
from agents.executor.crossing.manifest import ManifestError, readable
from shared.model.names import DOWNWARD, FOLLOWERS

# Which writes on a source reach its delegate, by the API's names for where they are made.
PODS = "pods"
DEBUG = "ephemeralcontainers"
RESIZE = "resize"
WORDS = (PODS, DEBUG, RESIZE)
RESIZE_MINOR = 33  # of Kubernetes 1.x, which serves pods/resize from there

LABEL = "label"
ANNOTATION = "annotation"
IMAGE = "image"
RESOURCES = "resources"  # of a container; of the pod as a whole where the name is empty
FIELD = "field"
ADDED = "debug"  # a debug container, which never changes once it is there
TOLERATIONS = "tolerations"
_FIELDS = ("activeDeadlineSeconds", "terminationGracePeriodSeconds")
# How long a pod stays on a failed node: at home that is the proxy node, and ours to say
# (`failover_mode`).
_OF_FAILED_NODES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

MAX_PARTS = 256  # of one pod: the annotation has 32 characters of each
# What begins a digest of all parts, and of how many digits it has each name and value, the newest
# first: those of another format are not compared.
FORMATS = {"2": 16, "1": 8}
_DIGITS = 16
_WHOLE = 16  # characters of the rest of it
_NOT_KNOWN = "-"  # in place of each digit that an older mark lacks: it is equal to none
NONE = ".".join(f"{one}-" for one in FORMATS)  # in place of a digest: nothing may cross any more

Part = tuple[str, str]  # kind and name
Digests = dict[str, str]  # of a part's name, and of its value


class Mark(NamedTuple):
    """What the annotation on a delegate says: the words, and the parts that reached it."""

    words: tuple[str, ...]
    reached: Digests
    digits: int = _DIGITS

    def lengthened(self, *sides: Digests) -> "Mark":
        """The same in the newest format. `sides`: the parts of delegate and manifest as they are
        now, of which one of an older format is known by how it begins.
        """
        if self.digits == _DIGITS:
            return self
        pad = _NOT_KNOWN * (_DIGITS - self.digits)
        known: dict[str, tuple[str, set[str]]] = {}
        for name, value in (pair for side in sides for pair in side.items()):
            known.setdefault(name[: self.digits], (name, set()))[1].add(value)
        reached: Digests = {}
        for begin, value in self.reached.items():
            name, values = known.get(begin, (begin + pad, set[str]()))
            found = (one for one in values if one[: self.digits] == value)
            reached[name] = next(found, value + pad)
        return Mark(self.words, reached)

    def __str__(self) -> str:
        held = "".join(name + self.reached[name] for name in sorted(self.reached))
        return f"{','.join(self.words)} {_of_all(self.reached)} {held}"


def words(server_minor: int) -> tuple[str, ...]:
    """What this cluster can carry out, by the minor version of its API server (0: not known)."""
    return WORDS if not server_minor or server_minor >= RESIZE_MINOR else (PODS, DEBUG)


def minor_of(server_version: str) -> int:
    """33 of "v1.33.1", 0 of what is no version of Kubernetes 1."""
    major, _, rest = server_version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    return int(minor) if major == "1" and minor.isascii() and minor.isdigit() else 0


def parts(clean: Object) -> dict[Part, Any]:
    """What of a manifest may change while its pod runs; ManifestError where it is not shaped like
    one.
    """
    with readable():
        found = dict(_parts(clean["metadata"], clean["spec"]))
        if not all(isinstance(name, str) for _, name in found):
            raise TypeError
        return found


def _parts(metadata: Object, spec: Object) -> Iterator[tuple[Part, Any]]:
    yield from (((LABEL, key), value) for key, value in (metadata.get("labels") or {}).items())
    for key, value in (metadata.get("annotations") or {}).items():
        if key != FOLLOWERS and not key.startswith(DOWNWARD):  # objects follow by themselves
            yield (ANNOTATION, key), value
    for container in containers(spec):
        yield (IMAGE, container["name"]), container.get("image") or ""
        yield (RESOURCES, container["name"]), container.get("resources") or {}
    if spec.get("resources"):
        yield (RESOURCES, ""), spec["resources"]
    yield from (((FIELD, field), spec[field]) for field in _FIELDS if field in spec)
    if tolerated := tolerations(spec):
        yield (FIELD, TOLERATIONS), tolerated
    for container in spec.get("ephemeralContainers") or ():
        yield (ADDED, container["name"]), container["name"]


def tolerations(spec: Object) -> list[Object]:
    """Those that follow."""
    every = spec.get("tolerations") or ()
    return [one for one in every if one.get("key") not in _OF_FAILED_NODES]


def containers(spec: Object) -> Iterator[Object]:
    """Those that a pod begins with."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def name_digest(part: Part) -> str:
    """By this a part is known in the annotation."""
    return _short("/".join(part).encode())


def value_digest(value: Any) -> str:
    """By this it is known whether a part has changed."""
    return _short(msgspec.json.encode(value, order="sorted"))


def digests(found: Mapping[Part, Any]) -> Digests:
    """Of these parts, those of a manifest; ManifestError if they are more than an annotation holds."""
    if len(found) > MAX_PARTS:
        raise ManifestError(
            "metadata",
            f"has, with the containers, more than {MAX_PARTS} labels, annotations and fields that "
            "may change, of which none follows",
        )
    return digests_of_all(found)


def digests_of_all(found: Mapping[Part, Any]) -> Digests:
    """Of these parts, however many they are."""
    return {name_digest(part): value_digest(value) for part, value in found.items()}


def first_mark(signed: bytes, server_minor: int) -> str:
    """The annotation of a delegate that is made from this manifest; '' where it has too many parts,
    so that none follows.
    """
    every = parts(msgspec.json.decode(signed))
    found = {part: value for part, value in every.items() if part[0] != ADDED}
    return str(Mark(words(server_minor), digests(found))) if len(found) <= MAX_PARTS else ""


def read(text: str) -> Mark | None:
    """The annotation on a delegate; None where it is none of ours."""
    said = text.split(" ")
    if len(said) != 3:
        return None
    digits = FORMATS.get(said[1][:1])
    if digits is None:
        return None
    step = 2 * digits
    pairs = [said[2][at : at + step] for at in range(0, len(said[2]), step)]
    return Mark(known(said[0]), {pair[:digits]: pair[digits:] for pair in pairs}, digits)


def known(text: str) -> tuple[str, ...]:
    """Those of its words, separated by commas, that this version knows."""
    said = text.split(",")
    return tuple(one for one in WORDS if one in said)


def told(text: str) -> tuple[str, str]:
    """What the annotation of a delegate tells others: the digests of all parts, and the words."""
    said = text.split(" ")
    most = len(FORMATS) * (_WHOLE + 2) - 1  # with dots between
    return (said[1][:most], ",".join(known(said[0]))) if len(said) == 3 else ("", "")


def files_and_live(clean: Object) -> tuple[str, str]:
    """Digests of what the files of a source show, by its manifest (sanitised), and of what may
    change of it while it runs, in each format. Of files '' if it has none.
    """
    try:
        found = _of_all(digests(parts(clean)))
    except ManifestError:
        found = NONE
    return downward.digest(clean["metadata"]["annotations"]), found


def _of_all(each: Digests) -> str:
    """In each format."""
    return ".".join(one + _whole(each, digits) for one, digits in FORMATS.items())


def _whole(each: Digests, digits: int) -> str:
    cut = sorted((name[:digits], value[:digits]) for name, value in each.items())
    held = "".join(name + value for name, value in cut)
    return sha256(held.encode()).hexdigest()[:_WHOLE]


def _short(text: bytes) -> str:
    return sha256(text).hexdigest()[:_DIGITS]
