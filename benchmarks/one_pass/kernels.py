"""The pass: which rows have room, and of these the two best.

In two calls, since normalised scores rest on which rows are feasible.
"""

import numpy as np

from dispatcher.plugins.expected_load import (
    _FORMULA,
    _cost,
    _doubt,
    _drawn,
    _measured,
    _part,
)
from dispatcher.scheduling.framework.kernels import kernel, least, most
from dispatcher.scheduling.rules.load import SignalLoad

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
def two_best_rows(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915, PLR0913 - columns
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
        whole0 = one.capacity0[start : start + size]
        whole1 = two.capacity0[start : start + size]
        settling0 = one.settling0[start : start + size]
        settling1 = two.settling0[start : start + size]
        nonzero0 = one.nonzero0[start : start + size]
        nonzero1 = two.nonzero0[start : start + size]
        rank = ranks[start : start + size]
        mean0 = one.mean[start : start + size]
        usual0 = one.usual[start : start + size]
        sampled0 = one.sampled_at[start : start + size]
        used0 = one.used[start : start + size]
        mean1 = two.mean[start : start + size]
        usual1 = two.usual[start : start + size]
        sampled1 = two.sampled_at[start : start + size]
        used1 = two.used[start : start + size]
        mean2 = three.mean[start : start + size]
        usual2 = three.usual[start : start + size]
        sampled2 = three.sampled_at[start : start + size]
        used2 = three.used[start : start + size]
        hosts = host[start : start + size]
        groups = group[start : start + size]
        static = static_points[start : start + size]
        values0 = value0[start : start + size]
        values1 = value1[start : start + size]
        refused = first[start : start + size]
        for at in range(size):
            part0 = _part(whole0[at])
            part1 = _part(whole1[at])
            settles0[at] = settling0[at] * part0
            settles1[at] = settling1[at] * part1
            comes0[at] = (settling0[at] + one.more0) * part0
            comes1[at] = (settling1[at] + two.more0) * part1
        for at in range(size):
            drawn[at] = _drawn(rank[at], nonzero0[at], salt)
        faded = 0
        for at in range(size):
            mean = float(mean0[at])
            usual = float(usual0[at])
            age = now - sampled0[at]
            value = _measured(
                float(used0[at]), mean, usual * settles0[at], usual * comes0[at], surge
            )
            value += _doubt(age, stale, chance) * drawn[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] = 0.0 + weights[0] * _cost(least(value, 1.0))
        for at in range(size):
            told[at] = _drawn(rank[at], nonzero1[at], salt)
        for at in range(size):
            mean = float(mean1[at])
            usual = float(usual1[at])
            age = now - sampled1[at]
            value = _measured(
                float(used1[at]), mean, usual * settles1[at], usual * comes1[at], surge
            )
            value += _doubt(age, stale, chance) * told[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] += weights[1] * _cost(least(value, 1.0))
        for at in range(size):
            mean = float(mean2[at])
            usual = float(usual2[at])
            age = now - sampled2[at]
            settles = usual * most(settles0[at], settles1[at])
            comes = usual * most(comes0[at], comes1[at])
            value = _measured(float(used2[at]), mean, settles, comes, surge)
            value += _doubt(age, stale, chance) * drawn[at]
            faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
            costs[at] += weights[2] * _cost(least(value, 1.0))
        if faded:
            return -2, 0.0, -2, 0.0
        for at in range(size):
            load = 100.0 - costs[at] * weights[3]
            held = host_count[hosts[at]]
            cost = np.floor(0.5 - (base[groups[at]] - (held * host_weight + free) + 1.0))
            spread = np.floor(100.0 * (largest + lowest - cost) / largest)
            total = (static[at] + np.rint(load * load_weight)) / GRID
            total += points0[values0[at]] + points1[values1[at]]
            total += np.rint(spread * weights[4]) / GRID
            told[at] = total if refused[at] == 0 else -np.inf
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
