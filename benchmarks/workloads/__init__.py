"""The workloads of Kubernetes' scheduler_perf (1.36.3) by name: nodes, templates, counts. Data
only.
"""
