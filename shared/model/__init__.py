"""The nouns: what the dispatcher and its agents talk about. Data and arithmetic on it only.

Here live resources, labels and selectors, pods, nodes, clusters, tenants, reasons and the wire
messages. Here may not live: decisions, I/O, clocks, randomness. Agents may import this room and no
other of the dispatcher.
"""
