"""What a pod takes over from the place of its node (the admission plugin PodTopologyLabels)."""

from localfleet.embedded.apiserver.status import Object

TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def topology_labels(node: Object | None) -> dict[str, str]:
    """The labels of a node that its pods get (PodTopologyLabels)."""
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    return {key: labels[key] for key in TOPOLOGY if key in labels}
