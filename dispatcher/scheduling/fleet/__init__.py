"""The fleet as columns, one row a node, and all that is counted in them: kept event by event, never
recounted.
"""
