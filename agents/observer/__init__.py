"""Pure: watch events and readings in; the cache, numbered changes and rates out. No clock, no I/O."""
