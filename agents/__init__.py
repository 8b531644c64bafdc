"""The per-cluster agent: an observer that reads and an executor that writes, with messages between them.

`observer` and `executor` are pure; `kube` and `telemetry` speak HTTP; `runtime` wraps both as a Ray actor;
`embedded` is a Kubernetes API with fake kubelets for demo and tests, known to none of the others.
"""
