"""One Prometheus of 5,000 nodes: what an agent asks it, what its readings cost, and what follows
when it hangs.
"""
