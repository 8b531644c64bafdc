"""Whose pods a cluster takes, and what of them it lets in: its own policy, on top of what never crosses."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executor.crossing.manifest import ManifestError, sanitise
from agents.executor.crossing.policy import ALLOWANCES, Accept, ExecutorPolicy, Grants, MadeNamespaces
from agents.executor.crossing.restrict import restrict
from agents.runtime.agent import executor_settings
from agents.runtime.settings import AcceptSettings, AgentSettings, ExecutorOptions, NamespaceSettings
from shared.messages import BOUND, REFUSED, Outcome, PodRef
from shared.model import names
from shared.model.crossing import kept_abroad, opened_to
from shared.model.pod import SourceRef, Toleration
from tests.agents.executor.world import World, node_object, order_for, pod_object

Object = dict[str, Any]
STAY = f'{names.STAY}: "true"'


def target(*nodes: Object, policy: ExecutorPolicy | None = None) -> World:
    return World(*nodes, cluster="b", policy=policy)


def rows(**row: Any) -> ExecutorPolicy:
    return ExecutorPolicy(accept=(Accept(**row),))


def asked(world: World, pod: Object | None = None, namespace: str = "default") -> Outcome:
    """What the target answers to an order that carries this very pod, whatever the source should have kept back."""
    ref = PodRef(namespace, "web", "source-uid")
    return world.do(order_for(ref, 1, "n1", msgspec.json.encode(pod or pod_object())))


def made(world: World) -> Object:
    (pod,) = world.api.pods()
    return pod


def container(**fields: Any) -> Object:
    return {"containers": [{"name": "c", "image": "busybox", **fields}]}


def first(**fields: Any) -> Object:
    return {**container(), "initContainers": [{"name": "i", "image": "busybox", **fields}]}


def secured(**fields: Any) -> Object:
    return container(securityContext=fields)


C, I = "spec.containers[0]", "spec.initContainers[0]"  # noqa: E741 - as short as what they name
# (word of the policy, field that is named, spec)
BEYOND_BASELINE: list[tuple[str, str, Object]] = [
    ("hostPort", f"{C}.ports[0].hostPort", container(ports=[{"containerPort": 53, "hostPort": 53}])),
    ("hostPort", f"{I}.ports[1].hostPort", first(ports=[{"containerPort": 1}, {"containerPort": 53, "hostPort": 53}])),
    ("capabilities", f"{C}.securityContext.capabilities.add[1]", secured(capabilities={"add": ["KILL", "SYS_ADMIN"]})),
    ("capabilities", f"{C}.securityContext.capabilities.add[0]", secured(capabilities={"add": ["NET_ADMIN"]})),
    ("capabilities", f"{C}.securityContext.capabilities.add[0]", secured(capabilities={"add": ["ALL"]})),
    ("seccomp", f"{C}.securityContext.seccompProfile.type", secured(seccompProfile={"type": "Unconfined"})),
    (
        "seccomp",
        "spec.securityContext.seccompProfile.type",
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    ),
    ("appArmor", f"{C}.securityContext.appArmorProfile.type", secured(appArmorProfile={"type": "Unconfined"})),
    (
        "appArmor",
        "spec.securityContext.appArmorProfile.type",
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    ),
    ("procMount", f"{C}.securityContext.procMount", secured(procMount="Unmasked")),
    (
        "seLinux",
        "spec.securityContext.seLinuxOptions.type",
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
    ),
    ("seLinux", f"{C}.securityContext.seLinuxOptions.user", secured(seLinuxOptions={"user": "root"})),
    ("seLinux", f"{C}.securityContext.seLinuxOptions.role", secured(seLinuxOptions={"role": "sysadm_r"})),
    (
        "sysctls",
        "spec.securityContext.sysctls[0].name",
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
    ),
    ("probeHost", f"{C}.livenessProbe.httpGet.host", container(livenessProbe={"httpGet": {"host": "10.0.0.1"}})),
    ("probeHost", f"{C}.readinessProbe.tcpSocket.host", container(readinessProbe={"tcpSocket": {"host": "10.0.0.1"}})),
    ("probeHost", f"{I}.startupProbe.httpGet.host", first(startupProbe={"httpGet": {"host": "db.example"}})),
    ("probeHost", f"{C}.lifecycle.preStop.httpGet.host", container(lifecycle={"preStop": {"httpGet": {"host": "x"}}})),
    (
        "probeHost",
        f"{C}.lifecycle.postStart.tcpSocket.host",
        container(lifecycle={"postStart": {"tcpSocket": {"host": "x"}}}),
    ),
]


@pytest.mark.parametrize(("allow", "field", "spec"), BEYOND_BASELINE, ids=[row[1] for row in BEYOND_BASELINE])
def test_a_field_beyond_baseline_is_refused_with_its_name_and_both_fixes(allow: str, field: str, spec: Object) -> None:
    world = target()
    outcome = asked(world, pod_object(**spec))
    assert (outcome.verdict, world.api.pods()) == (REFUSED, [])
    assert outcome.message.startswith(f"{field} ")
    assert f'"{allow}" in `allow`' in outcome.message
    assert STAY in outcome.message


@pytest.mark.parametrize(("allow", "field", "spec"), BEYOND_BASELINE, ids=[row[1] for row in BEYOND_BASELINE])
def test_it_is_let_in_where_the_policy_of_the_target_says_so_and_by_no_other_word(
    allow: str, field: str, spec: Object
) -> None:
    assert asked(target(policy=rows(allow=(allow,))), pod_object(**spec)).verdict == BOUND
    others = tuple(word for word in ALLOWANCES if word != allow)
    assert asked(target(policy=rows(allow=others)), pod_object(**spec)).verdict == REFUSED


WITHIN_BASELINE: dict[str, Object] = {
    "a port of its own": container(ports=[{"containerPort": 80}]),
    "a capability of the list": secured(capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
    "the runtime's profiles": secured(
        seccompProfile={"type": "RuntimeDefault"}, appArmorProfile={"type": "RuntimeDefault"}, procMount="Default"
    ),
    "a container's SELinux type": secured(seLinuxOptions={"type": "container_t", "level": "s0:c1,c2"}),
    "a safe sysctl": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
    "a probe of itself": container(livenessProbe={"httpGet": {"port": 80}}, lifecycle={"preStop": {"exec": {}}}),
    "a user": secured(runAsUser=0, allowPrivilegeEscalation=True),
    "a runtime class": {"runtimeClassName": "gvisor"},
    "a config map": container(envFrom=[{"configMapRef": {"name": "settings"}}]),
}


@pytest.mark.parametrize("spec", WITHIN_BASELINE.values(), ids=WITHIN_BASELINE.keys())
def test_what_baseline_lets_in_crosses_unchanged(spec: Object) -> None:
    world = target()
    world.api.put("/api/v1/namespaces/default/configmaps/settings", {"metadata": {"name": "settings"}})
    pod = pod_object(**spec)
    assert asked(world, pod).verdict == BOUND
    assert {key: made(world)["spec"][key] for key in spec} == spec


METADATA = [
    "169.254.169.254",
    "[fe80::1%eth0]",
    "::ffff:169.254.169.254",
    "metadata.google.internal.",
    "fd00:ec2::254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "0xa9.254.43518",
    "169.16689662",
    "169.254.169.254.nip.io",
    "x-169-254-169-254.sslip.io",
    "www.a9fea9fe.nip.io",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "localhost",
    "127.1",
    "0",
]
NOT_METADATA = ["10.0.0.1", "db.team.svc", "example.com", "1.2.3.example.com", "v1-2-3-4.example.com", "167772161"]


@pytest.mark.parametrize("host", METADATA)
def test_a_probe_of_a_metadata_service_never_crosses_whatever_the_target_allows(host: str) -> None:
    pod = pod_object(**container(livenessProbe={"httpGet": {"host": host, "port": 80}}))
    with pytest.raises(ManifestError, match=r"^spec\.containers\[0\]\.livenessProbe\.httpGet\.host .*metadata"):
        sanitise(msgspec.json.encode(pod))
    assert asked(target(policy=rows(allow=ALLOWANCES)), pod).verdict == REFUSED


@pytest.mark.parametrize("host", NOT_METADATA)
def test_other_hosts_cross_where_the_target_lets_them_in(host: str) -> None:
    pod = pod_object(**container(livenessProbe={"httpGet": {"host": host, "port": 80}}))
    assert asked(target(policy=rows(allow=ALLOWANCES)), pod).verdict == BOUND


SECRETS: dict[str, Object] = {
    "spec.volumes[0].secret.secretName": {"volumes": [{"name": "v", "secret": {"secretName": "cloud"}}]},
    "spec.volumes[0].projected.sources[1].secret.name": {
        "volumes": [
            {
                "name": "v",
                "projected": {
                    "sources": [{"configMap": {"name": "x", "optional": True}}, {"secret": {"name": "cloud"}}]
                },
            }
        ]
    },
    "spec.imagePullSecrets[0].name": {"imagePullSecrets": [{"name": "cloud"}]},
    f"{C}.env[0].valueFrom.secretKeyRef.name": container(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "cloud", "key": "k"}}}]
    ),
    f"{C}.envFrom[0].secretRef.name": container(envFrom=[{"secretRef": {"name": "cloud", "optional": True}}]),
    f"{I}.envFrom[0].secretRef.name": first(envFrom=[{"secretRef": {"name": "cloud"}}]),
}


@pytest.mark.parametrize(("field", "spec"), SECRETS.items(), ids=SECRETS.keys())
def test_a_secret_of_the_target_is_referred_to_only_where_its_policy_names_it(field: str, spec: Object) -> None:
    outcome = asked(target(), pod_object(**spec))
    assert outcome.verdict == REFUSED
    assert outcome.message.startswith(f'{field} is Secret "cloud"')
    assert '"cloud" in `secrets`' in outcome.message
    assert STAY in outcome.message
    assert asked(target(policy=rows(secrets=("other", "clou?"))), pod_object(**spec)).verdict == BOUND
    assert asked(target(policy=rows(secrets=("cloudy",))), pod_object(**spec)).verdict == REFUSED


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"podCertificate": {"signerName": "x/y"}}, "is a certificate that its own cluster gives"),
        ({"clusterTrustBundle": {"name": "x", "path": "p"}}, "names certificates that its own cluster trusts"),
        (
            {"clusterTrustBundle": {"signerName": "x/y", "path": "p", "optional": True}},
            "names certificates that its own cluster trusts",
        ),
    ],
)
def test_a_projected_identity_or_trust_of_the_source_never_crosses(source: Object, why: str) -> None:
    volumes = [{"name": "v", "projected": {"sources": [source]}}]
    (field,) = source
    with pytest.raises(ManifestError, match=rf"^spec\.volumes\[0\]\.projected\.sources\[0\]\.{field} {why};"):
        sanitise(msgspec.json.encode(pod_object(volumes=volumes)))


@pytest.mark.parametrize(("given_users", "crosses"), [(False, True), (True, False)])
def test_only_the_narrower_choice_of_user_namespaces_crosses(given_users: bool, crosses: bool) -> None:
    world = target()
    assert asked(world, pod_object(hostUsers=given_users)).verdict == BOUND
    assert ("hostUsers" in made(world)["spec"]) is crosses


ANNOTATIONS = {
    "note": True,
    "prometheus.io/scrape": True,
    "checksum/config": True,
    "example.com/note": False,
    "sidecar.istio.io/inject": True,
    "traffic.sidecar.istio.io/excludeOutboundPorts": False,
    "karpenter.sh/do-not-disrupt": True,
    "cluster-autoscaler.kubernetes.io/safe-to-evict": True,
    "cluster-autoscaler.kubernetes.io/other": False,
    "container.apparmor.security.beta.kubernetes.io/c": False,
    "container.apparmor.security.beta/c": False,
    "k8s.v1.cni.cncf.io/networks": False,
    "v1.multus-cni.io/default-network": False,
    "cni.projectcalico.org/ipAddrs": False,
}


@pytest.mark.parametrize(("key", "kept"), ANNOTATIONS.items(), ids=ANNOTATIONS.keys())
def test_an_annotation_with_a_domain_is_left_behind_unless_it_is_listed(key: str, kept: bool) -> None:
    world = target()
    pod = pod_object()
    pod["metadata"]["annotations"] = {key: "v"}
    assert asked(world, pod).verdict == BOUND
    assert (key in made(world)["metadata"]["annotations"]) is kept


LABELS = {
    "app": True,
    "example.com/team": True,
    "sidecar.istio.io/inject": True,
    "security.istio.io/tlsMode": False,
    "topology.istio.io/network": False,
    "azure.workload.identity/use": False,
    "linkerd.io/control-plane-ns": False,
}


@pytest.mark.parametrize(("key", "kept"), LABELS.items(), ids=LABELS.keys())
def test_a_label_that_steers_meshes_or_identities_is_left_behind_as_an_annotation_is(key: str, kept: bool) -> None:
    world = target()
    pod = pod_object()
    pod["metadata"]["labels"] = {key: "v"}
    assert asked(world, pod).verdict == BOUND
    assert (key in made(world)["metadata"]["labels"]) is kept


def test_one_row_lets_in_labels_and_annotations_of_a_mesh() -> None:
    world = target(policy=rows(annotations=("*.istio.io/*",)))
    pod = pod_object()
    key = "security.istio.io/tlsMode"
    pod["metadata"] |= {"labels": {key: "istio"}, "annotations": {key: "istio"}}
    assert asked(world, pod).verdict == BOUND
    assert made(world)["metadata"]["labels"][key] == "istio"
    assert made(world)["metadata"]["annotations"][key] == "istio"


def test_a_policy_may_list_other_annotations_but_no_reserved_ones() -> None:
    world = target(policy=rows(annotations=("*",)))
    pod = pod_object()
    pod["metadata"]["annotations"] = {"example.com/note": "v", "kubernetes.io/x": "v", names.DECISION: "v"}
    assert asked(world, pod).verdict == BOUND
    ours = {key for key in made(world)["metadata"]["annotations"] if key.startswith(names.PREFIX)}
    assert set(made(world)["metadata"]["annotations"]) - ours == {"example.com/note"}
    assert names.DECISION not in ours


BLANKET = {"operator": "Exists"}
MASTER = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 30}
GPU = {"key": "gpu", "operator": "Exists"}
# (keys that the policy lists, tolerations that the delegate has)
TOLERATIONS: list[tuple[tuple[str, ...], list[Object]]] = [
    ((), [UNREACHABLE, GPU]),
    (("node-role.kubernetes.io/control-plane",), [MASTER, UNREACHABLE, GPU]),
    (("*",), [BLANKET, MASTER, UNREACHABLE, GPU]),
]


@pytest.mark.parametrize(("listed", "kept"), TOLERATIONS)
def test_a_blanket_toleration_is_narrowed_to_what_the_target_lists(listed: tuple[str, ...], kept: list[Object]) -> None:
    world = target(policy=rows(tolerations=listed))
    assert asked(world, pod_object(tolerations=[BLANKET, MASTER, UNREACHABLE, GPU])).verdict == BOUND
    assert made(world)["spec"]["tolerations"] == kept


@pytest.mark.parametrize("key", ["node-role.kubernetes.io/control-plane", "dedicated"])
def test_a_blanket_toleration_opens_no_tainted_node_of_another_cluster(key: str) -> None:
    node = node_object(taints=[{"key": key, "effect": "NoSchedule"}])
    pod = pod_object(tolerations=[{"operator": "Exists"}])
    outcome = asked(target(node), pod)
    assert outcome.verdict == REFUSED
    assert f"untolerated taint(s) ({key}:NoSchedule)" in outcome.message
    assert asked(target(node, policy=rows(tolerations=("*",))), pod).verdict == BOUND


KEYS = st.sampled_from(["", "gpu", "node-role.kubernetes.io/master", "node-role.kubernetes.io/edge"])
PATTERNS = st.lists(st.sampled_from(["*", "gpu", "node-role.kubernetes.io/*", "*edge"]), max_size=2).map(tuple)
ROWS = st.lists(st.builds(Accept, clusters=st.sampled_from([("*",), ("c",)]), tolerations=PATTERNS), max_size=2)


@given(st.lists(KEYS, max_size=4), ROWS, st.sampled_from(["a", "c"]))
def test_the_dispatcher_filters_by_the_very_tolerations_that_the_target_keeps(
    keys: list[str], rows: list[Accept], home: str
) -> None:
    policy = ExecutorPolicy(accept=tuple(rows))
    source = SourceRef(home, "uid", "n", "p", "u", 1)
    spec = {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}
    manifest = {"metadata": {"annotations": {}}, "spec": spec}
    there = restrict(manifest, "b", policy.grants(source))["spec"].get("tolerations", [])
    own = [Toleration(key, "Exists") for key in keys]
    filtered = kept_abroad(own, opened_to(home, "n", policy.openings))
    assert [one.key for one in filtered] == [one["key"] for one in there]


def test_a_control_plane_node_takes_no_pod_of_another_cluster_though_it_has_no_taint() -> None:
    node = node_object()
    node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    outcome = asked(target(node))
    assert outcome.verdict == REFUSED
    assert 'node "n1" is a control-plane node (node-role.kubernetes.io/control-plane) of cluster "b"' in outcome.message
    assert '"controlPlane" in `allow`' in outcome.message
    assert asked(target(node, policy=rows(allow=("controlPlane",)))).verdict == BOUND


# (namespace, labels of it in the target, None: absent there; policy; what is said, '' if it is accepted)
SAMENESS: dict[str, tuple[str, dict[str, str] | None, ExecutorPolicy, str]] = {
    "the same namespace is there": ("team", {}, ExecutorPolicy(), ""),
    "it is not": ("team", None, ExecutorPolicy(), 'namespace "team" does not exist in cluster "b"'),
    "it is Kubernetes' own": ("kube-system", {}, ExecutorPolicy(), 'namespace "kube-system" is Kubernetes\' own'),
    "and so whatever a row says": (
        "kube-public",
        {names.ACCEPT: "true"},
        ExecutorPolicy(accept=(Accept(namespaces=("kube-*",)),)),
        'namespace "kube-public" is Kubernetes\' own',
    ),
    "it is closed": (
        "team",
        {},
        ExecutorPolicy(closed=("x", "te*")),
        'namespace "team" is closed in cluster "b" by "te*" in its `executor.closed`',
    ),
    "it is labelled closed": (
        "team",
        {names.ACCEPT: "false"},
        ExecutorPolicy(),
        f'namespace "team" of cluster "b" has the label, or annotation, {names.ACCEPT}: "false"',
    ),
    "its label means nothing": (
        "team",
        {names.ACCEPT: "No"},
        ExecutorPolicy(),
        f'has the label, or annotation, {names.ACCEPT}: "No"',
    ),
    "it is labelled open": ("team", {names.ACCEPT: "true"}, ExecutorPolicy(), ""),
    "no row covers it": (
        "team",
        {},
        ExecutorPolicy(accept=(Accept(namespaces=("prod-*",)),)),
        'cluster "b" does not accept pods of namespace "team" of cluster "a"',
    ),
    "a label opens nothing that no row covers": (
        "team",
        {names.ACCEPT: "true"},
        ExecutorPolicy(accept=(Accept(clusters=("c",)),)),
        'cluster "b" does not accept pods of namespace "team" of cluster "a"',
    ),
}


@pytest.mark.parametrize("what", SAMENESS)
def test_a_namespace_is_open_to_pods_of_its_own_name_unless_somebody_closed_it(what: str) -> None:
    namespace, labels, policy, said = SAMENESS[what]
    world = target(policy=policy)
    if labels is not None:
        world.api.namespaces.add(namespace)
        world.api.namespace_labels[namespace] = labels
    world.sync()
    outcome = asked(world, namespace=namespace)
    assert outcome.verdict == (REFUSED if said else BOUND), outcome.message
    assert said in outcome.message
    assert (STAY in outcome.message) == (bool(said) and labels is not None)
    assert len(world.api.pods()) == (not said)


def test_rows_that_cover_one_source_let_in_together_and_others_nothing() -> None:
    policy = ExecutorPolicy(
        accept=(Accept(), Accept(clusters=("a",), allow=("hostPort",)), Accept(clusters=("c",), allow=("seccomp",)))
    )
    ports = pod_object(**container(ports=[{"containerPort": 53, "hostPort": 53}]))
    assert asked(target(policy=policy), ports).verdict == BOUND
    assert asked(target(policy=policy), pod_object(**secured(seccompProfile={"type": "Unconfined"}))).verdict == REFUSED


def test_the_settings_of_an_agent_are_its_policy() -> None:
    assert executor_settings(AgentSettings(cluster="b")).policy == ExecutorPolicy()
    row: Object = {
        "clusters": ("c",),
        "namespaces": ("n",),
        "secrets": ("s",),
        "annotations": ("x/*",),
        "tolerations": ("t",),
        "local_accounts": ("app",),
    }
    options = ExecutorOptions(closed=("vault",), accept=(AcceptSettings(**row, allow=("hostPort",)),))
    want = ExecutorPolicy(closed=("vault",), accept=(Accept(**row, allow=("hostPort",)),))
    assert executor_settings(AgentSettings(cluster="b", executor=options)).policy == want
    made: Object = {"create": ("team-*",), "labels": {"a": "b"}, "most": 7, "remove_after_s": 600.0}
    options = ExecutorOptions(namespaces=NamespaceSettings(**made))
    found = executor_settings(AgentSettings(cluster="b", executor=options)).policy
    assert found == ExecutorPolicy(namespaces=MadeNamespaces(**made))
    options = ExecutorOptions(services=True, relay="all", evict_foreign=True)
    found = executor_settings(AgentSettings(cluster="b", executor=options)).policy
    assert found == ExecutorPolicy(services=True, relay="all", evict_foreign=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"remove_after_s": 299}, "is 0 or at least 300"),
        ({"labels": {names.ACCEPT: "true"}}, "is not yours to set"),
        ({"labels": {names.MADE_FOR: "x"}}, "is not yours to set"),
        ({"labels": {"kubernetes.io/metadata.name": "x"}}, "is not yours to set"),
    ],
)
def test_settings_of_namespaces_that_cannot_be_meant_are_refused(wrong: Object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NamespaceSettings(**wrong)


def everything() -> Object:
    """A pod that asks for all that a cluster would not give to a stranger."""
    pod = pod_object(
        containers=[
            {
                "name": "main",
                "image": "busybox",
                "securityContext": {
                    "capabilities": {"add": ["SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN"]},
                    "procMount": "Unmasked",
                    "seccompProfile": {"type": "Unconfined"},
                    "appArmorProfile": {"type": "Unconfined"},
                },
                "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}],
                "envFrom": [{"secretRef": {"name": "cloud-credentials"}}],
                "livenessProbe": {"httpGet": {"host": "10.0.0.1", "path": "/", "port": 80}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        volumes=[{"name": "v", "secret": {"secretName": "bootstrap-signer"}}],
        tolerations=[{"operator": "Exists"}],
        imagePullSecrets=[{"name": "registry-admin"}],
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}], "seLinuxOptions": {"type": "spc_t"}},
    )
    pod["metadata"]["labels"] = {"app": "payments", "k8s-app": "kube-dns"}
    return pod


def test_a_pod_that_asks_for_everything_gets_nothing_by_default() -> None:
    node = node_object(taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    world = target(node)
    world.api.namespaces.add("kube-system")
    world.sync()
    assert asked(world, everything(), namespace="kube-system").verdict == REFUSED
    world.restart()
    assert asked(world, everything()).verdict == REFUSED
    assert world.api.done == []


def test_and_what_all_words_of_a_policy_let_in_together_is_what_it_asks_for() -> None:
    world = target(policy=rows(allow=ALLOWANCES, secrets=("*",), tolerations=("*",)))
    assert asked(world, everything()).verdict == BOUND
    for field in ("containers", "volumes", "tolerations", "imagePullSecrets", "securityContext"):
        assert made(world)["spec"][field] == everything()["spec"][field]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["containers", "volumes", "tolerations", "imagePullSecrets", "securityContext"])


@given(spec=st.dictionaries(FIELDS, JSON), notes=st.dictionaries(st.sampled_from(list(ANNOTATIONS)), st.just("v")))
def test_what_the_target_let_in_once_it_lets_in_unchanged(spec: Object, notes: Object) -> None:
    pod = pod_object(**spec)
    pod["metadata"]["annotations"] = notes
    grants = Grants(annotations=("prometheus.io/*",), tolerations=("node-role*",), secrets=("*",))
    try:
        once = restrict(msgspec.json.decode(sanitise(msgspec.json.encode(pod))), "b", grants)
    except ManifestError:
        return
    assert restrict(once, "b", grants) == once
    assert sanitise(msgspec.json.encode(once)) == msgspec.json.encode(once)


@given(spec=st.dictionaries(FIELDS, JSON), holder=st.dictionaries(st.sampled_from(["ports", "envFrom", "env"]), JSON))
def test_any_order_is_carried_out_or_refused_with_words(spec: Object, holder: Object) -> None:
    outcome = asked(target(), pod_object(**{**container(**holder), **spec}))
    assert outcome.verdict in {BOUND, REFUSED}
    assert (outcome.verdict == BOUND) or outcome.message


OWN_TOKEN: Object = {
    "name": "vault",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]},
}
GIVEN_TOKEN = {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


OF_ACCOUNT = 'spec.serviceAccountName is "app"'
OF_TOKEN = 'spec.volumes[0].projected.sources[0].serviceAccountToken is a token of ServiceAccount "default"'

OF_AUTOMOUNT = 'spec.automountServiceAccountToken is true, for a token of ServiceAccount "default"'


@pytest.mark.parametrize(
    ("spec", "account", "named"),
    [
        pytest.param({"serviceAccountName": "default", "volumes": [GIVEN_TOKEN]}, "", "", id="what every pod gets"),
        pytest.param(
            {"automountServiceAccountToken": False, "serviceAccountName": "default"}, "", "", id="none at all"
        ),
        pytest.param(
            {"automountServiceAccountToken": True}, "default", OF_AUTOMOUNT, id="a token that is asked for by name"
        ),
        pytest.param(
            {"serviceAccountName": "app", "volumes": [OWN_TOKEN]}, "app", OF_ACCOUNT, id="an account of its own"
        ),
        pytest.param(
            {"serviceAccountName": "default", "volumes": [OWN_TOKEN]}, "default", OF_TOKEN, id="a token it asks for"
        ),
        pytest.param(
            {"volumes": [{**OWN_TOKEN, "name": "kube-api-access-y"}]}, "default", OF_TOKEN, id="under another's name"
        ),
    ],
)
def test_no_pod_runs_without_its_account_unless_it_or_a_row_says_that_it_needs_none(
    spec: Object, account: str, named: str
) -> None:
    pod = pod_object(**spec)
    outcome = asked(target(), pod)
    assert (outcome.verdict == REFUSED) == bool(account)
    if account:
        assert outcome.message.startswith(named)
        assert f'"{account}" in `service_accounts`' in outcome.message
        assert names.SERVICE_ACCOUNT in outcome.message
    opened = target(policy=rows(service_accounts=("app", "def*")))
    assert asked(opened, pod).verdict == BOUND
    assert {"serviceAccountName", "volumes"}.isdisjoint(made(opened)["spec"])
    assert made(opened)["spec"]["automountServiceAccountToken"] is False
    pod["metadata"]["annotations"] = {names.SERVICE_ACCOUNT: "none"}
    said = target()
    assert asked(said, pod).verdict == BOUND
    assert {"serviceAccountName", "volumes"}.isdisjoint(made(said)["spec"])
    assert made(said)["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("said", [{}, {names.SERVICE_ACCOUNT: "none"}])
def test_what_is_beside_a_token_in_a_volume_stays_when_the_token_is_left_behind(said: Object) -> None:
    (token,) = OWN_TOKEN["projected"]["sources"]
    rest = [{"configMap": {"name": "settings"}}, {"secret": {"name": "db"}}]
    volume = {"name": "all", "projected": {"sources": [rest[0], token, rest[1]], "defaultMode": 256}}
    mounts = [{"name": "all", "mountPath": "/all"}]
    pod = pod_object(**container(volumeMounts=mounts), volumes=[volume])
    pod["metadata"]["annotations"] = said
    world = target(policy=rows(service_accounts=() if said else ("default",), secrets=("db",)))
    world.api.put("/api/v1/namespaces/default/configmaps/settings", {"metadata": {"name": "settings"}})
    assert asked(world, pod).verdict == BOUND
    assert made(world)["spec"]["volumes"] == [{"name": "all", "projected": {"sources": rest, "defaultMode": 256}}]
    assert made(world)["spec"]["containers"][0]["volumeMounts"] == mounts


def test_mounts_of_a_token_that_is_left_behind_go_with_it() -> None:
    mounts = [{"name": "vault", "mountPath": "/vault"}, {"name": "d", "mountPath": "/d"}]
    pod = pod_object(**container(volumeMounts=mounts), volumes=[OWN_TOKEN, {"name": "d", "emptyDir": {}}])
    world = target(policy=rows(service_accounts=("default",)))
    assert asked(world, pod).verdict == BOUND
    assert made(world)["spec"]["volumes"] == [{"name": "d", "emptyDir": {}}]
    assert made(world)["spec"]["containers"][0]["volumeMounts"] == mounts[1:]
