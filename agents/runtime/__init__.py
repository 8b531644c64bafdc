"""The agent's shell: settings, the Ray actor, the loops that join kube, telemetry, observer and
executor.
"""
