"""The rules of the Kubernetes API as tables and small functions: rows, validation, defaults,
patches, tables, watch.

`localfleet.embedded.api` applies them to what `localfleet.embedded.storage` holds;
`localfleet.embedded.http` speaks HTTP for them. Nothing here touches the network.
"""
