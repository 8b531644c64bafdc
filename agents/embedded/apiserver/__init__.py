"""The rules of the Kubernetes API as tables and small functions: rows, validation, defaults, patches, tables, watch.

`agents.embedded.api` applies them to what `agents.embedded.storage` holds; `agents.embedded.http` speaks HTTP for them.
Nothing here touches the network.
"""
