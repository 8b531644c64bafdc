"""Fault-domain levels, from the widest to the narrowest, and the node label that names each."""

from dispatcher.model import names

CLUSTER_LEVEL = "cluster"
HOST_LEVEL = "host"

# level -> node label; `cluster` and `host` are known without a label.
LEVELS: dict[str, str] = {
    "provider": names.PROVIDER,
    "region": names.REGION,
    "zone": names.ZONE,
    "rack": names.RACK,
    CLUSTER_LEVEL: "",
    HOST_LEVEL: "",
}


def level_of(key: str) -> str:
    """The level a topology key stands for: 'zone' and 'topology.kubernetes.io/zone' are one; else the key itself."""
    if key in LEVELS:
        return key
    if key == names.HOSTNAME:
        return HOST_LEVEL
    return next((level for level, label in LEVELS.items() if label == key), key)
