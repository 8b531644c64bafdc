"""A real kubelet starts no pod whose configuration is not there, or whose image has a bad name, in the words that the
embedded clusters' have.
"""

import pytest

from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane
from localfleet.embedded.meta import Object
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode import RealNode
from tests.controlplane.realnode_config import IMAGE
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.embedded.missing_configuration import (
    CASES,
    MISNAMED,
    OPTIONAL,
    WHOLE,
    Case,
    misnamed_events,
    misnamed_message,
    with_case,
)
from tests.system.cluster_api import eventually

__all__ = ["real_node"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
STRATEGIC = "application/strategic-merge-patch+json"
NOTHING = Case({}, [], {}, {}, ("", ""))
WAIT_S = 60.0  # a kubelet's pauses between two tries of a volume double


class World:
    """A real node, and a namespace for each case, whose pods all start at once."""

    def __init__(self, plane: ControlPlane, node: RealNode) -> None:
        self.plane, self.node = plane, node
        self.cases = {f"case-{at}": case for at, case in enumerate([*CASES.values(), OPTIONAL])}
        for namespace, case in self.cases.items():
            self.start(namespace, case)
        self.misnamed = {f"image-{at}": image for at, image in enumerate(MISNAMED)}
        for namespace, image in self.misnamed.items():
            self.start(namespace, NOTHING, image)

    def start(self, namespace: str, case: Case, image: str = IMAGE) -> None:
        admin, path = self.plane.admin, f"/api/v1/namespaces/{namespace}"
        admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        eventually(lambda: admin.answers(f"{path}/serviceaccounts/default"), 60)
        for plural, obj in case.there.items():
            admin.create(f"{path}/{plural}", obj)
        main = {"name": "main", "image": image, "imagePullPolicy": "Never"}
        spec = {"nodeName": self.node.name, "dnsPolicy": "Default", "containers": [main]}
        admin.create(f"{path}/pods", with_case({"metadata": {"name": "p"}, "spec": spec}, case))

    def pod(self, namespace: str) -> Object:
        return self.plane.admin.get(f"/api/v1/namespaces/{namespace}/pods/p")

    def waiting(self, namespace: str) -> Object:
        """How the container waits; {} if it does not."""
        entries = self.pod(namespace)["status"].get("containerStatuses") or [{}]
        found: Object = entries[0].get("state", {}).get("waiting", {})
        return found

    def events(self, namespace: str) -> set[tuple[str, str]]:
        found = self.plane.admin.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        return {(one["reason"], one["message"]) for one in found}

    def told(self) -> str:
        """For a failure."""
        return "\n".join(
            [
                *(f"{name}: {self.waiting(name)} {self.events(name)}" for name in (*self.cases, *self.misnamed)),
                self.node.tails(4),
            ]
        )


@pytest.fixture(scope="module")
def world(control_plane: ControlPlanes, real_node: RealNodes) -> World:
    plane = control_plane("east", nodes=0, minor=selected_minor())
    return World(plane, real_node(plane))


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES.values())), ids=CASES)
def test_a_pod_waits_for_configuration_that_is_not_there_and_starts_when_it_comes(
    world: World, number: int, case: Case
) -> None:
    namespace, admin = f"case-{number}", world.plane.admin
    waiting = {key: words.format(namespace) for key, words in case.waiting.items()}
    event = (case.event[0], case.event[1].format(namespace))
    eventually(lambda: world.waiting(namespace) == waiting and event in world.events(namespace), WAIT_S, world.told)
    assert world.pod(namespace)["status"]["phase"] == "Pending"
    for plural, obj in WHOLE.items():
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        if plural in case.there:
            admin.delete(f"{path}/{obj['metadata']['name']}")
        admin.create(path, obj)


@pytest.mark.parametrize(("number", "image"), list(enumerate(MISNAMED)), ids=range(len(MISNAMED)))
def test_an_image_that_it_does_not_take_is_told_of_and_the_pod_starts_with_another(
    world: World, number: int, image: str
) -> None:
    namespace = f"image-{number}"
    waiting = {"reason": "InvalidImageName", "message": misnamed_message(image)}
    told = {*misnamed_events(image)}
    eventually(lambda: world.waiting(namespace) == waiting and told <= world.events(namespace), WAIT_S, world.told)
    better = {"spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    world.plane.admin.patch(f"/api/v1/namespaces/{namespace}/pods/p", better, STRATEGIC)
    eventually(lambda: world.pod(namespace)["status"]["phase"] == "Running", WAIT_S, world.told)


def test_all_have_started(world: World) -> None:
    """Those that waited, now that all is there, and the one for which all was optional."""
    for namespace in world.cases:
        eventually(lambda: world.pod(namespace)["status"]["phase"] == "Running", WAIT_S, world.told)  # noqa: B023
