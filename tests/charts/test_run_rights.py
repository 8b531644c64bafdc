"""`global-dispatcher install` gives a cluster without a chart the rights that the agent's chart would give."""

from itertools import product

from dispatcher.cli.joining.install import roles
from tests.charts.rendering import Helm, Object

Right = tuple[str, str, str, str]  # API group, resource, verb, name or ''


def rights(objects: list[Object]) -> set[Right]:
    found: set[Right] = set()
    for role in (one for one in objects if one["kind"] in ("Role", "ClusterRole")):
        for rule in role["rules"]:
            resources = rule.get("resources") or rule["nonResourceURLs"]
            groups, named = rule.get("apiGroups", [""]), rule.get("resourceNames", [""])
            found |= set(product(groups, resources, rule["verbs"], named))
    return found


def test_they_are_those_of_an_agent_that_may_rebalance_and_of_a_dispatcher_that_leads(helm: Helm) -> None:
    chart = rights(helm.template("agent", {"rebalancing": {"enabled": True}}))
    lease = {("coordination.k8s.io", "leases", verb, "global-dispatcher") for verb in ("get", "update")}
    own = {("", "serviceaccounts/token", "create", f"{name}-kubelets") for name in ("agent", "global-dispatcher")}
    assert rights(roles("alice")) - own == (chart | lease) - own
    assert len(rights(roles("alice")) & own) == len(chart & own) == 1


def test_a_service_account_is_bound_as_one_and_anybody_else_as_a_user() -> None:
    kubelets = [{"kind": "ServiceAccount", "namespace": "kube-node-lease", "name": "global-dispatcher-kubelets"}]
    bound = [one["subjects"] for one in roles("system:serviceaccount:team:runner") if "subjects" in one]
    runner = [{"kind": "ServiceAccount", "namespace": "team", "name": "runner"}]
    assert bound == [runner, kubelets, runner, runner]
    (of_user, *_) = [one["subjects"] for one in roles("alice") if "subjects" in one]
    assert of_user == [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
