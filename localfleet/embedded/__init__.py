"""A Kubernetes API server with small controllers and fake kubelets, on loopback, one process a
cluster.

A means for demo, simulation and fast tests: as faithful as kubectl's daily verbs and our agent
need, no more. Never imported by the core or the agent.
"""
