"""One suite for two servers: the embedded API server and a real kube-apiserver must pass the same cases.

A case knows neither: it gets `api`, a client with a namespace of its own, or `kubectl`. What a real server does is what
is written down here; where the embedded one differs, the embedded one is wrong.
"""
