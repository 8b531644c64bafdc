"""Differential tests: what kube-scheduler decides, what a plain oracle of its rules says, and what our core decides."""
