"""The one Kubernetes API client, for agents, the dispatcher and the command; and the election by a
Lease.
"""
