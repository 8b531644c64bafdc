"""Pods of rendered charts on one machine: network, containers as the chart hardens them, and a kubelet's probes."""
