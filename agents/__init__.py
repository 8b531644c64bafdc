"""The per-cluster agent: an observer that reads and an executor that writes, with messages between
them.

`observer` and `executor` are pure; `kube` and `telemetry` speak HTTP; `runtime` wraps both as a Ray
actor.
"""
