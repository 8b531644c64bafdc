"""Schedulers as processes on a real API server: ours and kube-scheduler, from the same state, one
after the other.
"""
