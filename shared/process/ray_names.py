"""What Ray knows agents by: both sides need it, and neither needs Ray for it."""

NAMESPACE = "global-dispatcher"


def actor_name(cluster: str) -> str:
    """How names of the actors of a cluster begin, in NAMESPACE."""
    return f"agent:{cluster}"


def resource_name(cluster: str) -> str:
    """The custom resource of the nodes that an agent of this cluster may run on."""
    return f"cluster:{cluster}"
