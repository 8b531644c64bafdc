"""Fake kubelets: they run what is bound to this cluster's own nodes, and report a load that moves.

Here live pod lifecycles, admission, logs, heartbeats, the load model and the kubelet's HTTPS
endpoint. One object simulates all nodes from a heap of due times. Proxy nodes and nodes of others
have no kubelet here. No container really runs: logs say so, and exec, attach and port-forward are
refused.

A pod says by annotations `embedded.global-dispatcher.io/...` what it does: `start-seconds`,
`run-seconds` (none: for ever), `exit-code`, `stop-seconds`; and what it uses: `cpu`, `memory`
(quantities), `net-rx`, `net-tx` (bytes/s). A node says by `background-cpu`, `background-memory`,
`background-net` (shares 0..1) what else is running on it, and by `kubelet: down` that it is lost.
Load and node annotations may be changed at any time.
"""
