"""What metrics-server does for a cluster: usage of pods on nodes whose kubelets are no part of this
process.

Those of proxy nodes are pages of an agent. What this cluster's own fake kubelets use is known here,
and not asked for.
"""
