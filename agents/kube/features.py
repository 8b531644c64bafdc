"""Features of kubelet and runtime that pods need and nodes declare (status.declaredFeatures).

Source: k8s.io/component-helpers/nodedeclaredfeatures of 1.37: those of its features that decide
where a pod may go.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.json import Decoder

from agents.kube.wire import BROKEN, Text, Wire
from shared.model.node import BIND_MOUNT_OPTIONS, FEATURES, RESTART_ALL, USER_NAMESPACES

_ACTION = "RestartAllContainers"
_TELLING = (
    b'"RestartAllContainers"',
    b'"bindMountOptions"',
    b'"hostUsers"',
)  # one of which any such pod has


class _Rule(Wire):
    """core/v1 ContainerRestartRule."""

    action: Text = None


class _Mount(Wire):
    """core/v1 VolumeMount."""

    bind_mount_options: list[Any] | None = None


class _Container(Wire):
    """core/v1 Container."""

    restart_policy_rules: list[_Rule] | None = None
    volume_mounts: list[_Mount] | None = None


class _Spec(Wire):
    """core/v1 PodSpec."""

    host_network: bool | None = None
    host_users: bool | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None


class _Pod(Wire):
    """core/v1 Pod."""

    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = Decoder(_Pod).decode


def declared(features: Iterable[str] | None) -> tuple[str, ...]:
    """Those of a node's features that decide where pods may go."""
    told = frozenset(features or ())
    return tuple(one for one in FEATURES if one in told) if told else ()


def needed(raw: bytes, problems: list[str]) -> tuple[str, ...]:
    """The features that the node of a pod has to declare; what cannot be read of it is a problem."""
    if not any(word in raw for word in _TELLING):
        return ()
    try:
        spec = _decode(raw).spec
    except BROKEN as error:
        problems.append(f"the features that its node has to declare cannot be read: {error}")
        return ()
    started = (*(spec.containers or ()), *(spec.init_containers or ()))
    mounting = (*started, *(spec.ephemeral_containers or ()))
    needs = {
        RESTART_ALL: any(
            rule.action == _ACTION for one in started for rule in one.restart_policy_rules or ()
        ),
        BIND_MOUNT_OPTIONS: any(
            mount.bind_mount_options for one in mounting for mount in one.volume_mounts or ()
        ),
        USER_NAMESPACES: bool(spec.host_network) and spec.host_users is False,
    }
    return tuple(one for one in FEATURES if needs[one])
