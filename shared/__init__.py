"""What the dispatcher and its agents share: it imports neither, and they never import each other
through it.
"""
