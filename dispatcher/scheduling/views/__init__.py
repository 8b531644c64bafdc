"""What people ask of the core: clusters, nodes, pods and why, as plain JSON-ready rows in a stable
order.
"""

from dispatcher.scheduling.views.cluster_rows import cluster_names, clusters_view, links_view
from dispatcher.scheduling.views.drain_rows import drain_view
from dispatcher.scheduling.views.node_rows import nodes_view
from dispatcher.scheduling.views.pieces import Pieces, Row, whole
from dispatcher.scheduling.views.pod_rows import count_pods, explain, pods_view, source_of
from dispatcher.scheduling.views.queue_rows import place_view, queue_counts, queue_view
from dispatcher.scheduling.views.tenant_rows import TenantRows
from dispatcher.scheduling.views.usage_rows import usage_view
from dispatcher.scheduling.views.victim_rows import victims_view

__all__ = [
    "Pieces",
    "Row",
    "TenantRows",
    "cluster_names",
    "clusters_view",
    "count_pods",
    "drain_view",
    "explain",
    "links_view",
    "nodes_view",
    "place_view",
    "pods_view",
    "queue_counts",
    "queue_view",
    "source_of",
    "usage_view",
    "victims_view",
    "whole",
]
