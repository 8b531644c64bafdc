import pytest

from dispatcher.model.names import ACCEPT
from dispatcher.model.objects import Namespace
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.hints import ClusterEvent, WakeEvent
from tests.builders import fleet, pod
from tests.plugins.asking import make, reasons

ABSENT = "node(s) were in a cluster without the pod's namespace"
CLOSED = "node(s) were in a cluster where the pod's namespace is closed to pods of other clusters"


def with_namespaces(**shown: tuple[Namespace, ...]) -> FleetState:
    state = fleet(a=["n"], b=["n"], c=["n"])
    for cluster, namespaces in shown.items():
        for one in namespaces:
            state.kept.put(cluster, one)
    return state


SHOP, OTHER = Namespace("shop"), Namespace("other")


@pytest.mark.parametrize(
    ("state", "namespace", "want"),
    [
        (with_namespaces(), "shop", {}),
        (with_namespaces(b=(SHOP,), c=(SHOP, OTHER)), "shop", {}),
        (with_namespaces(b=(SHOP,), c=(OTHER,)), "shop", {"c/n": ABSENT}),
        (with_namespaces(a=(OTHER,), b=(SHOP,), c=(SHOP,)), "shop", {}),
        (with_namespaces(b=(Namespace("shop", {ACCEPT: "False"}),)), "shop", {"b/n": CLOSED}),
        (with_namespaces(b=(Namespace("shop", {ACCEPT: "true"}),)), "shop", {}),
        (with_namespaces(b=(Namespace("kube-system"),)), "kube-system", {"b/n": CLOSED, "c/n": CLOSED}),
    ],
    ids=["none shown", "there", "absent in one", "its own needs none", "closed by label", "open by label", "kube-*"],
)
def test_a_pod_goes_to_others_only_where_its_namespace_is_there_and_open(
    state: FleetState, namespace: str, want: dict[str, str]
) -> None:
    assert reasons(make("NamespaceOpen"), pod().namespace(namespace), state) == want


def test_only_the_pods_own_namespace_is_worth_a_new_try() -> None:
    plugin, placed = make("NamespaceOpen"), pod().namespace("shop").placed()
    assert plugin.hint(ClusterEvent(WakeEvent.NAMESPACE, "b", None, SHOP), placed)
    assert not plugin.hint(ClusterEvent(WakeEvent.NAMESPACE, "b", None, OTHER), placed)
    assert plugin.hint(ClusterEvent(WakeEvent.CLUSTER_CHANGED), placed)
