"""One policy a file, and `registry`, a plain table of them. Plugins never import each other.

A plugin is pure: it reads the fleet's columns and answers with vectors. It never logs, never
mutates its input, never raises for an expected rejection. How to add one: CONTRIBUTING.md.
"""
