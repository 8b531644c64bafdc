"""Fake kubelets: they run what is bound to this cluster's own nodes, and report a load that moves.

Here live pod lifecycles, admission, logs, heartbeats, the load model and the kubelet's HTTPS endpoint. One object
simulates all nodes from a heap of due times. Proxy nodes and nodes of others have no kubelet here.
"""
