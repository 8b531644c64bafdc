"""The dispatcher's chart: its files are the commented defaults, and what is rendered is accepted by the dispatcher."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.config import load_config
from dispatcher.config.profiles import read_profile
from dispatcher.config.tenant_entries import NodesEntry, PartEntry, TenantEntry
from dispatcher.kit.template import new_plugin
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework.plugin_args import check_args
from tests.charts.dispatcher_values import LOGIN_VARIABLE, ON_RAY
from tests.charts.rendering import CHARTS, Helm, write_mounted

CONFIGS = CHARTS.parent / "configs"
CLUSTERS = [{"name": "east", "via": "gateway"}, {"name": "west", "via": "gateway"}]
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
    },
    "http": {"host": "0.0.0.0", "port": 7480, "login": {"token_file": "", "user_header": "", "proxies": []}},
    "ray": {"address": "", "port": 7444, "object_store_mib": 80},
    "signing": {"cert_file": "/run/secrets/signing/tls.crt", "key_file": "/run/secrets/signing/tls.key"},
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

TREE = {
    "tenants": [
        {"name": "all", "nominal": {"cpu": "80%"}, "max_priority": 1000},
        {
            "name": "ml",
            "namespaces": ["ml-*"],
            "parent": "all",
            "nominal": {"nvidia.com/gpu": 8},
            "borrowing_limit": {"cpu": "10%"},
            "lending_limit": {"nvidia.com/gpu": 2},
            "weight": 2.5,
            "quotas": [{"cluster": "east", "nodes": {"gpu": "H100"}, "nominal": {"nvidia.com/gpu": 2}}],
            "clusters": ["east"],
            "nodes": {"selector": {"pool": "ml"}, "exclusive": True, "tolerations": [{"key": "pool", "value": "ml"}]},
            "spread": True,
            "reclaim": "any",
            "reclaim_strategies": ["LessThanOrEqualToFinalShare"],
            "min_runtime_s": 600,
        },
    ]
}


def test_a_tenant_may_say_in_values_all_that_its_file_may() -> None:
    schema = json.loads((CHARTS / "dispatcher/values.schema.json").read_text())
    of_one = schema["properties"]["tenants"]["properties"]["tenants"]["items"]["properties"]
    assert of_one.keys() == TenantEntry.model_fields.keys()
    assert of_one["nodes"]["properties"].keys() == NodesEntry.model_fields.keys()
    assert of_one["quotas"]["items"]["properties"].keys() == PartEntry.model_fields.keys()


def test_the_rendered_settings_are_the_commented_defaults(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("dispatcher"), tmp_path)
    expected = {**yaml.safe_load((CONFIGS / "dispatcher.yaml").read_text()), **DIFFERS}
    # kubeconfig, namespace, name and leader_url come by variables, as they depend on the release.
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
        pytest.param({"tenants": TREE}, id="a tree of tenants"),
        pytest.param({"config": {"journal": None, "timing": {"tick_s": None}}}, id="keys left out"),
        pytest.param({"config": {"rebalancing": None}}, id="a section left out"),
        pytest.param({"profiles": {"kube": KUBE}, "config": {"profile": "profiles/kube.yaml"}}, id="kube-scheduler's"),
        pytest.param(OWN_PLUGIN, id="an own plugin"),
    ],
)
def test_config_check_accepts_what_is_rendered(helm: Helm, tmp_path: Path, values: dict[str, Any]) -> None:
    config = {**ON_RAY["config"], **values.get("config", {})}
    folder = write_mounted(helm.template("dispatcher", {**ON_RAY, **values, "config": config}), tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    told = CliRunner(env={LOGIN_VARIABLE: str(tokens)}).invoke(
        app, ["config", "check", str(folder / "dispatcher.yaml")]
    )
    assert (told.exit_code, told.stdout) == (0, f"{folder / 'dispatcher.yaml'}: ok\n"), told.output


def test_an_own_profile_and_quota_arrive(helm: Helm, tmp_path: Path) -> None:
    values = {"profiles": OWN_PROFILE, "config": {"profile": "profiles/mine.yaml"}, "tenants": QUOTA}
    folder = write_mounted(helm.template("dispatcher", values), tmp_path)
    config = load_config(folder / "dispatcher.yaml")
    assert [use.name for use in config.profile.plugins] == ["PrioritySort", "TenantQuota", "NodeResourcesFit"]
    assert [tenant.name for tenant in config.tenants] == ["team"]
    assert not (folder / "profiles" / "packing.yaml").exists()
