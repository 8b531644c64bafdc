"""Equivalence classes of pods: what every plugin answers for every row, cached; refreshed where
something changed.
"""
