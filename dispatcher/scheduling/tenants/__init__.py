"""Tenants that share the fleet: a tree of quotas, what is lent and borrowed in it, and who has how
much more than was given to it.
"""
