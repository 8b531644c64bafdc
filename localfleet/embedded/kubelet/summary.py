"""The kubelet's Summary API (stats/v1alpha1) and what metrics.k8s.io tells, from the load model."""

from datetime import UTC, datetime

from localfleet.embedded.kubelet.lifecycle import PodRun
from localfleet.embedded.kubelet.load import Counters, NodeLoad, Rates
from localfleet.embedded.kubelet.node import SimulatedNode
from localfleet.embedded.meta import Object, stamp
from localfleet.embedded.usage import Usage

_NANO = 10**9
_INTERFACE = "eth0"
_WINDOW_S = 15.0
# Of what is used, this much is page cache on top of the working set, and this share of the working
# set is resident.
_CACHE_SHARE = 0.1
_RESIDENT_SHARE = 0.9


def node_summary(node: SimulatedNode, now: float) -> Object:
    """The body of GET /stats/summary: the node and each pod that runs on it."""
    load = node.load
    load.advance(now)
    total, parts = load.rates(now)
    moment = _nano_stamp(now)
    running = [run for uid, run in node.runs.items() if uid in parts]
    return {
        "node": {
            "nodeName": node.name,
            "startTime": stamp(load.since),
            "cpu": _cpu(moment, total, load.used),
            "memory": {
                **_memory(moment, total),
                "availableBytes": max(0, int(load.capacity.memory - total.memory)),
            },
            "network": _network(moment, load.used),
        },
        "pods": [_pod(run, load, parts[run.uid], moment) for run in running],
    }


def node_usage(node: SimulatedNode, now: float) -> Usage:
    """What a node uses, a mean over the window."""
    return _usage([node.load.rates(now - back)[0] for back in _moments()], now, 1)


def pod_usage(run: PodRun, pod: Object, load: NodeLoad, now: float) -> dict[str, Usage]:
    """What the containers of a pod use, a mean over the window; the pod's use is split evenly over
    them.
    """
    names = [container["name"] for container in pod["spec"]["containers"]]
    used = _usage([load.rates(now - back)[1][run.uid] for back in _moments()], now, len(names))
    return dict.fromkeys(names, used)


def _moments() -> tuple[float, ...]:
    return (0.0, _WINDOW_S / 2, _WINDOW_S)


def _usage(samples: list[Rates], now: float, parts: int) -> Usage:
    mean = [sum(values) / len(samples) / parts for values in zip(*samples, strict=True)]
    return Usage(now, _WINDOW_S, mean[0], mean[1])


def _pod(run: PodRun, load: NodeLoad, rates: Rates, moment: str) -> Object:
    used = load.pods[run.uid].used
    return {
        "podRef": {"name": run.name, "namespace": run.namespace, "uid": run.uid},
        "startTime": stamp(run.started),
        "containers": [],
        "cpu": _cpu(moment, rates, used),
        "memory": _memory(moment, rates),
        "network": _network(moment, used),
    }


def _cpu(moment: str, rates: Rates, used: Counters) -> Object:
    return {
        "time": moment,
        "usageNanoCores": int(rates.cpu * _NANO),
        "usageCoreNanoSeconds": int(used.cpu_s * _NANO),
    }


def _memory(moment: str, rates: Rates) -> Object:
    working_set = int(rates.memory)
    return {
        "time": moment,
        "usageBytes": int(working_set * (1 + _CACHE_SHARE)),
        "workingSetBytes": working_set,
        "rssBytes": int(working_set * _RESIDENT_SHARE),
        "pageFaults": 0,
        "majorPageFaults": 0,
    }


def _network(moment: str, used: Counters) -> Object:
    counters = {
        "name": _INTERFACE,
        "rxBytes": int(used.rx),
        "rxErrors": 0,
        "txBytes": int(used.tx),
        "txErrors": 0,
    }
    return {"time": moment, **counters, "interfaces": [counters]}


def _nano_stamp(now: float) -> str:
    # Nanoseconds as Go writes them; the clock here gives microseconds.
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
