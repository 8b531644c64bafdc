"""The controllers of an embedded cluster: Deployments, ReplicaSets, Jobs, nodes, disruption
budgets, collection.

Level-triggered: an event only names what to look at; `reconcile` compares what is wanted with what
is, and each decision is a pure function of objects and time. Here may not live: scheduling, or
anything about other clusters.
"""
