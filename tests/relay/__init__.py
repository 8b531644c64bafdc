"""Logs, exec, attach and port-forward between clusters, over real sockets."""
