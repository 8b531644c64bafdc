"""What a pod's spec says, read once for all pods whose specs say the same: replicas, and each pod's
later versions.

The text of a spec is never the same twice (its node, the name of its token's volume), so equal is
what is equal after all that is not read has been left out.
"""

from typing import NamedTuple

import msgspec

from agents.kube import effective, groups, rules, wire, wire_pods
from agents.kube.pool import MAX_BYTES
from shared.messages.pod_cache import PodCache
from shared.messages.values import most_memory_of
from shared.model.pod import HostPort
from shared.model.resources import Resources

MAX_KEY = 4096  # bytes; a longer spec is read anew each time
_KEPT: PodCache[tuple[bytes, bytes], "SpecRead"] = PodCache(8192, MAX_BYTES)
_SPEC = msgspec.msgpack.Encoder().encode
_UNENCODABLE = (msgspec.MsgspecError, OverflowError, ValueError, TypeError, RecursionError)


class SpecRead(NamedTuple):
    """`expected` as effective.expected_request; `placement` and `ports` as rules and effective say.

    `placement_problems` and `needs_problems` are what could not be read of them.
    """

    requests: Resources
    expected: tuple[int, int]
    placement: rules.Placement
    ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    volume_images: tuple[str, ...]
    gates: tuple[str, ...]
    resource_claims: tuple[str, ...]
    placement_problems: tuple[str, ...]
    needs_problems: tuple[str, ...]


def read_spec(pod: wire_pods.PodObject, labels: dict[str, str]) -> SpecRead:
    """What the spec of a pod with these labels says; the very same object for pods alike."""
    key = _key(pod, labels)
    if key is None:
        return _read(pod, labels)
    known = _KEPT.get(key)
    if known is None:
        known = _read(pod, labels)
        _KEPT.put(key, known, sum(map(len, key)) + sum(map(most_memory_of, key)))
    return known


def _read(pod: wire_pods.PodObject, labels: dict[str, str]) -> SpecRead:
    spec = pod.spec
    about_placement = groups.in_the_spec(spec)
    about_needs: list[str] = []
    placement = rules.placement(pod, labels, about_placement)
    needs = effective.read_needs(spec, about_needs)
    return SpecRead(
        effective.effective_request(needs),
        effective.expected_request(needs),
        placement,
        effective.host_ports(spec, []),
        _images(spec),
        _volume_images(spec),
        _names(spec.scheduling_gates),
        _names(spec.resource_claims),
        tuple(about_placement),
        tuple(about_needs),
    )


def _key(pod: wire_pods.PodObject, labels: dict[str, str]) -> tuple[bytes, bytes] | None:
    """The spec without its node and without volumes that say nothing, and what else of the pod its
    reading rests on.
    """
    spec = pod.spec
    node = spec.node_name
    volumes = spec.volumes
    telling = (
        None if volumes is None or len(volumes) > rules.MAX_RULES else [*filter(_tells, volumes)]
    )
    try:
        spec.node_name = ""
        spec.volumes = volumes if telling is None else telling or None
        raw = _SPEC(spec)
        beside = _SPEC(_beside(pod, labels))
    except _UNENCODABLE:
        return None
    finally:
        spec.node_name = node
        spec.volumes = volumes
    return (raw, beside) if len(raw) + len(beside) <= MAX_KEY else None


def _beside(pod: wire_pods.PodObject, labels: dict[str, str]) -> tuple[object, ...]:
    """Labels and namespace go into selectors, the pod's name into that of an ephemeral volume's
    claim.
    """
    spec = pod.spec
    meta = pod.metadata
    selects = spec.affinity is not None or bool(spec.topology_spread_constraints)
    named = any(volume.ephemeral is not None for volume in spec.volumes or ())
    return (labels, meta.namespace) if selects else (), meta.name if named else ""


def _tells(volume: wire_pods.Volume) -> bool:
    return volume != wire_pods.Volume(volume.name)


def _names(items: list[wire.Named] | None) -> tuple[str, ...]:
    return tuple(one.name for one in (items or ())[: rules.MAX_RULES])


def _images(spec: wire_pods.PodSpec) -> tuple[str, ...]:
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return tuple(container.image for container in containers[: rules.MAX_CONTAINERS])


def _volume_images(spec: wire_pods.PodSpec) -> tuple[str, ...]:
    images = (
        one.image.reference
        for one in spec.volumes or ()
        if one.image is not None and one.image.reference
    )
    return tuple(images)[: rules.MAX_CONTAINERS]
