"""Container images as columns of their sizes, one an image, made when somebody first asks and kept
up to date.
"""

from collections import Counter
from collections.abc import Mapping

from dispatcher.scheduling.fleet.metrics import ToldColumns
from shared.model.node import Node

IMAGES = "Image"  # the name of these among the kinds of things whose versions are kept


class ImageColumns(ToldColumns):
    """image name -> [rows] bytes of it on each node, 0 where it is not. `versions` moves when any
    answer may.
    """

    def __init__(self, versions: dict[str, int]) -> None:
        super().__init__(lambda node, image: node.images.get(image, 0), 0)
        self._versions = versions
        self._nodes_with: Counter[str] = Counter()

    def nodes_with(self, image: str) -> int:
        """How many nodes have an image."""
        return self._nodes_with[image]

    def move(self, row: int, before: Node | None, after: Node | None) -> None:
        """The node of a row was `before` and is now `after`."""
        old: Mapping[str, int] = before.images if before else {}
        new: Mapping[str, int] = after.images if after else {}
        if old == new and (before is None) == (after is None):
            return
        self._versions[IMAGES] += 1
        self._nodes_with.subtract(old.keys())
        self._nodes_with.update(new.keys())
        for image in old.keys() - new.keys():
            if not self._nodes_with[image]:
                del self._nodes_with[image]
        self.replace(row, after)
