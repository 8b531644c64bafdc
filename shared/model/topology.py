"""Fault-domain levels, from the widest to the narrowest, and the node label that names each."""

from difflib import get_close_matches
from functools import lru_cache

from shared.model import names

CLUSTER_LEVEL = "cluster"
HOST_LEVEL = "host"
_ALIKE = 0.7  # of difflib
_READ = 80  # characters of a key that are compared
# No label key holds an @ or a colon.
_SCOPED = "@cluster"  # ends a topology key whose domains lie each within one cluster
# begins the topology key of a node label that has, or nearly has, the short name of a level
_LABEL = "label:"

# level -> node label; `cluster` and `host` are known without a label.
LEVELS: dict[str, str] = {
    "provider": names.PROVIDER,
    "region": names.REGION,
    "zone": names.ZONE,
    "rack": names.RACK,
    CLUSTER_LEVEL: "",
    HOST_LEVEL: "",
}


@lru_cache(maxsize=1024)
def level_of(key: str) -> str:
    """The level a topology key stands for: 'zone' and 'topology.kubernetes.io/zone' are one; else
    the key itself.

    For keys of our own: of the spread annotation, of profiles and of the core. Fields of Kubernetes
    go by `label_key`.
    """
    if key.endswith(_SCOPED):
        return within_cluster(key[: -len(_SCOPED)])
    if key in LEVELS:
        return key
    if key == names.HOSTNAME:
        return HOST_LEVEL
    return next((level for level, label in LEVELS.items() if label == key), key)


def label_key(label: str) -> str:
    """The topology key of a node label that a field of Kubernetes names: 'zone' is that label and
    no level of ours.

    The label behind a level (topology.kubernetes.io/zone) is that level; a host is a node, whatever
    its label says.
    """
    return _LABEL + label if label in LEVELS or meant_level(label) else level_of(label)


def within_cluster(key: str) -> str:
    """The topology key whose domains are those of `key`, each within one cluster: zone x of two
    clusters is two.
    """
    level = level_of(key)
    return (
        level
        if level in (CLUSTER_LEVEL, HOST_LEVEL) or level.endswith(_SCOPED)
        else level + _SCOPED
    )


@lru_cache(maxsize=1024)
def meant_level(key: str) -> str:
    """The level that a node label without a domain is so like that it may be meant: zone for
    'zones'; else ''.

    A key of `label_key` means its label, so it is like none.
    """
    word = key.removesuffix(_SCOPED)[:_READ]
    compared = bool(word) and "/" not in word and not word.startswith(_LABEL)
    close = get_close_matches(word.lower(), LEVELS, 1, _ALIKE) if compared else []
    return close[0] if close and word not in LEVELS else ""


def label_of(level: str) -> tuple[str, bool]:
    """The node label behind a level other than cluster and host, and whether its domains lie within
    one cluster.
    """
    base = level.removesuffix(_SCOPED)
    return LEVELS.get(base, base.removeprefix(_LABEL)), base != level
