"""`global-dispatcher inventory`: the ClusterProfiles of a cluster manager, and a kubeconfig of
their clusters.
"""
