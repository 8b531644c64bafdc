"""The dispatcher at work: service loop, links to agents and shards on Ray, leader election, journal, quota file.

Here may not live: a scheduling decision. This room feeds events to the core and carries out its effects.
"""
