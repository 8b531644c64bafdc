"""Resident memory of a whole dispatcher for each node and pod, from outside: what more of them take
more.
"""

import asyncio
from dataclasses import replace

from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import Fleet
from benchmarks.fleet.processes import resident
from benchmarks.report.rows import Row

_LOAD = Load(clusters=20, pods=0, ours=0.0)
_PODS, _FEW = 5_000, 10
# free memory goes back to the system five seconds after the last time at the latest, if all is
# quiet
GIVEN_BACK_S = 6.0
# The first ones are more pods than the decision log holds; then come as many as there are in the
# other cases, so that a pod bears no more than there of what does not grow with pods, and tables
# that grow by doubling are as full.
_FIRST_BURSTS, _BURSTS = 3, _LOAD.clusters
_BOUND = (
    "pod that it binds, of as many as there are pods of ours, after more of them than it keeps "
    "records of"
)
_OTHERS = "a pod of other schedulers in the same run"


def fleet_memory(share: int) -> list[Row]:
    """20 clusters of 5,000 nodes: without nodes to speak of, without pods, with pods of others,
    with pods of ours that it finds bound, and with such that it decides itself.
    """
    return asyncio.run(_measure(replace(_LOAD, nodes=_LOAD.nodes // share), _PODS // share))


async def _measure(load: Load, pods: int) -> list[Row]:
    few = replace(load, nodes=_FEW)
    grown = [
        await _grown(one)
        for one in (few, load, replace(load, pods=pods), replace(load, pods=pods, ours=1.0))
    ]
    decided = await _decided(load, pods)
    nothing, bare, others, ours = (one / 1024 for one in grown)
    n, all_pods = load.all_nodes, load.clusters * pods
    node, other, own = (
        (bare - nothing) / (n - few.all_nodes),
        (others - bare) / all_pods,
        (ours - bare) / all_pods,
    )
    what = "resident memory of the dispatcher's process, from outside: more for each"
    return [
        Row("fleet_memory_node", n, 0, node, "KiB", 1.2, None, f"{what} node, with its reading"),
        Row(
            "fleet_memory_other_pod",
            n,
            all_pods,
            other,
            "KiB",
            1.2,
            None,
            f"{what} pod of other schedulers",
        ),
        Row(
            "fleet_memory_own_pod",
            n,
            all_pods,
            own,
            "KiB",
            1.2,
            other,
            f"{what} pod of ours",
            _OTHERS,
        ),
        Row(
            "fleet_memory_decided_pod",
            n,
            _BURSTS * pods,
            decided,
            "KiB",
            1.2,
            other,
            f"{what} {_BOUND}",
            _OTHERS,
        ),
    ]


async def _grown(load: Load) -> int:
    """Bytes that a dispatcher takes more once it knows all and has decided one pod."""
    one = Fleet(load, all_listed=True)
    async with one.dispatcher():
        before = resident(one.pid)
        await one.ask("go")
        await one.until("bound", one.submit(1))
        return await _settled(one) - before


async def _settled(one: Fleet) -> int:
    """Bytes in memory once it has given back what is free."""
    await one.until_quiet()
    await asyncio.sleep(GIVEN_BACK_S)
    return resident(one.pid)


async def _decided(load: Load, burst: int) -> float:
    """KiB that it takes more for each pod that it binds, in bursts, once it keeps as many records
    as it ever does.
    """
    one, found = Fleet(load, all_listed=True), list[int]()
    async with one.dispatcher():
        await one.ask("go")
        for bursts in (_FIRST_BURSTS, _BURSTS):
            for _ in range(bursts):
                await one.until(
                    "bound", one.submit(burst, lambda home: f"r{home.number}", templates=1)
                )
            found.append(await _settled(one))
    return (found[1] - found[0]) / (_BURSTS * burst) / 1024


CASES = (fleet_memory,)
