"""Large fleets in shards of rows: what a shard holds, what it is asked, and how its answers join the driver's."""
