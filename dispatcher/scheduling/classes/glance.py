"""A pod of a class that is not kept: decided exactly from what plugins say of rows, which nobody keeps.

In a small fleet all rows are asked at once. In a large one two questions are answered for all rows at a few operations
each: how high may it reach (`ceilings`), and is enough free (`free_room`). Then the rows are asked that reach furthest;
what their second best scores is a bar, and whoever may reach it is asked, too. So the best row and the runner-up are
those of all rows, and so are the counts of refusals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.classes.ceilings import Ceilings, Reaches
from dispatcher.scheduling.classes.free_room import FreeRoom
from dispatcher.scheduling.classes.groups import Bonus, two_best
from dispatcher.scheduling.classes.judges import Judge, finite
from dispatcher.scheduling.classes.peaks import NOWHERE
from dispatcher.scheduling.classes.pod_class import merged
from dispatcher.scheduling.classes.rows import add_score, close_totals
from dispatcher.scheduling.classes.shared_answers import SharedColumn, count_codes
from dispatcher.scheduling.classes.shared_part import SharedPart
from dispatcher.scheduling.explain import Account, Decision, Ground, Notes, Scores
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.occupants import PodId, nonzero_request
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import SKIP, Codes, Floats, Placed, Rows
from dispatcher.scheduling.framework.roles import Role

_FIRST = 48  # rows that are asked at once
_MOST_SHARE = 4  # if more than a fourth of all rows may win, looking at all of them is as good


class Setting:
    """What glances at pods of one shared part have in common, whom the same plugins judge by row.

    `scored`: who scores, in profile order, a column or a place in the judges that score. `bonus`: points that all rows
    have in common, `common` (place in `scored`, raw, normalised) the scores behind them. Without `ceilings` all rows
    are asked.
    """

    def __init__(self, profile: str, part: SharedPart, roles: Sequence[Role], ceilings: Ceilings | None) -> None:
        self.part, self.epoch, self.source, self.ceilings, self._profile = (
            part,
            part.epoch,
            part.bonus,
            ceilings,
            profile,
        )
        by_row = [role for role in roles if role.score_at is not None]
        columns = [one for one in part.heard if one.role.score_at is not None]
        scored: list[tuple[Role, SharedColumn | int]] = [(one.role, one) for one in columns]
        scored += [(role, at) for at, role in enumerate(by_row)]
        scored.sort(key=lambda one: one[0].score_at or 0)
        self.scored = tuple(one for _, one in scored)
        places = [role.score_at for role, _ in scored]
        self.names = tuple(role.name for role, _ in scored), tuple(role.weight for role, _ in scored)
        self.points = [one for one in columns if not one.role.normalizes]
        self.bonus, common = _settled(self.source)
        self.common = [(at, *common[place]) for at, place in enumerate(places) if place in common]
        self._ground: Ground | None = None
        self._clusters = 0

    @property
    def current(self) -> bool:
        """Whether it is about its part as that is now."""
        return self.epoch == self.part.epoch and self.source is self.part.bonus

    def ground(self, fleet: FleetState, refused: Mapping[tuple[int, int], int]) -> Ground:
        """What a decision stands on when rows are `refused` beside those that the shared filters refuse."""
        joint = self.part.joint
        if refused:
            feasible = fleet.n - joint.refused - sum(refused.values())
            return self._make(fleet, merged(joint.rejected, refused), feasible)
        known = self._ground
        if known is None or known.rejected is not joint.rejected or self._clusters != len(fleet.clusters):
            known = self._ground = self._make(fleet, joint.rejected, fleet.n - joint.refused)
            self._clusters = len(fleet.clusters)
        return known

    def _make(self, fleet: FleetState, rejected: Mapping[tuple[int, int], int], feasible: int) -> Ground:
        names = tuple(info.name for info in fleet.clusters)
        return Ground(self._profile, fleet.reasons, names, rejected, feasible, self.part.joint.evaluated)


def _settled(bonus: Bonus | None) -> tuple[float, dict[int | None, tuple[float, float]]]:
    if bonus is None or not bonus.settle(np.ones(1, dtype=np.bool_)).item(0):
        return NOWHERE, {}
    common: dict[int | None, tuple[float, float]] = {
        at: (bonus.raw[at].item(0), values.item(0)) for at, values in bonus.normal.items()
    }
    return bonus.points.item(0), common


@dataclass(slots=True)
class _Found:
    """Rows that were asked, ascending (None: all), and what they said: `totals` -inf where refused, `raw` of each judge
    that scores. `best`: where the two best stand, -1 where there is none.
    """

    rows: RowList | None
    totals: Floats
    raw: list[Floats]
    best: tuple[int, int]

    def row(self, at: int) -> int:
        """The row that stands there."""
        return at if self.rows is None else self.rows.item(at)


class Glance:
    """One pod and who judges it."""

    def __init__(self, fleet: FleetState, setting: Setting, judges: Sequence[Judge], room: FreeRoom) -> None:
        self._fleet, self._setting, self._judges, self._room = fleet, setting, judges, room
        self._filters = [one for one in judges if one.role.filter_at is not None]
        self._scorers = [one for one in judges if one.role.score_at is not None]

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter; SKIP if it was not asked."""
        heard = (*(column.judge for column in self._setting.part.heard), *self._judges)
        return next((one.state for one in heard if one.role.name == plugin), SKIP)

    def decide(self, pod_id: PodId, placed: Placed) -> Decision | None:
        """The place for the pod and why; None if that cannot be told at a glance, or there is none."""
        fleet, setting = self._fleet, self._setting
        short = self._short()
        if short is None or setting.bonus == NOWHERE:
            return None
        rows, codes = self._refusals(short)
        if setting.ceilings is None:
            found: _Found | None = self._all(rows, codes)
        else:
            reaches = setting.ceilings.reaches(setting.part.tops(), *nonzero_request(placed.pod))
            found = self._best_two(reaches, setting.ceilings, refuses=len(rows) > 0)
        if found is None or found.best[0] < 0:
            return None
        first, rival = found.best
        row = found.row(first)
        account = Account(
            setting.ground(fleet, count_codes(codes, fleet, rows) if len(rows) else {}),
            fleet.clock,
            fleet,
            self._later(),
            self._scores(found),
            RowFacts.of(fleet, row),
            None if rival < 0 else (*fleet.name_of(found.row(rival)), found.totals.item(rival) + setting.bonus),
        )
        return Decision(pod_id, placed, *fleet.name_of(row), row, found.totals.item(first) + setting.bonus, account)

    # --- who is refused ----------------------------------------------------------------------------------------------

    def _short(self) -> RowList | None:
        """Rows that the filters by row may refuse; None: any."""
        found: list[RowList] = []
        for judge in self._filters:
            wanted = judge.role.plugin.wants(judge.state)
            rows = None if wanted is None else self._room.short_of(wanted)
            if rows is None:
                return None
            found.append(rows)
        return found[0] if len(found) == 1 else distinct(*found)

    def _refusals(self, short: RowList) -> tuple[RowList, Codes]:
        """Rows that the filters by row are to be asked about, and what the first says that refuses."""
        rows = short[self._setting.part.joint.first[short] == 0] if len(short) else short
        return rows, self._codes(rows)

    def _codes(self, rows: RowList) -> Codes:
        codes = np.zeros(len(rows), dtype=np.uint16)
        if len(rows):
            for judge in self._filters:
                np.copyto(codes, judge.codes(self._fleet, rows), where=codes == 0)
        return codes

    # --- who wins ----------------------------------------------------------------------------------------------------

    def _all(self, rows: RowList, codes: Codes) -> _Found:
        """All rows; `codes`: why the filters by row refuse `rows`, and no others."""
        n = self._fleet.n
        first = self._setting.part.joint.first[:n]
        if len(rows):
            first = first.copy()
            first[rows] = codes
        return self._ask(slice(0, n), first)

    def _best_two(self, reaches: Reaches, ceilings: Ceilings, *, refuses: bool) -> _Found | None:
        """Rows among which are the two best of all; None if too many may be."""
        most = max(_FIRST * 2, self._fleet.n // _MOST_SHARE)
        usual, ceilings.usual = ceilings.usual, None
        bar = reaches.enough(_FIRST) if usual is None else reaches.top - usual
        rows, loose = reaches.between(bar, np.inf, most), ceilings.loose
        if rows is None:
            return None
        found = self._ask_some(np.sort(np.concatenate([rows, loose])) if len(loose) else rows, refuses=refuses)
        second = found.totals.item(found.best[1]) if found.best[1] >= 0 else NOWHERE
        if second < bar:
            rest = reaches.between(second, bar, most)
            if rest is None:
                return None
            if len(rest):
                found = self._joined(found, self._ask_some(rest, refuses=refuses))
        if NOWHERE < second < reaches.top:
            ceilings.usual = reaches.top - second
        return found

    def _ask_some(self, rows: RowList, *, refuses: bool) -> _Found:
        """Some rows; the filters by row only if they refuse any."""
        first = self._setting.part.joint.first[rows]
        if refuses:
            np.copyto(first, self._codes(rows), where=first == 0)
        return self._ask(rows, first)

    def _ask(self, rows: Rows, first: Codes) -> _Found:
        """All that score, about some rows; `first`: who refuses these."""
        fleet, total = self._fleet, np.zeros(len(first))
        raw = [judge.scores(fleet, rows) for judge in self._scorers]
        for judge, said in zip(self._scorers, raw, strict=True):
            add_score(said, judge.role.weight, total)
        for column in self._setting.points:
            total += column.points[rows]
        if not close_totals(first, total):
            for judge, said in zip(self._scorers, raw, strict=True):
                finite(judge.role.plugin, said[first == 0])
        return _Found(None if isinstance(rows, slice) else rows, total, raw, two_best(total, fleet.rank[rows]))

    def _joined(self, one: _Found, other: _Found) -> _Found:
        rows = np.concatenate([found.rows for found in (one, other) if found.rows is not None])
        order = np.argsort(rows)
        totals = np.concatenate([one.totals, other.totals])[order]
        raw = [np.concatenate(both)[order] for both in zip(one.raw, other.raw, strict=True)]
        return _Found(rows[order], totals, raw, two_best(totals, self._fleet.rank[rows[order]]))

    # --- why ---------------------------------------------------------------------------------------------------------

    def _scores(self, found: _Found) -> Scores:
        """Of the best row and the runner-up."""
        raws, normals = [], []
        for at in found.best:
            if at >= 0:
                row, setting = found.row(at), self._setting
                raw = [found.raw[one].item(at) if isinstance(one, int) else one.raw.item(row) for one in setting.scored]
                normal = raw.copy()
                for place, said, normalized in setting.common:
                    raw[place], normal[place] = said, normalized
                raws.append(raw)
                normals.append(normal)
        return Scores(*self._setting.names, raws[0], normals[0], normals[1] if len(normals) > 1 else None)

    def _later(self) -> Notes:
        heard = (*(column.judge for column in self._setting.part.heard), *self._judges)
        told = ((judge.role.explainer, judge.state) for judge in heard)
        return tuple([(plugin, state) for plugin, state in told if plugin is not None])
