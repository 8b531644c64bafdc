"""Rebalancing: which nodes have been hot for long, and which of their pods would be clearly better
off elsewhere.
"""
