"""Logs, exec, attach and port-forward of remote pods: a kubelet's endpoint for proxy nodes, and its
far end.
"""
