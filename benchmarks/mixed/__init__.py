"""Mixed work through the whole core: reports in, queue, quota, decisions, records, answers, and
what the watch shows.

No API server and no Ray: an agent is played. Figures are CPU time of one core; each has the same
work with one template beside it, measured in the same run. See docs/benchmarks.md.
"""
