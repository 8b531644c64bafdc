"""Shards of the fleet as Ray actors."""
