"""Calls to agents: what is asked of them, and what they are sent."""
