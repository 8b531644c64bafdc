"""Specs of Kubernetes' own Conformance, all of whose pods run in another cluster than the one that they are tested in.

The cluster under test has the proxy of the other one, where a real node runs the pods, and a Node without a machine, as
the specs do not begin without one that takes pods: one bound to it would never run. Policies of an administrator there
have each pod scheduled by us, and let Secrets follow.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane, takes_pods
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.real import conformance
from tests.real.two_planes import HOME, ONE_NETWORK, TARGET, WAIT_S, TwoPlanes, dispatching, grant
from tests.saying import Say
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS

__all__ = ["real_node"]
Object = dict[str, Any]
PROGRAMS = ("conformance", "agnhost")
SPECS = conformance.specs()
AT_ONCE = 4
EXECUTOR: Object = {
    "services": True,
    "accept": [{"clusters": ["*"], "namespaces": ["*"], "secrets_follow": ["*"]}],
    "namespaces": {"create": ["*"], "most": 100},
}
NO_MACHINE: Object = {
    "metadata": {"name": "no-machine"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "10Gi"},
    },
}


def mutation(name: str, resource: str, expression: str) -> list[Object]:
    """A policy for objects of a kind as they are made, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [
        {**api, "kind": "MutatingAdmissionPolicy", "spec": policy},
        {**api, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    ]


POLICIES = [
    *mutation(
        "elsewhere",
        "pods",
        f"Object{{metadata: Object.metadata{{annotations: {{'global-dispatcher.io/clusters': '{TARGET}'}}}},"
        " spec: Object.spec{schedulerName: 'global-dispatcher'}}",
    ),
    *mutation(
        "follow",
        "namespaces",
        f"Object{{metadata: Object.metadata{{annotations: {{'global-dispatcher.io/secrets-follow': '{TARGET}'}}}}}}",
    ),
]


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    if reason := binaries.unavailable(PROGRAMS):
        pytest.skip(reason)
    return binaries.ensure(PROGRAMS)


@pytest.fixture(scope="module")
def world(
    programs: dict[str, Path],
    control_plane: ControlPlanes,
    real_node: RealNodes,
    helm: Helm,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TwoPlanes]:
    folder = tmp_path_factory.mktemp("conformance")
    specs = [PlaneSpec(name, node_grace_s=3600) for name in CLUSTERS]  # nobody says that NO_MACHINE is well
    planes = {plane.name: plane for plane in control_plane.together(*specs)}
    node = real_node(planes[TARGET])
    certificate = planes[TARGET].authority.certificate
    node.import_images(conformance.write_stand_ins(folder / "images.tar", programs, certificate))
    for plane in planes.values():
        grant(plane, helm, "self-signed", EXECUTOR, secrets={"give": ["*"], "take": ["*"]})
    home = planes[HOME]
    home.admin.create("/api/v1/nodes", NO_MACHINE)
    home.apply(*POLICIES)
    with dispatching(folder, ONE_NETWORK) as (certificates, dispatcher):
        world = TwoPlanes(planes, {TARGET: node}, folder, certificates, dispatcher, executor=EXECUTOR)
        with world.with_agents():
            eventually(lambda: [takes_pods(node) for node in nodes(home)] == [True, True], WAIT_S, world.told)
            eventually(lambda: in_force(home), WAIT_S, world.told)
            yield world


def nodes(home: ControlPlane) -> list[Object]:
    return list(home.admin.get("/api/v1/nodes")["items"])


def in_force(home: ControlPlane) -> bool:
    """Whether the policies are applied to what is made."""
    pod = {"metadata": {"name": "trial"}, "spec": {"containers": [{"name": "main", "image": "trial"}]}}
    made = home.admin.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
    namespace = home.admin.create("/api/v1/namespaces?dryRun=All", {"metadata": {"name": "trial"}})
    return made["spec"]["schedulerName"] == "global-dispatcher" and "annotations" in namespace["metadata"]


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> list[str]:
    """Specs that the selected tests ask for; all where one asks for all."""
    items = [item for item in request.session.items if item.path == request.path]
    named = [item.callspec.params["spec"] for item in items if hasattr(item, "callspec")]
    return named if len(named) == len(items) else [*SPECS]


@pytest.fixture(scope="module")
def outcomes(
    world: TwoPlanes, programs: dict[str, Path], chosen: list[str], tmp_path_factory: pytest.TempPathFactory
) -> list[conformance.Outcome]:
    reports = tmp_path_factory.mktemp("reports")
    return conformance.run(programs["conformance"], world.home.kubeconfig, chosen, reports, AT_ONCE)


def test_each_chosen_name_is_that_of_one_spec_and_nothing_else_ran(
    outcomes: list[conformance.Outcome], world: TwoPlanes, say: Say
) -> None:
    say(", ".join(f"{one.seconds:.0f} s {one.name[:60]}" for one in sorted(outcomes, key=lambda one: -one.seconds)))
    assert Counter(one.name for one in outcomes) == Counter(SPECS)
    assert {node["metadata"]["name"] for node in nodes(world.home)} == {"no-machine", f"global-dispatcher-{TARGET}"}


@pytest.mark.parametrize("spec", SPECS, ids=[one.partition(" [Conformance]")[0][-90:] for one in SPECS])
def test_a_spec_of_conformance_passes(spec: str, outcomes: list[conformance.Outcome]) -> None:
    found = [one for one in outcomes if one.name == spec]
    assert found, "it did not run"
    assert not found[0].failure, found[0].failure[-8000:]
