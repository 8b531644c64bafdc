"""`global-dispatcher join`, `revoke`, `install`: one cluster made ready, by its kubeconfig context."""
