"""The rights for which doctor asks are those that the agent's chart gives: no more, no fewer, whatever is turned on."""

from typing import Any

import pytest

from dispatcher.cli.joining.needed_rights import OWN, SERVED, Need, features, needs
from tests.charts.rendering import Helm, Object, of_kind, only
from tests.charts.test_split_agent import SPLIT, rights

Right = tuple[str, str, str, str]  # API group, resource, name where only one is meant, verb
ALONE = {**SPLIT, "gateway": {**SPLIT["gateway"], "split": False}}
MADE = {"create": ["team-*"], "remove_after_s": 3600}
CSR = {"relay": {"certificate": "csr"}}
CASES: dict[str, Object] = {
    "as by default": SPLIT,
    "one process": ALONE,
    "one process with everything": {**ALONE, **CSR, "config": {"executor": {"relay": "all"}}},
    "everything": {
        **SPLIT,
        **CSR,
        "config": {"executor": {"relay": "all"}},
        "rebalancing": {"enabled": True},
    },
    "namespaces that are made": {**SPLIT, "config": {"executor": {"namespaces": {"create": ["team-*"]}}}},
    "and removed again": {**SPLIT, "config": {"executor": {"namespaces": MADE}}},
    "accounts of the cluster": {**SPLIT, "config": {"executor": {"accept": [{"local_accounts": ["app"]}]}}},
    "secrets that follow": {
        **SPLIT,
        "config": {"executor": {"accept": [{"secrets_follow": ["db"]}]}},
        "secrets": {"give": ["shop"], "take": ["shop", "team"]},
    },
    "services": {**SPLIT, "config": {"executor": {"services": True}}},
    "node groups": {**SPLIT, "config": {"node_groups": {"read": True, "cluster": "east"}}},
    "node groups of one process in a namespace": {
        **ALONE,
        "config": {"node_groups": {"read": True, "cluster": "east", "namespace": "fleet"}},
    },
    "no relay": {**SPLIT, "relay": {"enabled": False}, "config": {"executor": {"relay": "none"}}},
}


def asked(found: list[Need]) -> set[Right]:
    rows = set()
    for need in found:
        for kind in need.kinds.split():
            resource, _, group = kind.partition(".")
            name = "agent-kubelets" if need.name == OWN else need.name
            rows |= {(group, resource, name, verb) for verb in need.verbs.split()}
    return rows


def granted(objects: list[Object], account: str) -> set[Right]:
    """Without the version of the API server, which anybody may read."""
    rows = {(*row[:3], verb) for row in rights(objects, account) for verb in row[3].split()}
    return rows - {("/version", "", "", "get")}


def component(deployment: Object) -> str:
    found: str = deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
    return found


@pytest.mark.parametrize("name", CASES)
def test_each_agent_of_the_chart_has_the_rights_that_doctor_asks_for_and_no_others(helm: Helm, name: str) -> None:
    values: dict[str, Any] = CASES[name]
    objects = helm.template("agent", values)
    told = only(objects, "ConfigMap")["data"]["agent.yaml"]
    for one in of_kind(objects, "Deployment"):
        account = one["spec"]["template"]["spec"]["serviceAccountName"]
        needed = asked(needs(component(one), features(told), evicting="rebalancing" in values))
        assert needed == granted(objects, account)


def test_rights_in_the_namespaces_that_an_executor_serves_are_those_that_the_chart_limits_to_them(helm: Helm) -> None:
    values = {**CASES["everything"], "namespaces": ["team-a"]}
    objects = helm.template("agent", values)
    (binding,) = [one for one in of_kind(objects, "RoleBinding") if one["metadata"]["namespace"] == "team-a"]
    (role,) = [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == binding["roleRef"]["name"]]
    told = only(objects, "ConfigMap")["data"]["agent.yaml"]
    served = [one for one in needs("executor", features(told), evicting=True) if one.namespace == SERVED]
    bound = {
        (group, resource, "", verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked(served) == bound
