"""One leader after the other is killed or stopped beside a standby, over fake agents: see
docs/benchmarks.md.
"""
