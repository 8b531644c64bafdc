"""How well pods are spread by live load: a day of a simulated fleet, the same for each placement
policy.

Placed pods make the load, readings of the load steer the next placements: a closed loop.
docs/closed-loop.md has the method and figures; `python -m benchmarks.closed_loop --help` the
options.
"""
