"""What is decided, why, and the latest of it of each pod; no policy, and nothing of how places are
found.
"""
