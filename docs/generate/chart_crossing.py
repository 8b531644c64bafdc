"""Which kinds of volumes may cross, for the policies of the agent's chart."""

from pathlib import Path

from agents.executor.crossing.pod_fields import REFUSED, TYPES

FILE = Path(__file__).parents[2] / "helm" / "agent" / "files" / "crossing.yaml"
_BY = """\
# What of a volume crosses, by the fields of its kinds, as agents/executor/crossing/pod_fields.py
# has it: written by `python -m docs.generate`.
"""


def render() -> str:
    """The file."""
    told = {"volumes": "Volume", "projected": "VolumeProjection"}
    return _BY + "".join(f"{key}: [{', '.join(allowed(kind))}]\n" for key, kind in told.items())


def allowed(kind: str) -> list[str]:
    """Fields of a type that cross, by some policy at least."""
    return [name for name, decision in TYPES[kind].items() if decision.how != REFUSED]
