"""Pods of classes that are not kept: upper bounds first, exact scores for the rows that may still
win.
"""
