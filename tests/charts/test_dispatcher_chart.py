"""The dispatcher's chart: its files are the defaults, its command finds them, its Services lead to it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.api_client import TOKEN_VARIABLE
from dispatcher.cli.main import app
from dispatcher.config import check_config, load_config
from dispatcher.config.profiles import read_profile
from dispatcher.kit.template import new_plugin
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework.plugin_args import check_args
from tests.charts.rendering import CHARTS, Helm, HelmError, containers, of_kind, only, write_mounted

A_KEY = "A" * 43 + "="
CONFIGS = CHARTS.parent / "configs"
CLUSTERS = [{"name": "east"}, {"name": "west"}]
# Where the chart must differ: the example's clusters, all addresses for the probes, and what depends on the pod.
DIFFERS: dict[str, Any] = {
    "clusters": CLUSTERS,
    "profile": "profiles/default.yaml",
    "tenants": "tenants.yaml",
    "gateway": {
        "host": "0.0.0.0",
        "port": 7443,
        "cert_file": "/run/secrets/gateway/tls.crt",
        "key_file": "/run/secrets/gateway/tls.key",
        "client_ca_file": "/run/secrets/gateway/ca.crt",
        "actors": 0,
    },
    "http": {"host": "0.0.0.0", "port": 7480, "login": {"token_file": "", "user_header": "", "proxies": []}},
    "leader_election": {"enabled": True, "lease_s": 15, "renew_deadline_s": 10, "retry_s": 2, "warm": True},
}
OWN_PROFILE = {
    "mine": {"plugins": [{"name": "PrioritySort"}, {"name": "TenantQuota"}, {"name": "NodeResourcesFit"}]},
    "packing": None,
}
KUBE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "global-dispatcher"}],
}
OWN_PLUGIN = {
    "plugins": {"quiet_zone": new_plugin("QuietZone")["quiet_zone.py"]},
    "profiles": {"mine": {"plugins": [{"name": "PrioritySort"}, {"name": "NodeResourcesFit"}, {"name": "QuietZone"}]}},
    "config": {"profile": "profiles/mine.yaml", "plugin_files": ["plugins/quiet_zone.py"]},
}
QUOTA = {"tenants": [{"name": "team", "namespaces": ["team-*"], "nominal": {"cpu": "40%", "memory": "1Gi"}}]}


def test_the_rendered_settings_are_the_commented_defaults(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("dispatcher"), tmp_path)
    expected = {**yaml.safe_load((CONFIGS / "dispatcher.yaml").read_text()), **DIFFERS}
    # kubeconfig, namespace, name and leader_url come by variables, as they depend on the release.
    del expected["ray"]  # its driver is the pod's, by GLOBAL_DISPATCHER_RAY__DRIVER
    del expected["signing"]  # of the Secret's files, where clusters dial in
    assert yaml.safe_load((folder / "dispatcher.yaml").read_text()) == expected


def test_tenants_are_those_of_configs(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("dispatcher"), tmp_path)
    shipped, rendered = (yaml.safe_load((root / "tenants.yaml").read_text()) for root in (CONFIGS, folder))
    assert rendered == shipped


def test_profiles_mean_what_those_of_configs_mean(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("dispatcher"), tmp_path)
    shipped, rendered = (sorted((root / "profiles").iterdir()) for root in (CONFIGS, folder))
    assert [file.name for file in rendered] == [file.name for file in shipped]
    assert list(map(meant, rendered)) == list(map(meant, shipped))


def meant(file: Path) -> tuple[str, list[Any]]:
    """A profile whether its file spells defaults out or not."""
    profile = read_profile(file, REGISTRY)
    uses = [(use.name, use.weight, check_args(REGISTRY[use.name].arguments, use.args)) for use in profile.plugins]
    return profile.scheduler_name, uses


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"config": {"profile": "profiles/latency.yaml"}}, id="another profile"),
        pytest.param({"profiles": OWN_PROFILE, "config": {"profile": "profiles/mine.yaml"}}, id="an own profile"),
        pytest.param({"tenants": {**QUOTA, "default": {"nominal": {"cpu": "20%"}}}}, id="quota"),
        pytest.param({"config": {"journal": None, "timing": {"tick_s": None}}}, id="keys left out"),
        pytest.param({"config": {"rebalancing": None}}, id="a section left out"),
        pytest.param({"profiles": {"kube": KUBE}, "config": {"profile": "profiles/kube.yaml"}}, id="kube-scheduler's"),
        pytest.param(OWN_PLUGIN, id="an own plugin"),
    ],
)
def test_config_check_accepts_what_is_rendered(helm: Helm, tmp_path: Path, values: dict[str, Any]) -> None:
    folder = write_mounted(helm.template("dispatcher", values), tmp_path)
    # In its pod there is a Ray driver; without one the agents would be started here, by kubeconfigs.
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    in_the_pod = {"GLOBAL_DISPATCHER_RAY__DRIVER": "/run/ray-driver/socket", LOGIN_VARIABLE: str(tokens)}
    told = CliRunner(env=in_the_pod).invoke(app, ["config", "check", str(folder / "dispatcher.yaml")])
    assert (told.exit_code, told.stdout) == (0, f"{folder / 'dispatcher.yaml'}: ok\n"), told.output


def test_an_own_profile_and_quota_arrive(helm: Helm, tmp_path: Path) -> None:
    values = {"profiles": OWN_PROFILE, "config": {"profile": "profiles/mine.yaml"}, "tenants": QUOTA}
    folder = write_mounted(helm.template("dispatcher", values), tmp_path)
    config = load_config(folder / "dispatcher.yaml")
    assert [use.name for use in config.profile.plugins] == ["PrioritySort", "TenantQuota", "NodeResourcesFit"]
    assert [tenant.name for tenant in config.tenants] == ["team"]
    assert not (folder / "profiles" / "packing.yaml").exists()


HEAD = "dispatcher-ray-head-0.dispatcher-ray.global-dispatcher.svc"


def test_the_dispatcher_reads_the_mounted_file_and_has_the_node_beside_it_join_the_head(helm: Helm) -> None:
    node, dispatcher = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    assert dispatcher["command"] == ["global-dispatcher", "run", "--config", "/etc/global-dispatcher/dispatcher.yaml"]
    env = {one["name"]: one.get("value") for one in dispatcher["env"]}
    socket = "/run/ray-driver/socket"
    assert env["GLOBAL_DISPATCHER_RAY__DRIVER"] == socket
    assert node["command"][:6] == [
        "global-dispatcher",
        "ray-driver",
        f"--socket={socket}",
        f"--address={HEAD}:6379",
        "--empty=/tmp/ray",
        "--",
    ]
    assert "--temp-dir=/tmp/ray" in node["command"]
    own = "--node-ip-address=dispatcher.dispatcher-ray.global-dispatcher.svc"
    assert {own, "--num-cpus=0"} <= set(node["command"])


def test_the_notes_make_one_token_for_the_whole_fleet_and_name_every_namespace(helm: Helm) -> None:
    example = str(CHARTS / "dispatcher" / "ci" / "example-values.yaml")
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", example, "--dry-run=client")
    lines = [line.strip() for line in helm(*words).partition("NOTES:")[2].splitlines()]
    made, given = [line for line in lines if "create secret generic global-dispatcher-ray" in line]
    assert [line for line in lines if "openssl" in line and "export" not in line] == [made]
    assert made.endswith('="$(openssl rand -hex 32)"')
    assert given.endswith('="$TOKEN"')
    assert (made.split()[1], given.split()[1:3]) == ("-n", ["--context", "CLUSTER"])
    assert "ray.address=gd-ray-head-0.gd-ray.fleet.svc:6379" in " ".join(lines)
    commands = [line for line in lines if line.startswith(("kubectl ", "helm ", "global-dispatcher "))]
    assert len(commands) >= 3
    assert all(" -n fleet" in line or "kubectl:#fleet/gd" in line for line in commands)


DIALLING = {"config": {"clusters": [{"name": "east", "via": "gateway"}]}}


@pytest.mark.parametrize("secret", ["global-dispatcher-signing", ""])
def test_where_clusters_dial_in_orders_are_signed_unless_no_secret_is_named(
    helm: Helm, tmp_path: Path, secret: str
) -> None:
    objects = helm.template("dispatcher", {**DIALLING, "signing": {"tlsSecret": secret}})
    told = yaml.safe_load((write_mounted(objects, tmp_path) / "dispatcher.yaml").read_text())
    (deployment,) = of_kind(objects, "Deployment")
    volumes = {one["name"]: one for one in deployment["spec"]["template"]["spec"]["volumes"]}
    assert ("signing" in told, "signing" in volumes) == (bool(secret), bool(secret))
    if secret:
        assert told["signing"]["key_file"] == "/run/secrets/signing/tls.key"
        assert volumes["signing"]["secret"]["secretName"] == secret


def test_where_all_clusters_dial_in_there_is_a_gateway_and_no_ray(helm: Helm) -> None:
    objects = helm.template("dispatcher", DIALLING)
    (dispatcher,) = containers(of_kind(objects, "Deployment"))
    assert {"name": "gateway", "containerPort": 7443} in dispatcher["ports"]
    assert {"name": "gateway", "mountPath": "/run/secrets/gateway", "readOnly": True} in dispatcher["volumeMounts"]
    assert not {"RAY_AUTH_TOKEN", "GLOBAL_DISPATCHER_RAY__DRIVER"} & {env["name"] for env in dispatcher["env"]}
    services = {one["metadata"]["name"] for one in of_kind(objects, "Service")}
    assert services == {"dispatcher", "dispatcher-gateway"}


def test_some_clusters_may_dial_in_beside_others_on_ray(helm: Helm) -> None:
    values = {"config": {"clusters": [{"name": "east", "via": "gateway"}, {"name": "west"}]}}
    objects = helm.template("dispatcher", values)
    assert [one["name"] for one in containers(of_kind(objects, "Deployment"))] == ["ray-node", "dispatcher"]
    assert [one["name"] for one in containers(of_kind(objects, "StatefulSet"))] == ["ray-head"]
    assert len(of_kind(objects, "Service")) == 3


def test_the_notes_say_how_clusters_that_dial_in_get_certificates(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(DIALLING))
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", str(file), "--dry-run=client")
    notes = helm(*words).partition("NOTES:")[2]
    assert "global-dispatcher join --context CONTEXT --cluster east --gateway HOST:7443 -n fleet" in notes
    assert "RAY" not in notes.upper().replace("GATEWAY", "")


def test_the_head_fixes_every_port(helm: Helm) -> None:
    ports = {"gcs": 26379, "nodeManager": 26380, "maxWorker": 20149}
    objects = helm.template("dispatcher", {"ray": {"ports": ports}})
    (head,) = containers(of_kind(objects, "StatefulSet"))
    node, _ = containers(of_kind(objects, "Deployment"))
    given = dict(word.removeprefix("--").split("=") for word in head["command"] if "port=" in word)
    assert given == {
        "port": "26379",
        "node-manager-port": "26380",
        "object-manager-port": "6381",
        "dashboard-agent-grpc-port": "6382",
        "dashboard-agent-listen-port": "6383",
        "runtime-env-agent-port": "6384",
        "metrics-export-port": "6385",
        "min-worker-port": "10100",
        "max-worker-port": "20149",
    }
    assert f"--address={HEAD}:26379" in node["command"]


def test_services_lead_to_the_http_port_and_to_a_head_that_is_not_ready_yet(helm: Helm) -> None:
    ray, http = of_kind(helm.template("dispatcher"), "Service")
    assert http["spec"]["ports"] == [{"name": "http", "port": 7480, "targetPort": "http"}]
    assert (ray["metadata"]["name"], ray["spec"]["clusterIP"]) == ("dispatcher-ray", "None")
    assert ray["spec"]["publishNotReadyAddresses"] is True
    assert [port["port"] for port in ray["spec"]["ports"]] == [6379, 6380, 6381]


def test_probes_ask_what_the_http_api_answers(helm: Helm) -> None:
    _, dispatcher = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    asked = [dispatcher[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [one["path"] for one in asked] == ["/livez", "/livez", "/readyz"]
    assert {one["port"] for one in asked} == {dispatcher["ports"][0]["name"]}


TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


def test_the_dispatcher_alone_has_credentials_of_the_cluster_for_its_lease(helm: Helm) -> None:
    objects = helm.template("dispatcher")
    assert only(objects, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    head, dispatcher = containers(of_kind(objects, "Deployment"))
    assert [TOKEN in one["volumeMounts"] for one in (head, dispatcher)] == [False, True]
    election = {key: value for key, value in env_of(dispatcher).items() if "LEADER_ELECTION" in key}
    assert election == {
        "GLOBAL_DISPATCHER_LEADER_ELECTION__KUBECONFIG": "in-cluster",
        "GLOBAL_DISPATCHER_LEADER_ELECTION__NAMESPACE": "global-dispatcher",
        "GLOBAL_DISPATCHER_LEADER_ELECTION__NAME": "dispatcher",  # the one that the Role names
    }


def test_without_an_election_the_dispatcher_has_no_credentials(helm: Helm) -> None:
    objects = helm.template("dispatcher", {"config": {"leader_election": {"enabled": False}}})
    _, dispatcher = containers(of_kind(objects, "Deployment"))
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


def test_the_test_pod_has_doctor_examine_what_the_service_tells(helm: Helm) -> None:
    objects = helm.template("dispatcher")
    (one,) = containers([only(objects, "Pod")])
    assert one["command"] == ["global-dispatcher", "doctor", "--server=http://dispatcher:7480"]
    assert "dispatcher" in [service["metadata"]["name"] for service in of_kind(objects, "Service")]
    assert CliRunner().invoke(app, [*one["command"][1:-1], "--server=http://127.0.0.1:9"]).exit_code != 0


LOGIN_VARIABLE = "GLOBAL_DISPATCHER_HTTP__LOGIN__TOKEN_FILE"
TOKENS = {"httpTokens": {"existingSecret": "readers", "key": "all", "ownKey": "prometheus"}}


def test_tokens_of_a_secret_are_asked_for_and_shown_by_what_the_chart_makes(helm: Helm) -> None:
    objects = helm.template("dispatcher", {**TOKENS, "serviceMonitor": {"enabled": True}})
    spec = only(objects, "Deployment")["spec"]["template"]["spec"]
    _, dispatcher = spec["containers"]
    env = {one["name"]: one.get("value") for one in dispatcher["env"]}
    (mount,) = [one for one in dispatcher["volumeMounts"] if one["name"] == "http-tokens"]
    (volume,) = [one["secret"] for one in spec["volumes"] if one["name"] == "http-tokens"]
    (item,) = volume["items"]
    assert (volume["secretName"], item["key"]) == ("readers", "all")
    assert env[LOGIN_VARIABLE] == f"{mount['mountPath']}/{item['path']}"
    own = {"name": "readers", "key": "prometheus"}
    (test,) = only(objects, "Pod")["spec"]["containers"]
    assert test["env"] == [{"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": own}}]
    (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == own


def test_without_a_secret_of_tokens_none_is_mounted(helm: Helm) -> None:
    _, dispatcher = only(helm.template("dispatcher"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert LOGIN_VARIABLE not in {one["name"] for one in dispatcher["env"]}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"timing": {"cluster_silent_s": 60}}, r"cluster_silent_s: must not be greater than cluster_lost_s \(30\)"),
        ({"timing": {"poll_wait_s": 11}}, r"poll_wait_s: must not be greater than cluster_silent_s \(10\)"),
        ({"timing": {"deadline_s": 40}}, r"deadline_s: must not be greater than execute_s \(30\)"),
        ({"timing": {"backoff_first_s": 11}}, r"backoff_first_s: must not be greater than backoff_longest_s \(10\)"),
        ({"timing": {"peers_s": 31}}, r"peers_s: must be at most a quarter of delegate_lease_s \(120\)"),
        ({"rebalancing": {"hot": 0.6}}, r"config\.rebalancing\.cool: must be less than hot \(0\.6\)"),
        ({"profiles": ["profiles/packing.yaml"]}, r"config\.profile: profiles/default\.yaml is given beside config\."),
        (
            {"clusters": [{"name": name, "via": "gateway", "uid": "u"} for name in ("east", "west")]},
            r"config\.clusters\[1\]\.uid: u is that of east, too",
        ),
        (
            {"clusters": [{"name": name, "via": "gateway", "key": A_KEY} for name in ("east", "west")]},
            r"config\.clusters\[1\]\.key: A{43}= is given for east and for west",
        ),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_what_a_dispatcher_would_end_with_is_refused_before_it_takes_the_earlier_ones_place(
    helm: Helm, tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", {"config": config})
    (tmp_path / "packing.yaml").write_text("extends: default")
    east = {"clusters": [{"name": "east", "via": "gateway"}], "leader_election": {"kubeconfig": "in-cluster"}}
    if "profiles" in config:
        config = {"profiles": ["packing.yaml"], "profile": "packing.yaml"}
    (tmp_path / "dispatcher.yaml").write_text(yaml.safe_dump({**east, **config}))
    key = next(iter(config)).rstrip("s")
    assert any(one.key.startswith(key) for one in check_config(tmp_path / "dispatcher.yaml"))  # it does not, either


def test_a_null_time_is_the_default(helm: Helm) -> None:
    helm.template("dispatcher", {"config": {"timing": {"cluster_lost_s": None}}})
    helm.template("dispatcher", {"config": {"timing": None, "rebalancing": None}})


@pytest.mark.parametrize("name", ["a.b", "9a", "Gd"])
def test_a_name_that_no_service_can_have_is_refused(helm: Helm, name: str) -> None:
    with pytest.raises(HelmError, match=f"fullnameOverride: {name} cannot name a Service"):
        helm.template("dispatcher", {"fullnameOverride": name})


def test_two_clusters_of_one_name_are_refused(helm: Helm) -> None:
    clusters = [{"name": name, "via": "gateway"} for name in ("east", "west", "east")]
    with pytest.raises(HelmError, match=r"config\.clusters\[2\]\.name: east is listed before"):
        helm.template("dispatcher", {"config": {"clusters": clusters}})


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["ray", "ray"], "signs none (it does where some of config.clusters has `via: gateway`)"),
        (["ray", "gateway"], "--set-file config.orders.authority=fleet/ca.crt"),
    ],
    ids=["all on Ray", "one dials in"],
)
def test_the_notes_say_whether_agents_on_ray_can_have_orders_verified(
    helm: Helm, clusters: list[str], words: str
) -> None:
    named = [{"name": f"c{number}", "via": via} for number, via in enumerate(clusters)]
    assert words in helm.notes("dispatcher", {"config": {"clusters": named}})


@pytest.mark.parametrize(
    ("values", "opened"),
    [({}, True), (TOKENS, False), ({"networkPolicy": {"enabled": True}}, False)],
    ids=["as it comes", "tokens", "network policy"],
)
def test_the_notes_warn_of_an_http_api_that_any_pod_may_read_with_the_commands_that_close_it(
    helm: Helm, values: dict[str, Any], opened: bool
) -> None:
    notes = helm.notes("dispatcher", values)
    assert ("WARNING: the HTTP API asks nobody who he is" in notes) is opened
    assert ("--set httpTokens.existingSecret=dispatcher-http" in notes) is opened


@pytest.mark.parametrize("closed", [False, True], ids=["as it comes", "network policy"])
def test_config_check_notes_an_http_api_that_asks_nobody_who_he_is_and_claims_nothing_of_policies(
    helm: Helm, tmp_path: Path, closed: bool
) -> None:
    values = {"networkPolicy": {"enabled": closed}}
    file = write_mounted(helm.template("dispatcher", values), tmp_path) / "dispatcher.yaml"
    in_the_pod = {"GLOBAL_DISPATCHER_RAY__DRIVER": "/run/ray-driver/socket"}
    told = CliRunner(env=in_the_pod).invoke(app, ["config", "check", str(file)])
    (note, _) = told.stdout.splitlines()
    assert "http.host: is '0.0.0.0' and http.login asks nobody who he is: whoever reaches port 7480" in note
    assert "unless a NetworkPolicy, which is not seen from here, lets only those reach it who may read" in note


@pytest.mark.parametrize(
    ("http", "words"),
    [
        ({"host": "127.0.0.1"}, r"config\.http\.host: 127\.0\.0\.1 is loopback"),
        ({"host": "localhost"}, r"config\.http\.host: localhost is loopback"),
        ({"host": "::1"}, r"config\.http\.host: ::1 is loopback"),
        ({"login": {"token_file": "/x/tokens"}}, r"login\.token_file: .* httpTokens\.existingSecret"),
        (
            {"login": {"user_header": "X-User", "proxies": ["10.0.0.1"]}},
            r"login\.user_header: .* httpTokens\.existingSecret, too",
        ),
    ],
    ids=["loopback", "localhost", "IPv6", "a file of tokens", "a proxy alone"],
)
def test_settings_that_lock_out_the_charts_own_readers_are_refused(
    helm: Helm, http: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", {"config": {"http": http}})


def test_a_proxys_header_is_taken_beside_tokens(helm: Helm) -> None:
    login = {"user_header": "X-User", "proxies": ["10.0.0.1"]}
    assert helm.template("dispatcher", {**TOKENS, "config": {"http": {"login": login}}})
