"""A whole dispatcher (service, pollers, core) beside a fleet of fake agents, measured from outside: see docs/benchmarks.md."""
