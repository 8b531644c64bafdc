"""One order each, from its message to its outcome."""
