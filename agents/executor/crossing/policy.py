"""What this cluster allows others to do in it. Owned by the admins of the cluster, checked for each
intent.

The ground rule is namespace sameness (SIG-Multicluster): a namespace of one name means the same in
all clusters of a fleet, so its pods may run wherever that namespace exists, unless it is
Kubernetes' own (kube-*), closed by the policy, or closed by a label on the Namespace object itself.
Rows of consent narrow that, and say what more may cross.
"""

from fnmatch import fnmatchcase
from typing import Literal, get_args

import msgspec

from shared.model.bounds import NO_PRIORITY
from shared.model.crossing import Opening, matches
from shared.model.names import ACCEPT, CARRIED_ANNOTATIONS, NONE, STAY
from shared.model.objects import Namespace
from shared.model.pod import SourceRef

# What a row may let in beyond Pod Security's baseline; controlPlane: onto control-plane nodes.
Allowance = Literal[
    "hostPort",
    "capabilities",
    "seccomp",
    "appArmor",
    "procMount",
    "seLinux",
    "sysctls",
    "probeHost",
    "controlPlane",
]
ALLOWANCES: tuple[str, ...] = get_args(Allowance)
# of a PriorityClass that users may make: Kubernetes' own (system-*) are above
HIGHEST_OF_USERS = 1_000_000_000
# longer than any order takes: of one that is under way nobody need know
LEAST_REMOVE_AFTER_S = 300.0
_AT_HOME = f'keep the pod at home with annotation {STAY}: "true"'


class Accept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Source clusters and namespaces whose pods may run here; shell patterns ('*', 'team-*').

    What else may cross with them: `allow` names fields (ALLOWANCES); `secrets` are patterns of the
    names of Secrets that a pod may refer to, of those that exist here, `secrets_follow` of those of
    which copies are made here, where their owners at home let them go; `annotations` patterns of
    the keys with a domain that are kept, of annotations and of the labels that steer meshes and
    identities; `tolerations` patterns of the keys that are kept beyond the harmless ones ("*": also
    the one without a key); `service_accounts` patterns of ServiceAccounts whose pods run here
    without one, `local_accounts` of those whose pods run as the account of that name here, with
    tokens of this cluster. `services` "none": such pods call no Services of their namespace, so it
    does not matter which of them are here. `max_priority`: a pod may have the PriorityClass of its
    name here if the value of that is no higher; `priority` "none": one that it may not have, or
    that is lacking here, is left behind instead of the pod.
    """

    clusters: tuple[str, ...] = ("*",)
    namespaces: tuple[str, ...] = ("*",)
    allow: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    secrets_follow: tuple[str, ...] = ()
    annotations: tuple[str, ...] = CARRIED_ANNOTATIONS
    tolerations: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    local_accounts: tuple[str, ...] = ()
    services: Literal["", "none"] = ""
    max_priority: int = HIGHEST_OF_USERS
    priority: Literal["", "none"] = ""

    def covers(self, cluster: str, namespace: str) -> bool:
        """Whether one source is meant by this row."""
        return matches(self.clusters, cluster) and matches(self.namespaces, namespace)


class Grants(msgspec.Struct, frozen=True):
    """What the rows that cover one source let in together; fields as in Accept."""

    allow: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    secrets_follow: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    tolerations: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    local_accounts: tuple[str, ...] = ()
    max_priority: int = HIGHEST_OF_USERS
    without_priority: bool = False
    no_services: bool = False

    def takes(self, kind: str, name: str) -> bool:
        """Whether a copy may be made of an object of this kind and name."""
        return kind != "Secret" or matches(self.secrets_follow, name)


class ForeignBytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """MiB of pods of one other cluster, and of one namespace of it: those that are here, and those
    made in a minute.
    """

    namespace_mib: int = 256
    cluster_mib: int = 512
    namespace_mib_per_minute: int = 64
    cluster_mib_per_minute: int = 128


class MadeNamespaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Namespaces (patterns) that are made here for pods that are accepted, with these labels, `most`
    at once; of these half for one other cluster.

    `remove_after_s`: one that no order has named for so long is removed, if it is empty; 0: never.
    """

    create: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    most: int = 100
    remove_after_s: float = 0.0


class ExecutorPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of consent: within namespace sameness, a source is accepted if any row covers it.
    `closed` are patterns of namespaces that take no pods of other clusters.

    `foreign_bytes`: how large pods of other clusters may be here, all together. `relay`: what other
    clusters may ask of their delegates here: logs alone, or also exec, attach and port-forward.
    `evict_foreign`: pods of other schedulers may be evicted for pods of this cluster that are of
    higher priority. `namespaces`: those that are made here. `services`: Services of their
    namespaces are made here, and ours given to others, where pod networks are one.
    """

    accept: tuple[Accept, ...] = (Accept(),)
    evict_foreign: bool = False
    closed: tuple[str, ...] = ()
    relay: Literal["all", "logs", "none"] = "logs"
    foreign_bytes: ForeignBytes = ForeignBytes()
    namespaces: MadeNamespaces = MadeNamespaces()
    services: bool = False

    def takes_any(self, kind: str) -> bool:
        """Whether copies may be made of objects of this kind of anybody."""
        return kind != "Secret" or any(row.secrets_follow for row in self.accept)

    def makes(self, namespace: str) -> bool:
        """Whether a namespace of this name is made where it is missing."""
        return matches(self.namespaces.create, namespace)

    def refusal(self, source: SourceRef, cluster: str, namespace: Namespace | None) -> str:
        """Why pods of this source may not run in `cluster`, whose Namespace object is given (None:
        it has none); '' if they may.
        """
        name = source.namespace
        if Namespace(name).system:
            return (
                f'namespace "{name}" is Kubernetes\' own and another one in every cluster: '
                f"{_AT_HOME}"
            )
        pattern = next((one for one in self.closed if fnmatchcase(name, one)), None)
        if pattern is not None:
            key = f'"{pattern}" in its `executor.closed`'
            return (
                f'namespace "{name}" is closed in cluster "{cluster}" by {key}: remove it there, '
                f"or {_AT_HOME}"
            )
        if namespace is None and not self.makes(name):
            return absent(name, cluster)
        if namespace is not None and namespace.closed:
            mark = f'{ACCEPT}: "{namespace.labels[ACCEPT]}"'
            where = (
                f'namespace "{name}" of cluster "{cluster}" has the label, or annotation, {mark}'
            )
            return f"{where}: remove it there, or {_AT_HOME}"
        if self._rows(source):
            return ""
        return (
            f'cluster "{cluster}" does not accept pods of namespace "{name}" of cluster '
            f'"{source.cluster}": add a row to its `executor.accept`, or {_AT_HOME}'
        )

    def grants(self, source: SourceRef) -> Grants:
        """What may cross with pods of this source."""
        rows = self._rows(source)
        return Grants(
            allow=frozenset(word for row in rows for word in row.allow),
            secrets=tuple(one for row in rows for one in row.secrets),
            secrets_follow=tuple(one for row in rows for one in row.secrets_follow),
            annotations=tuple(one for row in rows for one in row.annotations),
            tolerations=tuple(one for row in rows for one in row.tolerations),
            service_accounts=tuple(one for row in rows for one in row.service_accounts),
            local_accounts=tuple(one for row in rows for one in row.local_accounts),
            max_priority=max((row.max_priority for row in rows), default=NO_PRIORITY),
            without_priority=any(row.priority == NONE for row in rows),
            no_services=any(row.services == NONE for row in rows),
        )

    @property
    def openings(self) -> tuple[Opening, ...]:
        """What the dispatcher is told of it; where nobody is accepted, a row that covers nobody."""
        return tuple(self._opening(row) for row in self.accept or (Accept((), ()),))

    def _opening(self, row: Accept) -> Opening:
        return Opening(
            row.clusters,
            row.namespaces,
            row.tolerations,
            self.closed,
            row.allow,
            row.secrets,
            (*row.service_accounts, *row.local_accounts),
            row.services,
            row.max_priority,
            row.priority,
            self.namespaces.create,
            row.secrets_follow,
        )

    def _rows(self, source: SourceRef) -> list[Accept]:
        return [row for row in self.accept if row.covers(source.cluster, source.namespace)]


def absent(namespace: str, cluster: str) -> str:
    """What is said where a namespace of this name is missing."""
    return (
        f'namespace "{namespace}" does not exist in cluster "{cluster}", as far as its agent can '
        "see: create it there, or list it in its `executor.namespaces.create`, to let its pods run "
        "there"
    )
