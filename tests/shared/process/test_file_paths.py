"""Paths in agent.yaml are relative to its folder, not to where the agent was started."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from agents.runtime.join.settings import JoinSettings, read_settings
from agents.runtime.telemetry_settings import (
    FileSettings,
    LoadWatcherSettings,
    NodeExporterSettings,
    PrometheusSettings,
)
from shared.process.file_paths import FILES, SOURCE_FILES

SOURCES = (FileSettings, LoadWatcherSettings, NodeExporterSettings, PrometheusSettings)
DIALS = """
cluster: east
key_file: keys/key.pem
kubelet: {ca_file: ../kubelets.crt}
orders: {ca_file: ~/orders.crt}
gateway: {urls: ['wss://gateway.example:7443'], ca_file: ca.crt, cert_file: /etc/east.crt, key_file: east.key}
relay: {cert_file: relay.crt, key_file: relay.key}
telemetry:
  prometheus: [{url: 'https://p', token_file: token, header_files: {X-Scope: scope}}]
  file: [{path: readings.json}]
"""


def named_files(model: type[BaseModel], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of a model that name files, by their names."""
    for name, field in model.model_fields.items():
        if name.endswith("_file") or name in {"path", "folder", "temp_dir", "kubeconfig"}:
            yield (*at, name)
        for one in (field.annotation, *get_args(field.annotation)):
            if isinstance(one, type) and issubclass(one, BaseModel):
                yield from named_files(one, (*at, name))


def test_no_key_that_names_a_file_is_left_out() -> None:
    assert sorted(keys for keys in named_files(JoinSettings) if keys[0] != "telemetry") == sorted(FILES)
    assert {key for model in SOURCES for (key,) in named_files(model)} == set(SOURCE_FILES)


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "etc" / "agent.yaml"
    file.parent.mkdir()
    file.write_text(DIALS)
    here = str(tmp_path / "etc")
    for name in (file, file.relative_to(tmp_path)):
        read = read_settings(name)
        assert read.gateway is not None
        assert read.relay is not None
        (prometheus,), (readings,) = read.telemetry.prometheus, read.telemetry.file
        assert (read.key_file, read.kubelet.ca_file) == (f"{here}/keys/key.pem", f"{here}/../kubelets.crt")
        assert (read.orders.ca_file, read.gateway.cert_file) == ("/home/somebody/orders.crt", "/etc/east.crt")
        assert (read.gateway.ca_file, read.gateway.key_file) == (f"{here}/ca.crt", f"{here}/east.key")
        assert (read.relay.cert_file, read.relay.folder, read.log_file) == (f"{here}/relay.crt", "", "")
        assert (prometheus.token_file, prometheus.header_files["X-Scope"]) == (f"{here}/token", f"{here}/scope")
        assert readings.path == f"{here}/readings.json"


@pytest.mark.parametrize("shape", [{"kubelet": 3}, {"telemetry": {"file": 3}}, {"key_file": 3}])
def test_what_has_another_shape_is_left_to_be_refused(tmp_path: Path, shape: dict[str, object]) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump({"cluster": "east", **shape}))
    with pytest.raises(ValueError, match=next(iter(shape))):
        read_settings(file)
