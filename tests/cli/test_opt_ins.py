"""What the commands find out of the opt-in by annotation, from a server whose answers are made up here.

A real API server is asked in tests/charts/test_opt_in.py.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from dispatcher.cli.doctor import _about_opt_ins
from dispatcher.cli.joining import install, opt_in
from dispatcher.cli.joining.target import Place, Target, path_of
from dispatcher.cli.main import app
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.service.errors import ExitCode

Object = dict[str, Any]
SHOP = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}]}


class Server:
    """An API server of one minor that serves policies in some versions; they act if its feature gate is on."""

    name = "east"

    validates = True

    def __init__(self, versions: tuple[str, ...] = (), *, gate: bool = True, namespaces: tuple[str, ...] = ()) -> None:
        self.versions, self.gate, self.namespaces = versions, gate, ("default", *namespaces)
        self.objects: dict[str, Object] = {}

    async def call(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Object:
        bare = path.partition("?")[0]
        if bare.endswith("/pods"):
            return {"spec": {"schedulerName": self.scheduler_in(bare.split("/")[4])}}
        if bare.startswith(opt_in.REGISTRATION) and bare.count("/") == 3:
            kinds = [opt_in.POLICIES] if bare.rpartition("/")[2] in self.versions else []
            kinds += ["validatingadmissionpolicies"] if bare.endswith("/v1") and self.validates else []
            return {"resources": [{"name": one} for one in kinds]}
        if method == "GET" and bare not in self.objects:
            raise MemberError(404, f"{bare} not found")
        if method == "DELETE":
            del self.objects[bare]
        elif body is not None:
            self.objects[bare] = body
        return self.objects.get(bare, {})

    async def items(self, path: str, **query: str) -> list[Object]:
        if path == "/api/v1/namespaces":
            assert query == {"labelSelector": "kubernetes.io/metadata.name in (shop)"}
            return [{"metadata": {"name": one}} for one in self.namespaces if one == "shop"]
        root, _, plural = path.rpartition("/")
        listed = ((at.split("/"), one) for at, one in self.objects.items() if at.startswith(f"{root}/"))
        return [one for at, one in listed if at[-2] == plural and _is_chosen(one["metadata"], query)]

    def scheduler_in(self, namespace: str) -> str:
        for path, one in self.objects.items():
            if path.rpartition("/")[0].endswith(opt_in.POLICIES) and self.gate:
                selector = one["spec"]["matchConstraints"].get("namespaceSelector")
                if selector is None or (selector == SHOP and namespace == "shop"):
                    return "global-dispatcher"
        return "default-scheduler"

    def with_policy(self, version: str, selector: Object | None = None) -> "Server":
        policy = install.policies(version)[0]
        if selector is not None:
            policy["spec"]["matchConstraints"]["namespaceSelector"] = selector
        self.objects[f"{opt_in.REGISTRATION}/{version}/{opt_in.POLICIES}/schedule"] = policy
        return self


def _is_chosen(meta: Object, query: dict[str, str]) -> bool:
    label, _, value = query.get("labelSelector", "").partition("=")
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")
    return (not label or meta.get("labels", {}).get(label) == value) and name in ("", meta["name"])


async def found(server: Server) -> opt_in.OptIn:
    return await opt_in.in_force(cast(Member, server))


async def test_a_policy_for_some_namespaces_is_tried_in_one_of_them() -> None:
    told = await found(Server(("v1",), namespaces=("shop",)).with_policy("v1", SHOP))
    by = "MutatingAdmissionPolicy v1 (global-dispatcher), in namespaces such as shop"
    assert told == opt_in.OptIn(True, by)


async def test_a_policy_for_namespaces_that_are_not_there_yet_is_not_called_without_effect() -> None:
    told = await found(Server(("v1",)).with_policy("v1", SHOP))
    assert (told.acts, "for namespaces of which there is none yet" in told.problem) == (None, True)


async def test_a_policy_that_does_nothing_is_named_with_the_way_out() -> None:
    told = await found(Server(("v1beta1",), gate=False).with_policy("v1beta1"))
    assert (told.acts, told.by) == (False, "MutatingAdmissionPolicy v1beta1 (global-dispatcher)")
    (finding,) = _about_opt_ins([{"cluster": "east", **told._asdict(), "text": str(told)}])
    assert "(MutatingAdmissionPolicy v1beta1 (global-dispatcher) is there and does nothing)" in finding.text
    assert finding.fix.index("its binding is there") < finding.fix.index("feature gate MutatingAdmissionPolicy")


@pytest.mark.parametrize(
    ("selector", "query"),
    [
        ({}, ""),
        ({"matchLabels": {"team": "a", "tier": "b"}}, "team=a,tier=b"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c"]}]}, "a notin (b,c)"),
        ({"matchLabels": {"x": "y"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, "x=y,a"),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, "!b"),
    ],
)
def test_a_selector_is_asked_for_as_kubectl_writes_it(selector: Object, query: str) -> None:
    assert opt_in._query(selector) == query


@pytest.mark.parametrize(
    ("server", "by"),
    [
        (Server(), "webhook"),
        (Server(("v1", "v1beta1")), "v1"),
        (Server(("v1beta1",), gate=False).with_policy("v1beta1"), "webhook"),
        (Server(("v1beta1",)), "webhook"),
        (Server(("v1beta1",)).with_policy("v1beta1"), "v1beta1"),
    ],
    ids=["none", "v1", "gate-off", "gate-not-known", "in-force"],
)
async def test_a_cluster_that_joins_is_given_what_acts_and_a_webhook_else(server: Server, by: str) -> None:
    assert await opt_in.for_chart(cast(Member, server)) == by


def installing(server: Server, monkeypatch: pytest.MonkeyPatch, *words: str, minor: int = 35) -> Result:
    @asynccontextmanager
    async def reached(_: Place, dry_run: bool) -> AsyncIterator[Target]:
        yield Target("east", cast(Member, server), (1, minor), "uid", dry_run)

    monkeypatch.setattr(install, "reached", reached)
    monkeypatch.setattr(install, "_WAIT_S", 0.1)
    return CliRunner().invoke(app, ["install", "--context", "east", "--user", "alice", *words])


def test_an_installation_whose_policy_does_nothing_ends_with_1_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    done = installing(Server(("v1beta1",), gate=False), monkeypatch)
    assert done.exit_code == ExitCode.FAILED, done.output
    assert "1.35 serves MutatingAdmissionPolicy v1beta1, but the policy does nothing" in done.stderr
    assert "--feature-gates=MutatingAdmissionPolicy=true" in done.stderr
    assert "admissionPolicy.by: webhook" in done.stderr


def test_an_installation_whose_policy_acts_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    done = installing(Server(("v1",)), monkeypatch, "-o", "json", minor=36)
    assert (done.exit_code, json.loads(done.stdout)["opt_in"]["acts"]) == (0, True), done.output


def test_what_an_agent_may_besides_is_given_by_name_and_taken_back_with_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(("v1",))

    def roles() -> set[str]:
        return {path.rpartition("/")[2] for path in server.objects if "/clusterroles/" in path}

    installing(server, monkeypatch)
    usual = roles()
    done = installing(server, monkeypatch, "--may", "namespaces", "--may", "accounts")
    assert done.exit_code == 0, done.output
    assert roles() - usual == {"global-dispatcher-run-namespaces", "global-dispatcher-run-accounts"}
    done = installing(server, monkeypatch, "--may", "secrets", "--secrets-in", "shop")
    assert done.exit_code == ExitCode.OK
    (bound,) = [path for path in server.objects if path.endswith("bindings/global-dispatcher-run-secrets")]
    assert "/namespaces/shop/rolebindings/" in bound
    alone = installing(server, monkeypatch, "--secrets-in", "shop")
    assert (alone.exit_code, "--secrets-in: give --may secrets, too" in alone.output) == (ExitCode.USAGE, True)
    unknown = installing(server, monkeypatch, "--may", "everything")
    assert unknown.exit_code == ExitCode.USAGE
    installing(server, monkeypatch, "--uninstall")
    assert server.objects == {}


SECRETS = "global-dispatcher-run-secrets"


def bound(server: Server) -> set[str]:
    """Where Secrets may be read and written; "" for everywhere."""
    paths = [path.split("/") for path in server.objects if path.endswith(f"bindings/{SECRETS}")]
    return {path[5] if path[4] == "namespaces" else "" for path in paths}


@pytest.mark.parametrize("older", [False, True], ids=["", "of a version that wrote no labels"])
def test_who_asks_for_less_has_less_after_it(monkeypatch: pytest.MonkeyPatch, older: bool) -> None:
    server = Server(("v1",))
    theirs = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/global-dispatcher-run"
    server.objects[theirs] = {"metadata": {"name": "global-dispatcher-run", "namespace": "shop"}, "roleRef": {}}

    def asking(*words: str) -> Result:
        if older:
            for one in server.objects.values():
                one["metadata"].pop("labels", None)
        return installing(server, monkeypatch, *words, minor=36)

    asking("--may", "secrets", "--may", "namespaces")
    assert bound(server) == {""}
    asking("--may", "secrets", "--secrets-in", "shop", "--secrets-in", "team")
    assert bound(server) == {"shop", "team"}
    assert not [path for path in server.objects if path.endswith("global-dispatcher-run-namespaces")]
    dry = asking("--may", "secrets", "--secrets-in", "team", "--dry-run")
    assert f"RoleBinding shop/{SECRETS}: would be removed" in dry.stdout
    asking("--may", "secrets", "--secrets-in", "team")
    assert bound(server) == {"team"}
    asking("--may", "secrets")
    assert bound(server) == {""}
    asking("--may", "secrets", "--secrets-in", "team")
    again = asking("--may", "secrets", "--secrets-in", "team")
    assert "removed" not in again.stdout
    asking("--uninstall")
    assert set(server.objects) == {theirs}


def test_a_binding_that_is_named_like_a_query_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings"
    theirs = {"metadata": {"name": "theirs", "namespace": "shop"}, "roleRef": {}}
    ours = {"app.kubernetes.io/managed-by": "global-dispatcher-install"}
    forged = {"metadata": {"name": "theirs?a", "namespace": "shop", "labels": ours}, "roleRef": {}}
    server.objects = {f"{bindings}/theirs": theirs, f"{bindings}/theirs%3Fa": forged}
    assert installing(server, monkeypatch, "--uninstall").exit_code == 0
    assert server.objects == {f"{bindings}/theirs": theirs}


def test_changes_of_pods_that_went_are_refused_also_where_pods_do_not_opt_in_by_annotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    installing(server, monkeypatch)
    assert {path_of(one) for one in install.guard()} <= server.objects.keys()
    installing(server, monkeypatch, "--uninstall")
    assert server.objects == {}


def test_an_installation_without_validating_policies_says_what_is_accepted_and_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(("v1",))
    server.validates = False
    done = installing(server, monkeypatch, minor=36)
    assert done.exit_code == 0, done.output
    why = "what is changed on a pod that runs in another cluster, and does not reach it, is taken all the same"
    assert f"it is not served, so that {why}" in done.stdout


def test_a_dry_run_is_not_blamed_for_a_policy_that_it_has_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installing(Server(("v1",)), monkeypatch, "--dry-run", minor=36).exit_code == 0


def test_who_uninstalls_is_not_told_that_the_opt_in_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(("v1",))
    installing(server, monkeypatch, minor=36)
    server.with_policy("v1")  # which the server goes on obeying for a moment
    done = installing(server, monkeypatch, "--uninstall", minor=36)
    assert (done.exit_code, "opt-in" in done.stdout) == (0, False), done.output


@pytest.mark.parametrize("user", ["system:serviceaccount:runner", "system:serviceaccount::a", "system:serviceaccount:"])
def test_a_service_account_without_both_its_parts_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    done = installing(Server(("v1",)), monkeypatch, "--user", user, minor=36)
    assert (done.exit_code, "--user" in done.stderr, done.stdout) == (ExitCode.USAGE, True, "")
    assert "system:serviceaccount:NAMESPACE:NAME" in done.stderr
