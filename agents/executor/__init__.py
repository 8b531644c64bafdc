"""Pure: intents, local policy and watch events in; binds, claims, delegates, mirrored status out.
No clock, no I/O.
"""
