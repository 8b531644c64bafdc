"""Kubeconfig files: one context a cluster, readable by their owner alone."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from localfleet.embedded.tls import write_private

Config = dict[str, Any]


def of_reader(path: Path) -> Path:
    """Where the kubeconfig of the user who may only look (`rest.users`) is: beside the admin's."""
    return path.with_name(f"{path.name}-reader")


def single(name: str, server: str, certificate: bytes, token: str) -> Config:
    """A kubeconfig whose only cluster, user and context are called `name`."""
    authority = base64.b64encode(certificate).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def merged(configs: Iterable[Config]) -> Config:
    """All clusters, users and contexts in one; the first one's context is current."""
    parts = list(configs)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        **{
            key: [entry for part in parts for entry in part[key]]
            for key in ("clusters", "users", "contexts")
        },
        "current-context": parts[0]["current-context"] if parts else "",
    }


def read(path: Path) -> Config:
    """A kubeconfig that this module wrote."""
    config: Config = yaml.safe_load(path.read_text())
    return config


def write(path: Path, config: Config) -> None:
    """Write it with mode 0600."""
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
