"""Forms in which objects are read and shown."""
