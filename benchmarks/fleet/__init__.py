"""A whole dispatcher beside a fleet of fake agents, measured from outside: see docs/benchmarks.md."""
