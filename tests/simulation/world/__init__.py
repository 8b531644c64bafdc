"""A world for the whole product: its agents and dispatcher as they are, API servers, kubelets, controllers and people
around them, under one virtual clock. Nothing here imports product code except `processes` and `client`.
"""
