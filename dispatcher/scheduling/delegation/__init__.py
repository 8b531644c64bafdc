"""The delegate protocol: what is tracked of a pod, what is due for it, and the intents that are in the air."""
