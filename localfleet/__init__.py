"""A fleet on one machine: `embedded` clusters, real control planes (`controlplane`) and the `demo`
on either.

A means for demo and tests. Never imported by the core or the agents.
"""
