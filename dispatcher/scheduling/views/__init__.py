"""What people ask of the core: clusters, nodes, pods and why, as plain JSON-ready rows in a stable order."""

from dispatcher.scheduling.views.clusters import clusters_view, links_view
from dispatcher.scheduling.views.nodes import nodes_view
from dispatcher.scheduling.views.pieces import Pieces, Row, whole
from dispatcher.scheduling.views.pods import explain, pods_view, source_of
from dispatcher.scheduling.views.usage import usage_view

__all__ = [
    "Pieces",
    "Row",
    "clusters_view",
    "explain",
    "links_view",
    "nodes_view",
    "pods_view",
    "source_of",
    "usage_view",
    "whole",
]
