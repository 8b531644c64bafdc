"""The delegate protocol: what is tracked of a pod, its next step, and the intents that are in
flight.
"""
