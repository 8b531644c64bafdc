"""The pass: which rows have room, and of these the two best.

In two calls, since normalised scores rest on which rows are feasible.
"""

import numpy as np

from dispatcher.plugins.expected_load import (
    _FORMULA,
    SignalLoad,
    _cost,
    _doubt,
    _drawn,
    _measured,
    _part,
)
from dispatcher.scheduling.framework.kernels import kernel, least, most

GRID = 2.0**20
_BLOCK = 1024


@kernel(
    "marks wholes ints ints int ints ints int ints ints int",
    "wholes wholes ints wholes wholes out_marks out_ints out_ints out_ints out_bools out_bools",
)
def feasible_rows(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    static, cluster,
    pods, pods_used, pods_wanted, cpu, cpu_used, cpu_wanted, memory, memory_used, memory_wanted,
    group, host, host_count, value0, value1,
    first, refused, fewest, highest, seen0, seen1,
):  # fmt: skip
    """Write `first` [rows]: what refuses the row, a static code or 0xFF00 and a bit for each of
    three resources that lack; `refused` [clusters * 8] by these bits; `fewest`, `highest` [groups]
    pods on the feasible hosts of a group of rows that share all other domains (highest -1: it has
    none); `seen` which raw values of two normalised columns feasible rows have. How many rows are
    feasible.
    """
    count = 0
    for row in range(len(first)):
        code = static[row]
        if code:
            first[row] = code
            continue
        lacks = 1 if pods[row] - pods_used[row] < pods_wanted else 0
        lacks |= 2 if cpu[row] - cpu_used[row] < cpu_wanted else 0
        lacks |= 4 if memory[row] - memory_used[row] < memory_wanted else 0
        if lacks:
            first[row] = 0xFF00 | lacks
            refused[cluster[row] * 8 + lacks] += 1
            continue
        first[row] = 0
        count += 1
        one = group[row]
        held = host_count[host[row]]
        fewest[one] = min(fewest[one], held)
        highest[one] = max(highest[one], held)
        seen0[value0[row]] = True
        seen1[value1[row]] = True
    return count


@kernel(
    SignalLoad,
    SignalLoad,
    SignalLoad,
    "floats float float float float float int float",
    "marks floats wholes wholes ints floats float float float float wholes wholes floats floats",
    formulas=_FORMULA,
)
def two_best_rows(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0915
    one, two, three,
    weights, now, fresh, stale, surge, chance, salt, load_weight,
    first, static_points, group, host, host_count, base, host_weight, free, largest, lowest,
    value0, value1, points0, points1,
):  # fmt: skip
    """The two best rows and their totals; -1 where there is none.

    `base` [groups]: the raw score of FaultDomainSpread by all domains but hosts; `points` [values]
    of the normalised columns, weighted. (-2, ...) if a reading is not fresh. Block by block, so
    that what one loop writes for the next one stays in the processor's cache.
    """
    best = second = -1
    best_total = second_total = -np.inf
    ranks = one.rank
    n = len(first)
    costs = np.empty(_BLOCK)
    comes0 = np.empty(_BLOCK)
    comes1 = np.empty(_BLOCK)
    settles0 = np.empty(_BLOCK)
    settles1 = np.empty(_BLOCK)
    told = np.empty(_BLOCK)
    drawn = np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for at in range(size):
            row = start + at
            part0 = _part(one.capacity0[row])
            part1 = _part(two.capacity0[row])
            settles0[at] = one.settling0[row] * part0
            settles1[at] = two.settling0[row] * part1
            comes0[at] = (one.settling0[row] + one.more0) * part0
            comes1[at] = (two.settling0[row] + two.more0) * part1
        for at in range(size):
            row = start + at
            drawn[at] = _drawn(ranks[row], one.nonzero0[row], salt)
        faded = 0
        for at in range(size):
            row = start + at
            mean = float(one.mean[row])
            usual = float(one.usual[row])
            age = now - one.sampled_at[row]
            value = _measured(
                float(one.used[row]), mean, usual * settles0[at], usual * comes0[at], surge
            )
            value += _doubt(age, stale, chance) * drawn[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] = 0.0 + weights[0] * _cost(least(value, 1.0))
        for at in range(size):
            row = start + at
            told[at] = _drawn(ranks[row], two.nonzero0[row], salt)
        for at in range(size):
            row = start + at
            mean = float(two.mean[row])
            usual = float(two.usual[row])
            age = now - two.sampled_at[row]
            value = _measured(
                float(two.used[row]), mean, usual * settles1[at], usual * comes1[at], surge
            )
            value += _doubt(age, stale, chance) * told[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] += weights[1] * _cost(least(value, 1.0))
        for at in range(size):
            row = start + at
            mean = float(three.mean[row])
            usual = float(three.usual[row])
            age = now - three.sampled_at[row]
            settles = usual * most(settles0[at], settles1[at])
            comes = usual * most(comes0[at], comes1[at])
            value = _measured(float(three.used[row]), mean, settles, comes, surge)
            value += _doubt(age, stale, chance) * drawn[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] += weights[2] * _cost(least(value, 1.0))
        if faded:
            return -2, 0.0, -2, 0.0
        for at in range(size):
            row = start + at
            load = 100.0 - costs[at] * weights[3]
            held = host_count[host[row]]
            cost = np.floor(0.5 - (base[group[row]] - (held * host_weight + free) + 1.0))
            spread = np.floor(100.0 * (largest + lowest - cost) / largest)
            total = (static_points[row] + np.rint(load * load_weight)) / GRID
            total += points0[value0[row]] + points1[value1[row]]
            total += np.rint(spread * weights[4]) / GRID
            told[at] = total if first[row] == 0 else -np.inf
        highest = -np.inf
        for at in range(size):
            highest = max(highest, told[at])
        if highest < second_total:
            continue
        for at in range(size):
            total = told[at]
            row = start + at
            if total < second_total or total == -np.inf:
                continue
            if second >= 0 and total == second_total and ranks[row] >= ranks[second]:
                continue
            if best < 0 or total > best_total or (total == best_total and ranks[row] < ranks[best]):
                best, second, best_total, second_total = row, best, total, best_total
            else:
                second, second_total = row, total
    return best, best_total, second, second_total
