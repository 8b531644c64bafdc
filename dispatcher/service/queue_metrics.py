"""What the scheduling queue holds and has taken in, as kube-scheduler names it."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dispatcher.scheduling.queued import State
from dispatcher.service.service import Core, Queue

# kube-scheduler keeps gated pods among the unschedulable ones, and counts them there.
_QUEUES = {State.GATED: State.UNSCHEDULABLE.value}
# Events of the fleet that it has, too, by its labels; others keep names of ours (`WakeEvent`).
_EVENTS = {
    "NODE_ADDED": "NodeAdd",
    "NODE_CHANGED": "NodeUpdate",
    "POD_REMOVED": "AssignedPodDelete",
    "NODE_REMOVED": "NodeDelete",
    "POD_PLACED": "AssignedPodAdd",
    "NAMESPACE": "NamespaceUpdate",
    "CLAIM": "PersistentVolumeClaimUpdate",
    "VOLUME": "PersistentVolumeUpdate",
    "STORAGE_CLASS": "StorageClassUpdate",
    "QUOTA_FREED": "QuotaFreed",
}


def queue_metrics(core: Core) -> Iterator[Metric]:
    """One scrape. It costs what the classes of parked pods are many, not the pods."""
    pending = GaugeMetricFamily(
        "scheduler_pending_pods", "Pods that wait, by queue.", labels=["queue"]
    )
    for queue, count in sorted(core.queue.counts().items()):
        pending.add_metric([queue], count)
    yield pending
    yield _incoming(core.queue)
    yield from _refused(core)


def _incoming(queue: Queue) -> Metric:
    family = CounterMetricFamily(
        "scheduler_queue_incoming_pods",
        "Pods that came into a queue (active, backoff and unschedulable as kube-scheduler's, and "
        "waiting: decided, but "
        "held up), by the event that brought them: kube-scheduler's names where it has one that "
        "means this, else "
        "PermitWait, ProfilesReloaded, QuotaFreed, AlikePodPlaced, SeveralEvents (which are not "
        "told apart, as there "
        "were too many) or what happened in the fleet (`WakeEvent`). Gated ones count as "
        "unschedulable.",
        labels=["queue", "event"],
    )
    totals: Counter[tuple[str, str]] = Counter()
    for (state, cause), count in queue.incoming.items():
        event = "|".join(
            _EVENTS.get(one, one) for one in cause.split("|")
        )  # several things may come at once
        totals[_QUEUES.get(state, state.value), event] += count
    for labels, count in sorted(totals.items()):
        family.add_metric(labels, count)
    return family


def _refused(core: Core) -> Iterator[Metric]:
    by_reason: Counter[str] = Counter()
    by_plugin: Counter[tuple[str, str]] = Counter()
    for first, count in core.queue.parked():
        by_reason.update(dict.fromkeys((reason.name for reason in first.reasons), count))
        profile = core.profiles.name_of(first.pod_info)
        refusing = core.profiles.refused_by(first.pod_info, first.reasons)
        by_plugin.update(dict.fromkeys(((plugin, profile) for plugin in refusing), count))
    text = (
        "Pods that found no place and wait, by the reasons for it; one with several counts for "
        "each."
    )
    reasons = GaugeMetricFamily("global_dispatcher_unschedulable_pods", text, labels=["reason"])
    for reason, count in sorted(by_reason.items()):
        reasons.add_metric([reason], count)
    plugins = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "Pods that found no place and wait for an event, by the plugins that refused them; one "
        "that several refused "
        "counts for each. kube-scheduler counts those that are to be tried again, too, until they "
        "are.",
        labels=["plugin", "profile"],
    )
    for labels, count in sorted(by_plugin.items()):
        plugins.add_metric(labels, count)
    yield from (reasons, plugins)
