"""A release's life on a real API server: installed, upgraded to other values, rolled back, and gone without a trace."""

import re
from typing import Any

import pytest

from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.test_plane import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
# What is drawn anew for each Service.
_DRAWN = re.compile(r'"(clusterIPs?|nodePort|healthCheckNodePort)":(\[[^\]]*\]|"[^"]*"|\d+),?')
# Kinds that the cluster itself makes and ends in its own time.
OF_THE_CLUSTER = ("events", "leases", "pods", "replicasets", "endpoints", "endpointslices", "podmetrics", "ipaddresses")
_TWO = {"gateway": {"split": True}}
# Values before and after an upgrade: one process becomes two, and most of what may be on is on.
AGENT: list[Object] = [
    {},
    _TWO,
    {
        **_TWO,
        "admissionPolicy": {"by": "webhook"},
        "config": {"executor": {"relay": "all"}},
        "namespaces": ["default"],
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
    },
]
DISPATCHER: list[Object] = [
    {},
    {"config": {"clusters": [{"name": "east", "via": "gateway"}]}},
    {
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "httpTokens": {"existingSecret": "tokens"},
    },
]
STEPS = [
    pytest.param(chart, before, after, id=f"{chart} {number}")
    for chart, values in (("agent", AGENT), ("dispatcher", DISPATCHER))
    for number, (before, after) in enumerate(zip(values, [*values[1:], values[0]], strict=True))
]


class Cluster:
    """A plane, and helm in it."""

    def __init__(self, plane: ControlPlane, helm: Helm) -> None:
        self._plane, self._helm = plane, helm
        self._plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        names = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        self._kinds = ",".join(name for name in names if name.partition(".")[0] not in OF_THE_CLUSTER)

    def helm(self, *words: str) -> str:
        return self._helm(*words, "-n", NAMESPACE, KUBECONFIG=str(self._plane.kubeconfig))

    def values(self, chart: str, given: Object) -> list[str]:
        return ["-f", str(CHARTS / chart / "ci" / "example-values.yaml"), "-f", self._helm.values_file(given)]

    def objects(self) -> dict[str, Any]:
        """What every object of the cluster is to be, by kind, namespace and name."""
        form = (
            '{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\\t"}{.spec}{.data}{.rules}{.roleRef}'
            '{.subjects}{.webhooks}{"\\n"}{end}'
        )
        printed = _DRAWN.sub("", self._plane.kubectl("get", self._kinds, "-A", "-o", f"jsonpath={form}"))
        return dict(
            line.split("\t", 1)
            for line in printed.splitlines()
            if not line.startswith("Secret/") or "sh.helm" not in line
        )


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlanes, helm: Helm) -> Cluster:
    return Cluster(control_plane("east", nodes=1), helm)


@pytest.mark.parametrize(("chart", "before", "after"), STEPS)
def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    cluster: Cluster, chart: str, before: Object, after: Object
) -> None:
    empty = cluster.objects()
    cluster.helm("install", chart, str(CHARTS / chart), *cluster.values(chart, before))
    installed = cluster.objects()
    assert set(installed) > set(empty)

    cluster.helm("upgrade", chart, str(CHARTS / chart), *cluster.values(chart, after))
    assert cluster.objects() != installed
    cluster.helm("rollback", chart, "1")
    back = cluster.objects()
    other = {key for key in installed.keys() | back.keys() if installed.get(key) != back.get(key)}
    assert not other, [(installed.get(key), back.get(key)) for key in other]

    cluster.helm("uninstall", chart, "--wait", "--timeout=60s")
    kept = {f"Secret/{NAMESPACE}/{chart}-key"} if chart == "agent" else set()
    until(lambda: set(cluster.objects()) - set(empty) <= kept, 60)
    assert cluster.objects().keys() - empty.keys() <= kept
