"""One decision, from the queue to the bind: the scheduling cycle, the binding cycle, preemption and
nominations.
"""
