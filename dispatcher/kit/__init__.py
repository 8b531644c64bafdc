"""For authors of plugins: nodes and pods to ask about, questions to ask, the laws of every plugin,
templates.

`global-dispatcher plugin new NAME` writes a plugin with its test from the template; `plugin check
FILE` holds a file to the laws. The dispatcher does the same before it takes over a plugin file that
has changed.
"""

from dispatcher.kit.call_plugin import reasons, scores
from dispatcher.kit.laws import broken_laws
from dispatcher.kit.samples import a_fleet, a_node, a_pod, seat
from dispatcher.kit.waiting_room import Room
from dispatcher.scheduling.fleet.view import view_of

__all__ = [
    "Room",
    "a_fleet",
    "a_node",
    "a_pod",
    "broken_laws",
    "reasons",
    "scores",
    "seat",
    "view_of",
]
