"""Container images as columns of their sizes, one an image, made when somebody first asks and kept
up to date.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dispatcher.scheduling.fleet.columns import grown, read_only
from dispatcher.scheduling.framework import Ints
from shared.model.node import Node

IMAGES = "Image"  # the name of these among the kinds of things whose versions are kept


class ImageColumns:
    """image name -> [rows] bytes of it on each node, 0 where it is not. `versions` moves when any
    answer may.

    At most `limit` images are kept; the one unused for longest is dropped, and made anew if asked
    for again.
    """

    def __init__(self, versions: dict[str, int], limit: int = 1024) -> None:
        self._versions = versions
        self._limit = limit
        self._columns: dict[str, Ints] = {}
        self._nodes_with: Counter[str] = Counter()

    def nodes_with(self, image: str) -> int:
        """How many nodes have an image."""
        return self._nodes_with[image]

    def sizes(self, image: str, nodes: Sequence[Node | None]) -> Ints:
        """[len(nodes)] bytes, read-only; `nodes` are the rows, None where a row is dead."""
        column = self._columns.pop(image, None)
        if column is None:
            if len(self._columns) >= self._limit:
                del self._columns[next(iter(self._columns))]
            sizes = (0 if node is None else node.images.get(image, 0) for node in nodes)
            column = np.fromiter(sizes, dtype=np.int64, count=len(nodes))
        self._columns[image] = column = grown(column, len(nodes), 0)
        window: Ints = read_only(column[: len(nodes)])
        return window

    def replace(self, row: int, before: Node | None, after: Node | None) -> None:
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
        for image in self._columns:
            self._columns[image] = grown(self._columns[image], row + 1, 0)
            self._columns[image][row] = new.get(image, 0)
