"""The central dispatcher: one scheduler for the pods of many clusters.

Rooms, each importing only those before it: `model` (nouns), `scheduling` (the pure core), `plugins`
(one policy a file), `kit` (for their authors), and the rooms that touch the world: `config`
(settings), `service` (loop, Ray, leader election) with `api` (HTTP API, metrics), `cli` (the
command).
"""
