"""What one compiled pass over all rows costs, for one pod of a class that was never met: the
decision of the default profile, without anything kept for the class.
"""
