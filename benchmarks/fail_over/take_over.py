"""CPU that a dispatcher takes to lead: of one that has followed the fleet, and of one that begins
empty.
"""

from time import process_time

import numpy as np

from benchmarks.fail_over.cluster import SharedCluster
from benchmarks.fleet.load import Load
from benchmarks.fleet.wire import SocketLink
from benchmarks.report.rows import Row
from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, FoldOn
from dispatcher.service.assembly import assemble
from dispatcher.service.term import NOBODY, Term
from dispatcher.service.warm_up import collect_less_often
from shared.messages import Changes, decode, encode

_ROUNDS = 3


def take_over(share: int) -> list[Row]:
    """100 clusters x 1,000 nodes with 500 pods each, half of them ours; `share` 10: a tenth of the
    clusters.
    """
    load = Load(clusters=100 // share, nodes=1_000, pods=500)
    clusters: dict[str, SharedCluster] = {}
    for number, name in enumerate(load.names):
        clusters[name] = SharedCluster(load, number, clusters, lambda what, uid: None)
    whole = [encode(one.full()) for one in clusters.values()]
    news = [encode(one.latest()) for one in clusters.values()]
    collect_less_often()
    rounds = [_round(load, whole, news) for _ in range(_ROUNDS)]
    warm, cold = (float(np.median(taken)) for taken in zip(*rounds, strict=True))
    text = (
        "CPU of the core until decisions are open, a report of each cluster decoded, median of "
        f"{_ROUNDS}"
    )
    beside = "a dispatcher that begins empty"
    return [
        Row(
            "fail_over_take_over_cpu",
            load.all_nodes,
            load.all_pods,
            warm,
            "s",
            1.0,
            cold,
            text,
            beside,
        )
    ]


def _round(load: Load, whole: list[bytes], news: list[bytes]) -> tuple[float, float]:
    """Seconds of CPU: of one that has followed, and of one that begins empty."""
    following, empty = _core(load, NOBODY), _core(load, Term())
    _told(following, whole)
    following.take_over(Term().first_attempt)
    return _told(following, news), _told(empty, whole)


def _core(load: Load, term: Term) -> SchedulerCore:
    core = assemble(
        [SocketLink(name, "") for name in load.names], DispatcherConfig(), term=term
    ).service.core
    assert isinstance(core, SchedulerCore)
    return core


def _told(core: SchedulerCore, reports: list[bytes]) -> float:
    """Seconds of CPU to take them in, one after the other."""
    began = process_time()
    for raw in reports:
        report = decode(Changes, raw)
        core.handle(ClusterChanged(report), 1.0)
        while report.cluster in core.folding:
            core.handle(FoldOn(report.cluster), 1.0)
    return process_time() - began


CASES = (take_over,)
