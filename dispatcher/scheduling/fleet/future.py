"""The nodes that autoscalers could make, as a fleet of its own: one row for each node group, as if a
node of it had just come and no pod was there.
"""

import msgspec

from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.names import HOSTNAME
from shared.model.node import Node
from shared.model.node_group import NodeGroup
from shared.model.resources import EPHEMERAL_STORAGE, MAX_QUANTITY


class FutureFleet(FleetState):
    """A row for each group of which it is told what its nodes are like. Clusters, objects, cordons
    and taints of proxy nodes are those of `present`.
    """

    def __init__(self, present: FleetState) -> None:
        super().__init__(now=present.now)
        self._present = present
        self._at = (-1, -1)
        self.kept = present.kept
        self.closed = present.closed
        self.proxy_taints = present.proxy_taints

    def follow(self) -> None:
        """Bring it up to date."""
        present = self._present
        self.now = present.now
        if self._at == (present.groups.version, present.clusters_version):
            return
        self._at = (present.groups.version, present.clusters_version)
        for info in present.clusters:  # in their order: an index means the same cluster in both
            self.set_cluster(
                info.name,
                ready=info.ready,
                synced=info.synced,
                opens=info.opens,
                priority_classes=info.priority_classes,
                network=info.network,
                runtime_classes=info.runtime_classes,
            )
        for info in present.clusters:
            groups = present.groups.of(info.name).groups
            nodes = [_future(one, one.template) for one in groups if one.template is not None]
            for name in set(self.node_names(info.name)) - {node.name for node in nodes}:
                self.remove_node(info.name, name)
            self.put_nodes(info.name, nodes)


def _future(group: NodeGroup, template: Node) -> Node:
    """What is not told of a node refuses no pod: its disk, and whether it is ready."""
    return msgspec.structs.replace(
        template,
        name=group.name,
        labels={HOSTNAME: group.name, **template.labels},
        allocatable={EPHEMERAL_STORAGE: MAX_QUANTITY, **template.allocatable},
        ready=True,
        unschedulable=False,
        proxy_for="",
    )
