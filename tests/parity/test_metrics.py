"""Metrics that are called as kube-scheduler's, beside those of a kube-scheduler that has placed and refused pods."""

import itertools
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dispatcher.scheduling.events import Answered
from dispatcher.service.metrics.counters import Metrics
from docs.generate.metrics import families, labels_of
from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane, control_plane
from shared.messages import BOUND, Outcome

pytestmark = [pytest.mark.real, pytest.mark.parity, pytest.mark.timeout(300)]
PODS = "/api/v1/namespaces/default/pods"
FINER = {"scheduler_scheduling_attempt_duration_seconds"}  # ours have buckets below 1 ms, too
WAIT_S = 60.0
TOLD = (
    'result="scheduled"',
    'result="unschedulable"',
    "scheduler_pod_scheduling_sli_duration_seconds_bucket",
    "scheduler_plugin_execution_duration_seconds_bucket",
)
Shape = tuple[str, frozenset[str], frozenset[str]]  # type, labels, bounds of buckets


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    if reason := binaries.unavailable():
        pytest.skip(reason)
    flags = ["--authorization-always-allow-paths=/metrics"]
    with control_plane("metrics", 1, scheduler=True, minor=selected_minor(), scheduler_flags=flags) as found:
        yield found


def theirs(plane: ControlPlane) -> str:
    """What kube-scheduler tells once pods run, and one fits nowhere. It times the plugins of a tenth of the pods."""
    _create(plane, "large", "9000")
    url = f"https://127.0.0.1:{plane.layout.ports['kube-scheduler']}/metrics"
    deadline = time.monotonic() + WAIT_S
    for number in itertools.count():
        _create(plane, f"small-{number}", "1m")
        text = httpx.get(url, verify=False, trust_env=False).text  # its own certificate, on loopback
        if all(part in text for part in TOLD):
            return text
        assert time.monotonic() < deadline, text[-2000:]
        time.sleep(0.05)
    raise AssertionError


def _create(plane: ControlPlane, name: str, cpu: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    plane.admin.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}})


def ours() -> str:
    """A dispatcher's histograms, each with an observation."""
    metrics = Metrics()
    metrics.tick(1.0, {("scheduled", "global-dispatcher"): 1})
    metrics.decided(("east", "u1"), 1, 1.0)
    metrics.event(Answered("east", (Outcome(id="1", uid="u1", epoch=1, verdict=BOUND),)), 2.0)
    metrics.plugin_times.begin("global-dispatcher")
    metrics.plugin_times.call("NodeName", _named("filter"), (), {})
    metrics.plugin_times.begin("")
    return metrics.render().decode()


def _named(name: str) -> Callable[[], object]:
    """A call of a plugin's method of this name."""

    def call() -> object:
        return None

    call.__name__ = name
    return call


def shapes(text: str) -> dict[str, Shape]:
    """By name, of the families that are called as kube-scheduler's."""
    found = {}
    for family in text_string_to_metric_families(text):
        labels = frozenset(label for one in family.samples for label in one.labels) - {"le"}
        bounds = frozenset(f"{float(one.labels['le']):g}" for one in family.samples if "le" in one.labels)
        if family.name.startswith("scheduler_"):
            found[family.name] = (family.type, labels, bounds)
    return found


def test_they_have_its_types_labels_and_buckets(plane: ControlPlane) -> None:
    known, histograms = shapes(theirs(plane)), shapes(ours())
    named = [one for one in families() if one.name.startswith("scheduler_")]
    assert {one.name for one in named} <= known.keys(), "a name of kube-scheduler's that it does not have"
    for family in named:
        kind, labels, bounds = known[family.name]
        assert (family.type, frozenset(labels_of(family))) == (kind, labels), family.name
        if family.type == "histogram":
            had = histograms[family.name][2]
            assert bounds <= had, family.name
            assert family.name in FINER or bounds == had, family.name
