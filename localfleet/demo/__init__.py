"""`global-dispatcher demo`: a fleet of clusters, Ray, agents and the dispatcher on this machine,
and pods to watch.
"""
