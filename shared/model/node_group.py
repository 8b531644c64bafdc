"""Groups of nodes that an autoscaler makes and removes, and what a new node of one would be
like.
"""

from typing import Annotated, Final

from msgspec import Meta

from shared.model.bounds import Int32, Word
from shared.model.node import Node
from shared.model.pod import Record

MAX_GROUPS: Final = 64  # of a cluster


class NodeGroup(Record, frozen=True):
    """One group, by the name that its autoscaler has for it.

    `size`: nodes that it is to have now; `most`: that it may have. `template`: a new node of it, as
    far as that is told, whose `allocatable` is the most that such a node has; None: it is not known
    how large one is. `seconds`: how long its last growth took until all nodes were ready; 0: none
    was seen. `backs_off`: its autoscaler makes no node for a while, as that failed.
    """

    name: Word
    size: Int32 = 0
    most: Int32 = 0
    template: Node | None = None
    seconds: float = 0.0
    backs_off: bool = False

    @property
    def grows(self) -> bool:
        """Whether its autoscaler makes a node of it now, if a pod needs one."""
        return self.size < self.most and not self.backs_off


class NodeGroups(Record, frozen=True):
    """The node groups of a cluster that its agent sees. `all`: nothing else makes nodes there, by
    the word of its operator.
    """

    groups: Annotated[tuple[NodeGroup, ...], Meta(max_length=MAX_GROUPS)] = ()
    all: bool = False
