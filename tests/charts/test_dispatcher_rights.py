"""The credentials and the rights that the dispatcher's chart gives it, and no others."""

from typing import Any

import pytest

from tests.charts.rendering import Helm, HelmError, containers, of_kind, only
from tests.charts.test_ray_pods import JOINED

TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


def test_the_dispatcher_alone_has_credentials_of_the_cluster_for_its_lease(helm: Helm) -> None:
    objects = helm.template("dispatcher", JOINED)
    assert only(objects, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    node, dispatcher = containers(of_kind(objects, "Deployment"))
    assert [TOKEN in one["volumeMounts"] for one in (node, dispatcher)] == [False, True]
    election = {key: value for key, value in env_of(dispatcher).items() if "LEADER_ELECTION" in key}
    assert election == {
        "GLOBAL_DISPATCHER_LEADER_ELECTION__KUBECONFIG": "in-cluster",
        "GLOBAL_DISPATCHER_LEADER_ELECTION__NAMESPACE": "global-dispatcher",
        "GLOBAL_DISPATCHER_LEADER_ELECTION__NAME": "dispatcher",  # the one that the Role names
    }


def test_without_an_election_the_dispatcher_has_no_credentials(helm: Helm) -> None:
    objects = helm.template("dispatcher", {"config": {"leader_election": {"enabled": False}}})
    (dispatcher,) = containers(of_kind(objects, "Deployment"))
    assert TOKEN not in dispatcher["volumeMounts"]
    assert not [key for key in env_of(dispatcher) if "LEADER_ELECTION" in key]


def env_of(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_its_role_is_leases_of_its_own_namespace_alone(helm: Helm) -> None:
    objects = helm.template("dispatcher")
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert only(objects, "Role")["rules"] == [
        {**leases, "verbs": ["create"]},
        {**leases, "resourceNames": ["dispatcher"], "verbs": ["get", "update"]},
    ]
    assert only(objects, "RoleBinding")["subjects"] == [
        {"kind": "ServiceAccount", "name": "dispatcher", "namespace": "global-dispatcher"}
    ]
    assert not of_kind(objects, "ClusterRole")


def test_where_readings_are_published_it_may_write_the_status_of_cluster_profiles_there(helm: Helm) -> None:
    objects = helm.template("dispatcher", {"config": {"cluster_profiles": {"namespace": "fleet"}}})
    (role,) = (one for one in of_kind(objects, "Role") if one["metadata"]["namespace"] == "fleet")
    group = {"apiGroups": ["multicluster.x-k8s.io"]}
    assert role["rules"] == [
        {**group, "resources": ["clusterprofiles"], "verbs": ["get"]},
        {**group, "resources": ["clusterprofiles/status"], "verbs": ["patch"]},
    ]
    (binding,) = (one for one in of_kind(objects, "RoleBinding") if one["metadata"]["namespace"] == "fleet")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["namespace"] == "global-dispatcher"


def test_readings_cannot_be_published_without_the_token_of_an_election(helm: Helm) -> None:
    given = {"config": {"cluster_profiles": {"namespace": "fleet"}, "leader_election": {"enabled": False}}}
    with pytest.raises(HelmError, match=r"cluster_profiles\.namespace needs config\.leader_election\.enabled"):
        helm.template("dispatcher", given)
