"""What remote pods use, as a kubelet tells it at /metrics/resource: each proxy node has a page of
its own.

All proxy nodes of a cluster share address and port. So each says by an annotation, which
metrics-server follows, where its page is; on one page for all, each pod would be found once for
each node.
"""

from collections.abc import Iterable, Iterator
from math import isfinite

from agents.executor.context.local import Local
from agents.executor.duties.proxy_objects import METRICS_PAGE, METRICS_PATH
from agents.executor.relayed.relay import NOT_FOUND, Refusal, Wanted
from shared.messages.relay import METRICS
from shared.messages.usage import CONTAINER_NAME, ContainerUse, PodUsage, Usage, Use
from shared.model.pod import RUNNING, Pod, SourceRef

_FAMILIES = (
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
    ),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
    ),
    (
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    ),
    ("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes"),
)
_ERROR = "resource_scrape_error"
Sample = tuple[str, str, float | None, int]  # family, labels, value, milliseconds


def node_of(path: str) -> str | None:
    """The node whose page is asked for; '' for the page of all, which there is not; None: something
    else is.
    """
    if path == METRICS_PAGE:
        return ""
    return path.removeprefix(f"{METRICS_PAGE}/") if path.startswith(f"{METRICS_PAGE}/") else None


def cluster_of(node: str, local: Local) -> str:
    """The cluster behind a proxy node. Refusal."""
    cluster = local.behind(node)
    if not cluster:
        raise Refusal(
            NOT_FOUND,
            f"each proxy node has a page of its own: its annotation {METRICS_PATH} names it",
        )
    return cluster


def pods_there(node: str, local: Local) -> list[Pod]:
    """The pods of a proxy node that have not ended; first those that a question can best rest on,
    as they run there and the dispatcher has known them for longest.
    """
    alive = (pod for pod in local.view.pods_on(node) if not pod.terminal)
    return sorted(alive, key=lambda pod: (pod.terminating, pod.phase != RUNNING, pod.created))


def wanted_of(pod: Pod) -> Wanted:
    """The question of what this pod, and all others of this cluster there, use."""
    return Wanted(METRICS, "GET", pod.namespace, pod.name, (), ())


def delegates_of(cluster_uid: str, local: Local) -> dict[str, dict[tuple[str, str], SourceRef]]:
    """The delegates here of a source cluster that have not ended, by node and by (namespace, name).

    The view shows as delegates only those that carry the proof of this cluster.
    """
    found: dict[str, dict[tuple[str, str], SourceRef]] = {}
    for node in local.view.nodes():
        for pod in local.view.pods_on(node.name):
            if (
                pod.source is not None
                and pod.source.cluster_uid == cluster_uid
                and not pod.terminal
            ):
                found.setdefault(node.name, {})[pod.namespace, pod.name] = pod.source
    return found


def page(usage: Usage, pods: Iterable[Pod]) -> str:
    """In the text format of Prometheus, as kubelets write it, for those of `pods` of which
    something is told.

    Names are those of `pods`; of the other cluster's words only the names of containers are taken,
    if they can be such.
    """
    lines: dict[str, list[str]] = {name: [] for name, _, _ in _FAMILIES}
    by_pod = {one.pod: one for one in usage.pods}
    for pod in pods:
        for family, labels, value, millis in _samples(pod, by_pod.get(pod.uid)):
            if value is not None and isfinite(value):
                time = f" {millis}" if millis else ""
                lines[family].append(f"{family}{{{labels}}} {value!r}{time}\n")
    text = [
        f"# HELP {name} [STABLE] {about}\n# TYPE {name} {kind}\n" for name, kind, about in _FAMILIES
    ]
    parts = [
        head + "".join(lines[family[0]])
        for head, family in zip(text, _FAMILIES, strict=True)
        if lines[family[0]]
    ]
    problem = (
        f"# HELP {_ERROR} [STABLE] 1 if there was an error while getting container metrics, 0 "
        "otherwise\n"
    )
    return f"{''.join(parts)}{problem}# TYPE {_ERROR} gauge\n{_ERROR} {int(bool(usage.problem))}\n"


def _samples(pod: Pod, used: PodUsage | None) -> Iterator[Sample]:
    if used is None:
        return
    named = f'namespace="{pod.namespace}",pod="{pod.name}"'
    for one in {
        one.name: one for one in used.containers if CONTAINER_NAME.fullmatch(one.name)
    }.values():
        yield from _container(one, f'container="{one.name}",{named}')
    yield from _used("pod", named, used.use)


def _container(one: ContainerUse, labels: str) -> Iterator[Sample]:
    yield from _used("container", labels, one.use)
    yield "container_start_time_seconds", labels, one.started_s, 0


def _used(what: str, labels: str, use: Use) -> Iterator[Sample]:
    yield f"{what}_cpu_usage_seconds_total", labels, use.cpu_s, use.cpu_ms
    yield f"{what}_memory_working_set_bytes", labels, use.memory, use.memory_ms
