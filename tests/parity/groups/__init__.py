"""PodGroups before kube-scheduler and before our core: which start, in which domains they could, and where they go."""
