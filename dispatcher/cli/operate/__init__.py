"""What operators do with a whole cluster: cordon, drain, fence, leave. Written into the clusters
themselves.
"""
