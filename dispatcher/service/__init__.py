"""The dispatcher at work: service loop, links to agents, leader election, journal, quota file,
metrics, views.

Here may not live: a scheduling decision. This room feeds events to the core and carries out its
effects.
"""
