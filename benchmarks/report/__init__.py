"""What becomes of figures: rows with their machine, kept over time, shown beside what others
publish.
"""
