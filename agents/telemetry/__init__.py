"""Node readings, one source a file: each gives raw samples with their time; rates are the
observer's work.
"""
