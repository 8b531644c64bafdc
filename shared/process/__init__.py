"""What a process of ours needs of the machine: its event loop, its log, its limits, the files its
settings name.
"""
