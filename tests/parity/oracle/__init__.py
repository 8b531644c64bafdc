"""kube-scheduler's documented rules once more, in plain Python over plain manifests, one plugin a function.

Written from kube-scheduler 1.37's behaviour and independent of our plugins and of our reading of manifests. It reads
what an API server has defaulted (`defaulting.py` does that for generated manifests).
"""
