"""What a pod asks of nodes, read once for the plugins: affinity, spread, volumes, and whole-number
arithmetic.
"""
