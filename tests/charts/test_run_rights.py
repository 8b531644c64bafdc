"""`global-dispatcher install` gives a cluster without a chart the rights that the agent's chart would give."""

from itertools import product

import pytest

from dispatcher.cli.joining.install import May, roles
from tests.charts.rendering import Helm, HelmError, Object

TAKES: Object = {"config": {"executor": {"accept": [{"secrets_follow": ["db"]}]}}}
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


@pytest.mark.parametrize(
    ("may", "values"),
    [
        ((May.NAMESPACES,), {"namespaces": {"create": ["team-*"]}}),
        ((May.NAMESPACES, May.REMOVAL), {"namespaces": {"create": ["team-*"], "remove_after_s": 3600}}),
        ((May.SERVICES,), {"services": True}),
        ((May.ACCOUNTS,), {"accept": [{"local_accounts": ["app"]}]}),
    ],
)
def test_what_it_may_besides_is_what_the_chart_gives_where_its_values_ask_for_it(
    helm: Helm, may: tuple[May, ...], values: Object
) -> None:
    plain, chart = helm.template("agent"), helm.template("agent", {"config": {"executor": values}})
    assert rights(roles("alice", frozenset(may))) - rights(roles("alice")) == rights(chart) - rights(plain)
    bound = {one["roleRef"]["name"] for one in roles("alice", frozenset(may)) if "roleRef" in one}
    assert bound >= {f"global-dispatcher-run-{one}" for one in may}


@pytest.mark.parametrize("where", [(), ("shop", "team")])
def test_secrets_are_in_the_namespaces_that_are_named_as_in_the_chart(helm: Helm, where: tuple[str, ...]) -> None:
    chart = helm.template("agent", {"secrets": {"give": list(where) or ["*"], "take": list(where) or ["*"]}, **TAKES})
    ours = roles("alice", frozenset({May.SECRETS}), where)
    secrets = {("", "secrets", verb, "") for verb in ("get", "create", "update", "delete")}
    assert rights(ours) - rights(roles("alice")) == rights(chart) - rights(helm.template("agent", TAKES)) == secrets

    def bound(objects: list[Object]) -> set[tuple[str, str]]:
        of = [one for one in objects if "secrets" in one.get("roleRef", {}).get("name", "")]
        return {(one["kind"], one["metadata"].get("namespace", "")) for one in of}

    assert bound(ours) == bound(chart) == ({("RoleBinding", one) for one in where} or {("ClusterRoleBinding", "")})


@pytest.mark.parametrize(("half", "verbs"), [("give", {"get"}), ("take", {"get", "create", "update", "delete"})])
def test_the_chart_gives_no_right_to_secrets_that_its_values_do_not_ask_for(
    helm: Helm, half: str, verbs: set[str]
) -> None:
    def on_secrets(values: Object) -> set[Right]:
        return {one for one in rights(helm.template("agent", values)) if one[1] == "secrets"}

    assert on_secrets(TAKES) == set()
    assert on_secrets({"secrets": {half: ["shop"]}, **TAKES}) == {("", "secrets", verb, "") for verb in verbs}


@pytest.mark.parametrize("half", ["give", "take"])
def test_no_right_to_secrets_goes_beyond_the_namespaces_of_the_agent(helm: Helm, half: str) -> None:
    helm.template("agent", {"namespaces": ["shop"], "secrets": {half: ["shop"]}, **TAKES})
    for beyond in ("*", "team"):
        with pytest.raises(HelmError, match=rf"secrets.{half}: has "):
            helm.template("agent", {"namespaces": ["shop"], "secrets": {half: [beyond]}, **TAKES})


def test_a_right_to_copies_that_no_row_takes_is_told(helm: Helm) -> None:
    said = "no row of config.executor.accept says by secrets_follow which"
    assert said in helm.notes("agent", {"secrets": {"take": ["shop"]}})
    assert said not in helm.notes("agent", {"secrets": {"take": ["shop"]}, **TAKES})


def test_a_service_account_is_bound_as_one_and_anybody_else_as_a_user() -> None:
    kubelets = [{"kind": "ServiceAccount", "namespace": "kube-node-lease", "name": "global-dispatcher-kubelets"}]
    bound = [one["subjects"] for one in roles("system:serviceaccount:team:runner") if "subjects" in one]
    runner = [{"kind": "ServiceAccount", "namespace": "team", "name": "runner"}]
    assert bound == [runner, kubelets, runner, runner]
    (of_user, *_) = [one["subjects"] for one in roles("alice") if "subjects" in one]
    assert of_user == [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
