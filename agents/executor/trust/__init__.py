"""Whose orders count, until when, and which other clusters there are."""
