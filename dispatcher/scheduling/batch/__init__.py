"""Many equal pods at once: their places in the order that one-by-one would find, without asking
everybody each time.
"""
