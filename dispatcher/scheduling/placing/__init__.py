"""One pass over all rows decides a pod: refusals, points, the two best rows and the counts of why
not, whatever class the pod is of.
"""
