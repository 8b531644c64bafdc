"""The agent's own way to its dispatchers: it dials out to their gateways, over one TLS port each."""
