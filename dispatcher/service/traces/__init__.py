"""Traces of some pods' ways from their creation until they are shown bound."""
