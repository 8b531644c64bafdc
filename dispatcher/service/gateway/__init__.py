"""Where agents dial in: one TLS port for all clusters, each known by its certificate."""
