"""Writes the reference pages of docs/reference from the code: `python -m docs.generate`.

A test holds that the pages are what the code says, and that each of its names is explained.
"""
