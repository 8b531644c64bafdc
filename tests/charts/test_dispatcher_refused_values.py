"""Values that a dispatcher or a Service cannot take are refused when the chart is rendered."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatcher.config import check_config
from tests.charts.rendering import Helm, HelmError

A_KEY = "A" * 43 + "="


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
