"""Tenants: who is charged, for how much of the fleet, and which part of it their pods may use."""

from functools import lru_cache

import msgspec

from shared.model.pod import Toleration

WEIGHT_ONE = 1000  # weights are in thousandths
# who gives back what was borrowed for a pod of this tenant
NEVER = "never"
LOWER_PRIORITY = "lower_priority"
ANY_PRIORITY = "any"
# Kueue's names: by which shares pods may go for one whose own tenant borrows
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
RECLAIM_STRATEGIES = (FINAL_SHARE, INITIAL_SHARE)
_PART = "@"  # no name of a resource has it
_GUARDED = ("kubernetes.io", "k8s.io", "global-dispatcher.io")  # whose taints protect nodes


class Share(msgspec.Struct, frozen=True):
    """A nominal quota: `absolute` internal units, or `ratio` (0..1) of what the fleet's Ready
    clusters can allocate.
    """

    absolute: int | None = None
    ratio: float | None = None


class FleetPart(msgspec.Struct, frozen=True, order=True):
    """Nodes that a quota is of: those of a cluster, those with labels, or those with both; '' and
    none say nothing.
    """

    cluster: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """As in a quota's key: 'west,pool=ml'."""
        return ",".join(
            ([self.cluster] if self.cluster else []) + [f"{k}={v}" for k, v in self.labels]
        )

    @property
    def words(self) -> str:
        """For people: 'nodes of cluster west with pool=ml'."""
        where = f" of cluster {self.cluster}" if self.cluster else ""
        marked = " and ".join(f"{key}={value}" for key, value in self.labels)
        return f"nodes{where}{f' with {marked}' if marked else ''}"


def quota_key(resource: str, part: FleetPart) -> str:
    """What a quota of a resource on a part of the fleet is called: 'cpu@west'."""
    return f"{resource}{_PART}{part.text}"


def resource_of(key: str) -> str:
    """The resource that a quota is of."""
    return key.partition(_PART)[0]


@lru_cache(4096)
def part_of(key: str) -> FleetPart | None:
    """The part of the fleet that a quota is of, None: the whole."""
    _, found, text = key.partition(_PART)
    if not found:
        return None
    words = text.split(",")
    cluster = "" if "=" in words[0] else words[0]
    marked = (one.partition("=") for one in words if "=" in one)
    return FleetPart(cluster, tuple((label, value) for label, _, value in marked))


def may_be_given(key: str) -> bool:
    """Whether pods may be given a toleration of this key: taints of Kubernetes itself, of what is
    built into it and of ours keep pods off nodes for reasons that no tenant overrules.
    """
    domain, slash, _ = key.partition("/")
    guarded = slash and any(f".{domain}".endswith(f".{one}") for one in _GUARDED)
    return bool(key and not guarded)


class Tenant(msgspec.Struct, frozen=True):
    """A name, the (cluster, namespace) pairs it is charged for, and its nominal quota per resource.

    `namespaces` entries are 'namespace' (in every cluster) or 'cluster/namespace'; the last part
    may end in '*'. `parent`: the tenant that it is part of, '' for none. A resource (or a
    `quota_key`) is limited for a tenant if its tree has an entry in some `nominal`. Limits say what
    it may use beyond what it was given, and what others may use of that; without an entry, all.

    What follows is of it and of all that are part of it. `clusters`: the only ones that its pods go
    to; none: all. `selector`: labels of the only nodes that they go to; `exclusive`: these nodes
    take no other pods. `tolerations`: what its pods are given. `max_priority`: no pod of a higher
    one is placed. `spread`: nodes with the fewest of its pods are better. `reclaim`: which pods of
    borrowers are evicted for its own (NEVER, LOWER_PRIORITY, ANY_PRIORITY; '': as who it is part of,
    else never), by `reclaim_strategies`. `min_runtime_s`: so long its own pods run before they are.
    """

    name: str
    namespaces: tuple[str, ...]
    nominal: dict[str, Share]
    parent: str = ""
    borrowing_limit: dict[str, Share] = {}
    lending_limit: dict[str, Share] = {}
    weight: int = WEIGHT_ONE
    clusters: tuple[str, ...] = ()
    selector: dict[str, str] = {}
    exclusive: bool = False
    tolerations: tuple[Toleration, ...] = ()
    max_priority: int | None = None
    spread: bool = False
    reclaim: str = ""
    reclaim_strategies: tuple[str, ...] = ()
    min_runtime_s: float | None = None

    def owns(self, cluster: str, namespace: str) -> bool:
        """Whether pods submitted to `namespace` of `cluster` are charged to this tenant."""
        return any(_matches(pattern, cluster, namespace) for pattern in self.namespaces)


def _matches(pattern: str, cluster: str, namespace: str) -> bool:
    where, slash, wanted = pattern.rpartition("/")
    if slash and where != cluster:
        return False
    return namespace.startswith(wanted[:-1]) if wanted.endswith("*") else namespace == wanted
