"""What of a pod crosses into another cluster: asked by the agent there, and first by the
dispatcher's filters.

A toleration without a key, or of a node's role, would open nodes that are kept for others. It is
left behind, unless a row of the target's own policy opens it for pods of that cluster and
namespace.

A pod has the PriorityClass of its name there, with the value of that cluster, which a row caps.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from shared.model.bounds import NO_PRIORITY, Int32, Names, Word
from shared.model.names import NONE, PRIORITY, STAY
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs, Pod, Record, Toleration

_ROLES = "node-role.kubernetes.io/"
SECRETS = "secrets"  # the key of a `Need` that is about a Secret
NEEDED = ("allow", SECRETS, "service_accounts")  # lists of a row that a `Need` may name
MAX_PRIORITY = "max_priority"  # the key of a `Need` that is about a PriorityClass
RUNTIME_CLASS = "runtime_class"  # of one that is about a RuntimeClass: no row says anything of it
_UNTOLD = (
    "its agent does not tell what it would need in another cluster: it is of an older version, "
    "cannot read the pod, or "
    "began after the pod was placed at home"
)
_DOES_WITHOUT = f"(annotation {PRIORITY}: {NONE}, if the pod does without)"


class Opening(Record, frozen=True):
    """A row of a cluster's policy: what it lets in with pods of these clusters and namespaces, all
    as shell patterns.

    `tolerations` are keys ("*": also none at all); `allow`, `secrets` and `service_accounts` as in
    `Need`. `closed`: namespaces it keeps out all the same; None: an agent of an older version,
    which tells only of tolerations. `secrets_follow`: names of Secrets of which copies are taken.
    `services` "none": these pods call no Services of their
    namespace. `creates`: namespaces that are made there where they are missing.
    `max_priority`: the highest value of a PriorityClass that these pods have here; None:
    an agent of an older version, where they have none. `priority` "none": they run here without one
    that they cannot have.
    """

    clusters: Names
    namespaces: Names
    tolerations: Names
    closed: Names | None = None
    allow: Names = ()
    secrets: Names = ()
    service_accounts: Names = ()
    services: Word = ""
    max_priority: Int32 | None = None
    priority: Word = ""
    creates: Names = ()
    secrets_follow: Names = ()

    def covers(self, home: str, namespace: str) -> bool:
        """Whether it is about pods of this cluster and namespace."""
        return matches(self.clusters, home) and matches(self.namespaces, namespace)


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether any of the shell patterns means `text`."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def crosses(key: str, opened: Iterable[str]) -> bool:
    """Whether a toleration of this key ('': of all keys) goes along, where the keys like `opened`
    are let in.
    """
    return bool(key and not key.startswith(_ROLES)) or matches(opened, key)


def opened_to(home: str, namespace: str, openings: Iterable[Opening]) -> tuple[str, ...]:
    """The keys that are let in with pods of this cluster and namespace."""
    return tuple(key for row in openings if row.covers(home, namespace) for key in row.tolerations)


def rows_for(
    home: str, namespace: str, openings: Iterable[Opening] | None
) -> tuple[Opening, ...] | None:
    """The rows that let in pods of this cluster and namespace; None if the cluster's policy is not
    known so far.
    """
    told = tuple(openings or ())
    if not told or any(row.closed is None for row in told):
        return None
    return tuple(
        row
        for row in told
        if row.covers(home, namespace) and not matches(row.closed or (), namespace)
    )


def makes(namespace: str, openings: Iterable[Opening] | None) -> bool:
    """Whether a cluster with these rows makes the namespace where it is missing."""
    return any(matches(row.creates, namespace) for row in openings or ())


def unmet(needs: Needs, rows: Sequence[Opening]) -> list[Need]:
    """The needs that none of these rows lets in."""
    return [one for one in needs.of_policy if not _lets_in(one, rows)]


def _lets_in(need: Need, rows: Sequence[Opening]) -> bool:
    if need.key not in NEEDED:
        return True  # of an agent that is newer than this dispatcher: the target decides
    if need.key == SECRETS and any(matches(row.secrets_follow, need.word) for row in rows):
        return True  # whether its owner gives it, the agents see
    return any(matches(getattr(row, need.key), need.word) for row in rows)


def kept_abroad(tolerations: Sequence[Toleration], opened: Iterable[str]) -> tuple[Toleration, ...]:
    """The tolerations that a pod has in another cluster, where the keys like `opened` are let in."""
    patterns = tuple(opened)
    return tuple(one for one in tolerations if crosses(one.key, patterns))


def barred_class(name: str, most: int | None, classes: Sequence[PriorityClass]) -> str:
    """Why a pod of another cluster cannot have its PriorityClass in one with these `classes`, as
    words that follow its field; '' if it can, or if `classes` are not known. `most`: what the rows
    of that cluster's policy let in.
    """
    here = f'is PriorityClass "{name}"'
    if most is None:
        return f"{here}, which an agent of that version leaves behind: upgrade it {_DOES_WITHOUT}"
    if not classes:
        return ""
    found = class_of(name, classes)
    if found is None:
        return f"{here}, which does not exist in that cluster: create it there {_DOES_WITHOUT}"
    if found.value > most:
        row = (
            f"it takes that only if a row of its `executor.accept` has `{MAX_PRIORITY}` of as much"
        )
        return f"{here}, whose value in that cluster is {found.value}: {row} {_DOES_WITHOUT}"
    return ""


def class_of(name: str, classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The class of this name."""
    return next((one for one in classes if one.name == name), None)


def untold(pod: Pod) -> str:
    """Why nobody knows where the next pod of the controller of this one may run; '' if it is known."""
    return _UNTOLD if pod.needs is None and pod.annotations.get(STAY) != "true" else ""


def class_named(needs: Needs | None) -> Need | None:
    """What a pod says of its PriorityClass."""
    return _named(needs, MAX_PRIORITY)


def _named(needs: Needs | None, key: str) -> Need | None:
    every = needs.of_policy if needs is not None else ()
    return next((one for one in every if one.key == key), None)


def most_priority(rows: Iterable[Opening]) -> int | None:
    """The highest value of a PriorityClass that these rows let in."""
    return max((row.max_priority for row in rows if row.max_priority is not None), default=None)


def unmet_class(
    needs: Needs | None, rows: Sequence[Opening], classes: Sequence[PriorityClass]
) -> str:
    """Why a pod cannot run as important as its PriorityClass says in a cluster with these rows and
    classes; '' if it can, or need not.
    """
    need = class_named(needs)
    if need is None or any(row.priority == NONE for row in rows):
        return ""
    why = barred_class(need.word, most_priority(rows), classes)
    return f"{need.field} {why}" if why else ""


def lacking_runtime(needs: Needs | None, classes: Sequence[str] | None) -> str:
    """Why a pod cannot run in a cluster with these RuntimeClasses (None: they are not known); '' if
    it can.
    """
    need = _named(needs, RUNTIME_CLASS)
    if need is None or classes is None or need.word in classes:
        return ""
    return f"{need.field} {need.why}, which does not exist in that cluster: create it there"


def priority_there(
    pod: Pod, rows: Sequence[Opening] | None, classes: Sequence[PriorityClass]
) -> int | None:
    """The priority that a pod with a PriorityClass has in another cluster, which has these rows for
    it and classes; None if it has none, or if that is not known.
    """
    need = class_named(pod.needs)
    most = most_priority(rows or ())
    if need is None or most is None or not classes:
        return None
    found = class_of(need.word, classes)
    if found is not None and found.value <= most:
        return found.value
    if not any(row.priority == NONE for row in rows or ()):
        return None  # it does not go there
    return min((one.value for one in classes if one.default), default=0)


def priority_abroad(
    pod: Pod, rows: Sequence[Opening] | None, classes: Sequence[PriorityClass]
) -> int:
    """How important a pod will be in another cluster, which has these rows for it (None: not known)
    and classes.

    NO_PRIORITY where it preempts nobody: its class there says so, or what it will have there is not
    known.
    """
    need = class_named(pod.needs)
    most = most_priority(rows or ())
    found = class_of(need.word, classes) if need is not None else None
    if found is not None and most is not None and found.value <= most:
        return found.value if found.preempts else NO_PRIORITY
    if need is not None and (not classes or not any(row.priority == NONE for row in rows or ())):
        return NO_PRIORITY
    if not classes and most is None:
        return pod.priority
    default = min(
        (one for one in classes if one.default),
        key=lambda one: one.value,
        default=PriorityClass(""),
    )
    return min(pod.priority, default.value) if default.preempts else NO_PRIORITY
