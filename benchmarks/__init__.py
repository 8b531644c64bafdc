"""Measured figures of the core and the agent: `make bench`. Never a timed test; each row says what
it counts.
"""
