"""The one Kubernetes API client: authentication, list and watch, typed decode, writes. No
decisions.
"""
