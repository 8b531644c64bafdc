"""`global-dispatcher agent`: the agent of a cluster as a process of its own, beside its API server."""
