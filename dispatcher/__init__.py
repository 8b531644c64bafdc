"""The central dispatcher: one scheduler for the pods of many clusters.

Rooms, each importing only those before it: `model` (nouns), `scheduling` (the pure core),
`plugins` (one policy a file), `runtime` (the only room that touches the world), `web` (the page).
"""

__version__ = "0.1.0"
