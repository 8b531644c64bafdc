"""Raw scores of the rows that a merge chooses among, by how many pods of the batch each had taken."""

import numpy as np

from dispatcher.scheduling.framework import Floats, Ints


class RawValues:
    """What was asked, block by block; looked through only when a record is wanted."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Ints, Ints, Floats]] = []

    def add(self, candidates: Ints, taken: Ints, raw: Floats) -> None:
        """[scores, asked] of candidates, each with so many pods of the batch on its row; each such
        pair comes once.
        """
        self._blocks.append((candidates, taken, raw))

    def of(self, candidates: Ints, taken: Ints) -> Floats:
        """[scores, wanted] of these, all of which were asked."""
        if len(self._blocks) > 1:
            asked, had, raws = zip(*self._blocks, strict=True)
            self._blocks = [
                (np.concatenate(asked), np.concatenate(had), np.concatenate(raws, axis=1))
            ]
        all_asked, all_had, raw = self._blocks[0]
        width = 1 + int(all_had.max(initial=0))
        keys = all_asked * width + all_had
        order = np.argsort(keys)
        found: Floats = raw[
            :, order[np.searchsorted(keys, candidates * width + taken, sorter=order)]
        ]
        return found
