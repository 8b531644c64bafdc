"""Agents that this dispatcher starts, as actors on Ray."""
