"""What plugins have the fleet keep of readings beside shares and means: deviations and hot nodes."""

import math
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.fleet.hot import MAX_RULES, updated_mask
from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.framework.derived import Derived, HotRule, joined


class DerivedReadings(NodeTable):
    """The rows, and what is kept of their readings because a profile asks for it."""

    now: float
    loads: ChangedRows

    @property
    def clock(self) -> float:
        """The time that plugins see: the next full second, so that what rests on it is not asked
        anew for each pod. No sample is younger.
        """
        return float(math.ceil(self.now))

    def derive(self, wanted: Derived, *, only: bool = False) -> None:
        """From now on keep this, too (`only`: and nothing else); rules that were kept go on. Rules
        past the 31st are not kept.
        """
        before = self.signals.derived
        now = wanted if only else joined((before, wanted))
        rules = now.hot[:MAX_RULES]
        if (now.deviations, rules) != (before.deviations, before.hot):
            known = [before.hot.index(rule) if rule in before.hot else None for rule in rules]
            self._store.derive(deviations=now.deviations, rules=known)
            self.signals.derived = Derived(now.deviations, rules)
            self._show()
            self.loads.extend(np.flatnonzero(self.live))
            self.update_hot()

    def update_hot(self) -> bool:
        """Bring up to date which nodes are hot (`hot.py`): when readings came, and as they grow
        old. Whether one is so no more.
        """
        if not self.signals.derived.hot:
            return False
        mask = updated_mask(self, self._store, self.signals.derived.hot, self.now)
        before = self.hot
        turned = np.flatnonzero(mask != before)
        cooled = bool((before & ~mask).any())
        self._store.hot[: self.n] = mask
        self.loads.extend(turned)
        return cooled

    def heat_of(self, row: int) -> Sequence[tuple[HotRule, float]]:
        """The rules by which a node is hot, and since when; also where so many are that it is not
        shown as such.
        """
        found = zip(self.signals.derived.hot, self.hot_since[:, row].tolist(), strict=True)
        return [(rule, since) for rule, since in found if not math.isnan(since)]
