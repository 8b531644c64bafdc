"""What nodes carry, what of it each pod makes, and what that costs.

    measured   = mean of the readings                                   unknown where they are older than FRESH_S
    coming     = usual * settling / allocatable                         what was placed and is not in the mean yet
    use of pod = measured * what the pod counts as / what all pods do whose load is in the mean
    cost       = sum over signals of weight * (u^3 + u / 5), as points: 0 an idle node, 100 a full one

The names are ExpectedLoad's (docs/telemetry.md), and so is the cost: its score is 100 less that.
Signals other than cpu and memory go by the larger of the CPU and memory shares. What one pod uses
is not known: it counts as what pods of its owner are known to use (`fleet.owner_uses`), else as its
request, scaled so that the pods of a node always make what the node carries. So a pod that burns a
node is met before its neighbours, once its like are known.

Example: a node carries 0.8 of its CPU; its three pods request 1, 1 and 2 cores: they make 0.2, 0.2
and 0.4.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.pod import PodId
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

FRESH_S = 120.0
_RESOURCES = (CPU, MEMORY)  # rows of fleet.settling
_ROWS: Mapping[str, tuple[int, ...]] = {CPU_SIGNAL: (0,), MEMORY_SIGNAL: (1,)}
_EITHER = (0, 1)
_WEIGHTS = {CPU_SIGNAL: 2.0}  # all others: 1
_LINE = 0.2


def measured(fleet: FleetState, signals: Sequence[str]) -> Floats:
    """[signals, n] the mean of the readings; NaN where it is not known, or the newest is older than
    FRESH_S.
    """
    found = np.full((len(signals), fleet.n), np.nan)
    for at, name in enumerate(signals):
        column = fleet.signal_axis.column(name)
        if column is not None and column < len(fleet.used_mean):
            fresh = fleet.live & (fleet.now - fleet.used_at[column] <= FRESH_S)
            found[at, fresh] = fleet.used_mean[column, fresh]
    return found


def coming(fleet: FleetState, signals: Sequence[str]) -> Floats:
    """[signals, n] what pods that were just placed are expected to add to the means."""
    shares = np.stack([fleet.settling[row] / _room(fleet, row) for row in _EITHER])
    found = np.zeros((len(signals), fleet.n))
    for at, name in enumerate(signals):
        column = fleet.signal_axis.column(name)
        if column is not None and column < len(fleet.usual):
            found[at] = fleet.usual[column] * shares[list(_ROWS.get(name, _EITHER))].max(axis=0)
    return found


def uses_on(
    fleet: FleetState, row: int, carried: Floats, signals: Sequence[str]
) -> dict[PodId, Floats]:
    """[signals] what each pod on a row makes of what it carries ([signals]), of pods whose load the
    means hold.
    """
    room = [float(_room(fleet, at)[row]) for at in _EITHER]
    pods = [one for one in fleet.occupants_on(*fleet.name_of(row)) if not one.settles]
    counted = [
        fleet.with_use(one.pod_info).counts_as or nonzero_request(one.pod_info.pod) for one in pods
    ]
    asked = np.asarray(counted, dtype=np.float64).reshape(-1, 2) / room
    parts = np.stack([asked[:, _ROWS.get(name, _EITHER)].max(axis=1) for name in signals], axis=1)
    uses = carried * parts / np.maximum(parts.sum(axis=0), 1e-12)
    return {one.pod_id: use for one, use in zip(pods, uses, strict=True)}


def in_node(
    fleet: FleetState, use: Floats, source: int, target: int, signals: Sequence[str]
) -> Floats:
    """[signals] the share of another node that a pod makes there."""
    ratios = [float(_room(fleet, at)[source]) / float(_room(fleet, at)[target]) for at in _EITHER]
    found: Floats = use * [max(ratios[at] for at in _ROWS.get(name, _EITHER)) for name in signals]
    return found


def _room(fleet: FleetState, row: int) -> Floats:
    """[n] milli-CPU or bytes that can be allocated, 1 at least."""
    column = fleet.axis.column(_RESOURCES[row])
    found = fleet.allocatable[column] if column is not None else np.zeros(fleet.n)
    return np.maximum(found, 1).astype(np.float64)


def cost(utilisation: Floats, signals: Sequence[str]) -> float:
    """Points of a node that carries that much ([signals])."""
    u = np.minimum(np.maximum(utilisation, 0.0), 1.0)
    weights = np.asarray([_WEIGHTS.get(name, 1.0) for name in signals])
    return float(100.0 * (weights * (u**3 + _LINE * u)).sum() / ((1.0 + _LINE) * weights.sum()))
