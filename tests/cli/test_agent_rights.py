"""What doctor says of rights that the service accounts of agents lack, asked by SubjectAccessReviews."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining import reviews
from dispatcher.cli.joining.agents import DEPLOYMENTS
from dispatcher.cli.joining.needed_rights import features, needs
from dispatcher.cli.joining.reviews import BINDINGS, REVIEWS, SELF_REVIEWS
from dispatcher.cli.joining.rights import WHO_AM_I, all_lacking, has_evicted, lacking, lacking_here
from dispatcher.cli.operate.members import Member, MemberError, reached
from dispatcher.config.sections import ClusterSection
from dispatcher.service.run import read_config
from localfleet.embedded.fleet import EmbeddedFleet

LABEL = "app.kubernetes.io"
ALL_ON = json.dumps({"gateway": {"urls": ["wss://g:1"]}, "relay": {"port": 1}, "executor": {"relay": "all"}})
Denied = tuple[str, str, str]  # verb, RESOURCE[/SUBRESOURCE][.GROUP], namespace


def deployment(component: str, account: str, **labels: str) -> dict[str, Any]:
    marks = {f"{LABEL}/part-of": "global-dispatcher", f"{LABEL}/component": component, **labels}
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": "agent"}}]
    pod = {"serviceAccountName": account, "volumes": volumes}
    template = {"metadata": {"labels": marks}, "spec": pod}
    return {"metadata": {"namespace": "gd", "name": account}, "spec": {"template": template}}


SPLIT = (deployment("observer", "agent-observer"), deployment("executor", "agent"))


class Cluster:
    """Deployments, and which rights are denied to whom; `refuses`: paths that who asks may not use."""

    name = "east"

    def __init__(
        self, *deployments: dict[str, Any], denied: set[Denied] | None = None, settings: str = "{}", **more: Any
    ) -> None:
        self.deployments, self.denied, self.settings = deployments, denied or set(), settings
        self.refuses: dict[str, int] = more.get("refuses", {})
        self.bound: tuple[str, ...] = more.get("bound", ())
        self.role: dict[str, Any] = more.get("role", {})
        self.reviews: list[dict[str, Any]] = []
        self.listed: list[str] = []

    async def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        self._check(path)
        self.listed.append(path)
        if path == BINDINGS:
            subjects = [{"kind": "ServiceAccount", "namespace": "gd", "name": "agent"}, {"kind": "User", "name": "ann"}]
            others = {"metadata": {"namespace": "elsewhere"}, "subjects": [{"kind": "User", "name": "agent"}]}
            given = [{"metadata": {"namespace": name}, "subjects": subjects} for name in self.bound]
            return [others, *({**one, **self.role} for one in given)]
        assert (path, query) == (DEPLOYMENTS, {"labelSelector": f"{LABEL}/part-of=global-dispatcher"})
        return list(self.deployments)

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self._check(path)
        if method == "GET":
            assert path == "/api/v1/namespaces/gd/configmaps/agent"
            return {"data": {"agent.yaml": self.settings}}
        if path == WHO_AM_I:
            return {"status": {"userInfo": {"username": "ann", "groups": ["system:authenticated"]}}}
        assert (method, path) in (("POST", REVIEWS), ("POST", SELF_REVIEWS))
        assert body is not None
        assert ("user" in body["spec"]) == (path == REVIEWS)
        self.reviews.append(body["spec"])
        asked = body["spec"]["resourceAttributes"]
        kind = asked["resource"] + (f"/{asked['subresource']}" if asked["subresource"] else "")
        kind += f".{asked['group']}" if asked["group"] else ""
        return {"status": {"allowed": (asked["verb"], kind, asked["namespace"]) not in self.denied}}

    def _check(self, path: str) -> None:
        if path in self.refuses:
            raise MemberError(self.refuses[path], f"{path} is refused")


async def told(cluster: Cluster, *, evicting: bool = False) -> list[Finding]:
    return await lacking(cast(Member, cluster), evicting)


async def test_agents_that_may_do_all_are_asked_as_the_accounts_of_their_pods_and_nothing_is_found() -> None:
    cluster = Cluster(*SPLIT)
    assert await told(cluster) == []
    assert {one["user"]: one["groups"] for one in cluster.reviews} == {
        f"system:serviceaccount:gd:{name}": [
            "system:serviceaccounts",
            "system:serviceaccounts:gd",
            "system:authenticated",
        ]
        for name in ("agent-observer", "agent")
    }


async def test_a_right_whose_lack_costs_a_feature_is_a_note_that_says_which() -> None:
    (found,) = await told(Cluster(*SPLIT, denied={("watch", "events", "")}))
    assert (found.cluster, found.about, found.level) == ("east", "rights of the agent", NOTE)
    assert found.text == (
        "system:serviceaccount:gd:agent-observer may not watch events: "
        "warning events of remote pods here are not shown at their home"
    )
    assert found.fix == "upgrade the agent's chart, whose roles have it, or grant it"


async def test_a_right_without_which_an_agent_cannot_do_its_duty_is_a_problem_and_stands_first() -> None:
    denied = {("list", "events", ""), ("list", "nodes", ""), ("watch", "nodes", ""), ("create", "pods/binding", "")}
    found = await told(Cluster(*SPLIT, denied=denied))
    assert [(one.level, one.text.split(":", 4)[3]) for one in found] == [
        (PROBLEM, "agent-observer may not list, watch nodes"),
        (PROBLEM, "agent may not list, watch nodes"),
        (PROBLEM, "agent may not create pods/binding"),
        (NOTE, "agent-observer may not list events"),
    ]


async def test_a_right_in_one_namespace_is_asked_for_there() -> None:
    (found,) = await told(Cluster(*SPLIT, denied={("patch", "leases.coordination.k8s.io", "kube-node-lease")}))
    assert "gd:agent may not patch leases.coordination.k8s.io in kube-node-lease: it keeps no proxy nodes" in found.text


async def test_one_agent_for_both_halves_is_asked_for_both_with_one_account() -> None:
    denied = {("list", "events", ""), ("create", "pods/binding", "")}
    found = await told(Cluster(deployment("agent", "agent"), denied=denied))
    assert [one.text.split(":", 4)[3] for one in found] == [
        "agent may not create pods/binding",
        "agent may not list events",
    ]


MAKES_NONE = ("create", "pods", "")
BINDS_NONE = ("create", "pods/binding", "")


@pytest.mark.parametrize(
    ("denied", "bound", "where"),
    [
        ({MAKES_NONE, BINDS_NONE}, ("team-a", "team-b"), None),
        ({MAKES_NONE, BINDS_NONE, ("create", "pods/binding", "team-b")}, ("team-a", "team-b"), " in team-b"),
        ({MAKES_NONE, BINDS_NONE, ("create", "pods/binding", "team-b")}, ("team-b",), ""),
        ({BINDS_NONE}, ("team-a", "team-b"), " outside of team-a, team-b"),
        ({BINDS_NONE}, (), ""),
    ],
)
async def test_a_right_is_needed_in_each_namespace_that_an_executor_serves_and_in_no_other(
    denied: set[Denied], bound: tuple[str, ...], where: str | None
) -> None:
    found = await told(Cluster(*SPLIT, denied=denied, bound=bound))
    lacks = [f"system:serviceaccount:gd:agent may not create pods/binding{where}: no pod is bound here"]
    assert [one.text for one in found] == ([] if where is None else lacks)


async def test_a_namespace_with_roles_for_something_else_is_none_that_it_serves() -> None:
    duties = (("create", "pods"), ("create", "pods/binding"), ("patch", "pods/status"))
    denied = {(verb, kind, where) for verb, kind in duties for where in ("", "kube-node-lease")}
    cluster = Cluster(*SPLIT, denied=denied, bound=("kube-node-lease", "team-a"))
    assert await told(cluster) == []


async def test_namespaces_with_one_cluster_role_are_asked_about_once_and_of_others_there_is_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reviews, "MOST_PLACES", 2)
    bound = tuple(f"team-{at}" for at in range(5))
    denied = {MAKES_NONE, BINDS_NONE}
    alike = Cluster(*SPLIT, denied=denied, bound=bound, role={"roleRef": {"kind": "ClusterRole", "name": "agent"}})
    assert await told(alike) == []
    assert {one["resourceAttributes"]["namespace"] for one in alike.reviews} & set(bound) == {"team-0"}
    (left_out,) = await told(
        Cluster(*SPLIT, denied=denied, bound=bound, role={"roleRef": {"kind": "Role", "name": "a"}})
    )
    assert (left_out.level, left_out.text) == (
        NOTE,
        "rights in 3 more namespaces with roles of their own were not asked",
    )


async def test_rights_to_secrets_are_given_by_namespace_and_need_not_be_everywhere() -> None:
    settings = json.dumps({"executor": {"accept": [{"secrets_follow": ["db"]}]}})
    denied = {("get", "secrets", ""), ("get", "secrets", "team-b")}
    assert await told(Cluster(*SPLIT, denied=denied, settings=settings, bound=("team-a", "team-b"))) == []
    (found,) = await told(Cluster(*SPLIT, denied=denied, settings=settings, bound=("team-b",)))
    assert "may not get secrets: " in found.text


async def test_two_releases_of_the_chart_in_one_cluster_are_a_problem() -> None:
    second = deployment("executor", "second-executor")
    (found,) = await told(Cluster(*SPLIT, second))
    assert (found.about, found.level) == ("releases of the agent", PROBLEM)
    assert "2 releases of the agent's chart are there (gd-agent, gd-second)" in found.text
    assert "uninstall all but one" in found.fix


STARTED_HERE = ClusterSection(name="east", agent={"executor": {"relay": "all"}, "kubelet": {"account": "ops/kubelets"}})


async def told_here(cluster: Cluster) -> list[Finding]:
    return await lacking_here(STARTED_HERE, cast(Member, cluster))


async def test_an_agent_that_run_starts_is_asked_about_as_whom_its_kubeconfig_stands_for() -> None:
    cluster = Cluster(denied={("create", "pods/exec", ""), ("create", "serviceaccounts/token", "ops")})
    exec_, token, _ = sorted(await told_here(cluster), key=lambda one: one.text)
    assert exec_.text.startswith("ann may not create pods/exec: no kubectl exec")
    assert token.text.startswith("ann may not create serviceaccounts/token: ")
    assert "global-dispatcher install" in exec_.fix
    asked = [one["resourceAttributes"] for one in cluster.reviews]
    assert {(one["namespace"], one["name"]) for one in asked if one["subresource"] == "token"} == {("ops", "kubelets")}


async def test_role_bindings_of_its_user_or_group_count_for_it() -> None:
    denied = {MAKES_NONE, BINDS_NONE, ("create", "pods/binding", "team-b")}
    (found,) = await told_here(Cluster(denied=denied, bound=("team-a", "team-b")))
    assert found.text == "ann may not create pods/binding in team-b: no pod is bound here"


async def test_an_agent_of_the_chart_beside_one_that_run_starts_is_a_problem() -> None:
    cluster = Cluster(*SPLIT)
    (found,) = await told_here(cluster)
    assert (found.about, found.level, cluster.reviews) == ("releases of the agent", PROBLEM, [])
    assert "(gd-agent)" in found.text
    assert "via: gateway" in found.fix


async def test_who_may_not_see_agents_of_the_chart_is_asked_for_what_it_may_all_the_same() -> None:
    (found,) = await told_here(Cluster(refuses={DEPLOYMENTS: 403}, denied={("create", "pods/exec", "")}))
    assert "ann may not create pods/exec" in found.text


@pytest.mark.parametrize("path", [DEPLOYMENTS, WHO_AM_I, SELF_REVIEWS])
async def test_rights_that_cannot_be_asked_for_are_not_taken_for_given(path: str) -> None:
    (found,) = await told_here(Cluster(refuses={path: 500}))
    assert (found.level, found.text) == (NOTE, f"not known: {path} is refused")


async def test_role_bindings_are_listed_once_however_many_rights_are_denied() -> None:
    denied = {(verb, "pods", "") for verb in ("get", "create", "patch", "delete")} | {BINDS_NONE}
    cluster = Cluster(*SPLIT, denied=denied, bound=("team-a",))
    assert await told(cluster) == []
    assert cluster.listed == [DEPLOYMENTS, BINDINGS]


@pytest.mark.parametrize(("settings", "lacks"), [(ALL_ON, 1), ("{}", 0), ("gateway: 1", 0), ("{", 0)])
async def test_exec_is_missed_only_where_the_agents_file_turns_it_on(settings: str, lacks: int) -> None:
    found = await told(Cluster(*SPLIT, denied={("create", "pods/exec", "")}, settings=settings))
    assert len(found) == lacks


async def test_evictions_are_missed_only_where_the_dispatcher_has_pods_evicted() -> None:
    denied = {("create", "pods/eviction", "")}
    assert await told(Cluster(*SPLIT, denied=denied)) == []
    (found,) = await told(Cluster(*SPLIT, denied=denied), evicting=True)
    assert found.text.endswith("may not create pods/eviction: no pod is moved by rebalancing, or gives quota back")


@pytest.mark.parametrize("path", [DEPLOYMENTS, REVIEWS])
async def test_who_may_not_ask_is_told_so_once(path: str) -> None:
    (found,) = await told(Cluster(*SPLIT, refuses={path: 403}))
    assert (found.level, found.text) == (NOTE, f"not known: {path} is refused")
    assert "create subjectaccessreviews" in found.fix


@pytest.mark.parametrize("path", [DEPLOYMENTS, REVIEWS, BINDINGS])
async def test_a_server_that_answers_with_an_error_is_not_taken_for_one_where_nothing_is_lacking(path: str) -> None:
    denied = {("create", "pods/binding", "")}
    (found,) = await told(Cluster(*SPLIT, denied=denied, refuses={path: 500}))
    assert (found.level, found.text) == (NOTE, f"not known: {path} is refused")
    assert "run doctor again" in found.fix


async def test_a_settings_file_that_may_not_be_read_leaves_the_other_rights_to_be_asked_for() -> None:
    refuses = {"/api/v1/namespaces/gd/configmaps/agent": 403}
    denied = {("create", "pods/exec", ""), ("list", "events", "")}
    (found,) = await told(Cluster(*SPLIT, denied=denied, settings=ALL_ON, refuses=refuses))
    assert "may not list events" in found.text


async def test_nothing_is_said_where_no_agent_of_the_chart_runs_or_nothing_answers() -> None:
    other = deployment("dispatcher", "dispatcher")
    webhook = deployment("agent", "agent-webhook")
    webhook["spec"]["template"]["metadata"]["labels"] = {f"{LABEL}/name": "global-dispatcher-agent-webhook"}
    cluster = Cluster(other, webhook)
    assert (await told(cluster), cluster.reviews) == ([], [])
    assert await told(Cluster(*SPLIT, refuses={DEPLOYMENTS: 0})) == []


def test_logs_are_relayed_by_default_and_nothing_else() -> None:
    assert features("gateway: {urls: ['wss://g:1']}") == {"logs"}
    assert features("executor: {relay: all}") == {"logs", "exec"}
    assert features("executor: {relay: none}") == set()
    assert features("- " * 60_000) == set(), "what would overflow the loader's stack is not loaded"
    assert "pods/log" in {one.kinds for one in needs("executor", {"logs"})}


async def lacking_in(file: Path) -> list[Finding]:
    config = read_config(file)[0]
    async with reached(config) as members:
        return await all_lacking(config, members)


async def test_the_clusters_of_a_configuration_are_asked(fleet: EmbeddedFleet, tmp_path: Path) -> None:
    """Its API server grants nothing to service accounts: all is lacking, and the other cluster has no agent."""
    file = tmp_path / "dispatcher.yaml"
    rows = [{"name": name, "context": name, "kubeconfig": str(fleet.kubeconfig)} for name in ("east", "west")]
    file.write_text(json.dumps({"clusters": rows}))
    assert await lacking_in(file) == []


@pytest.mark.parametrize(("reclaim", "asked"), [("any", True), ("lower_priority", True), ("never", False)])
def test_tenants_that_take_quota_back_need_the_right_to_evict(tmp_path: Path, reclaim: str, asked: bool) -> None:
    tenants = {"name": "red", "namespaces": ["east/red"], "nominal": {"cpu": 2}, "reclaim": reclaim}
    (tmp_path / "tenants.yaml").write_text(json.dumps({"tenants": [tenants]}))
    file = tmp_path / "dispatcher.yaml"
    file.write_text(json.dumps({"clusters": [{"name": "east", "context": "east"}], "tenants": "tenants.yaml"}))
    assert has_evicted(read_config(file)[0]) == asked


@pytest.mark.parametrize(
    "item", [None, "x", {}, {"spec": {"template": 1}, "metadata": {"namespace": 1, "name": "\x1b"}}]
)
async def test_an_api_server_that_answers_in_another_form_hides_nothing_of_other_clusters(
    fleet: EmbeddedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: Any
) -> None:
    whole = Member.items

    async def items(member: Member, path: str, **query: str) -> list[Any]:
        return [item] if member.name == "east" else await whole(member, path, **query)

    monkeypatch.setattr(Member, "items", items)
    file = tmp_path / "dispatcher.yaml"
    rows = [{"name": name, "context": name, "kubeconfig": str(fleet.kubeconfig)} for name in ("east", "west")]
    file.write_text(json.dumps({"clusters": rows}))
    (found,) = await lacking_in(file)
    assert (found.cluster, found.level, "in another form" in found.text) == ("east", NOTE, True)
