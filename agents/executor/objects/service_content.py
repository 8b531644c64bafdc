"""Services of one namespace and where they lead, as they cross between clusters that share a pod
network.

What crosses is a name, ports, and addresses: no selector, node port, external address, load
balancer or external name, whose meaning is the home cluster's alone. The cluster IP crosses as a
wish: in the target it may be taken, or out of range. An ExternalName is an alias in
the home cluster's DNS, so it is told as left out, and the target must have one of its own.

Both sides are bounded, and the target checks what it is given: who can write Services and
EndpointSlices at home may write anything into them.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, NamedTuple

import msgspec

from agents.executor.context.service_table import Space
from agents.executor.crossing.manifest import is_metadata
from agents.executor.objects.reads import Metadata
from shared.messages.peers import SERVICE
from shared.model import names
from shared.model.copy_names import copy_hash

KIND = SERVICE  # in questions for objects
ALL = "*"  # the name by which all of a namespace are asked for
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"  # as the EndpointSlice controller marks them
# whose environment variables kubelets put before, or into, those of the API server
API_SERVER = frozenset(("kubernetes", "kubernetes-service"))
# by the search domains of a pod, HOSTNAME.SERVICE of its namespace goes before kubernetes.default
_API_SERVER_IN_DNS = ("kubernetes", "default")
MOST_SERVICES = 200  # of a namespace
MOST_PORTS = 100  # of a Service, or of a slice
MOST_SLICES = 1_000
MOST_ENDPOINTS = 5_000  # of a namespace
MOST_CONTENT = 2**20  # bytes, as they cross
OF_A_SLICE = 100  # endpoints, as Kubernetes' own controller has it
_MOST_ADDRESSES = 100  # of an endpoint, as API servers have it
_MOST_STICKY_S = 86_400
_PROTOCOLS = frozenset(("TCP", "UDP", "SCTP"))
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,315}[A-Za-z0-9])?")


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Of what crosses."""


class Port(Struct, frozen=True):
    """Of a Service, or of a slice, where `port` 0 means all ports."""

    port: int = 0
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str = ""


class Service(Struct, frozen=True):
    """`sticky_s`: seconds of session affinity by client address, 0 for none. `unready`: DNS shows
    endpoints that are not ready, too. `address`: the cluster IP that it has, '' for none.
    """

    name: str
    ports: tuple[Port, ...] = ()
    headless: bool = False
    sticky_s: int = 0
    unready: bool = False
    address: str = ""

    def is_like(self, other: "Service") -> bool:
        """Whether they are the same but for their addresses, which no cluster can change."""
        return self == msgspec.structs.replace(other, address=self.address)


class Endpoint(Struct, frozen=True):
    """As in discovery.k8s.io/v1, without what is the home cluster's alone: the object, node and
    zone. A condition is None where nothing is said.
    """

    addresses: tuple[str, ...]
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None
    hostname: str = ""


class Slice(Struct, frozen=True):
    """`name`: of the EndpointSlice at home."""

    service: str
    name: str
    family: str
    ports: tuple[Port, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


class Content(Struct, frozen=True):
    """All Services of a namespace. `left`: names of those that cannot cross, with the reason."""

    services: tuple[Service, ...] = ()
    slices: tuple[Slice, ...] = ()
    left: dict[str, str] = {}

    @property
    def encoded(self) -> bytes:
        """As it crosses, the same for what is the same."""
        return msgspec.json.encode(self, order="sorted")


class ServicesError(ValueError):
    """What is wrong with the Services of a namespace, or too much."""


# --- at home
# --------------------------------------------------------------------------------------------------


class _Port(msgspec.Struct, gc=False, rename="camel"):
    port: int | None = None
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None

    @property
    def crossing(self) -> Port:
        return Port(
            self.port or 0, self.name or "", self.protocol or "TCP", self.app_protocol or ""
        )


class _ClientIP(msgspec.Struct, gc=False, rename="camel"):
    timeout_seconds: int | None = None


class _Affinity(msgspec.Struct, gc=False):
    client_ip: _ClientIP | None = msgspec.field(name="clientIP", default=None)


class _ServiceSpec(msgspec.Struct, gc=False, rename="camel"):
    type: str = "ClusterIP"
    internal_traffic_policy: str | None = None
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    external_ips: list[str] | None = msgspec.field(name="externalIPs", default=None)
    ports: list[_Port] | None = None
    selector: dict[str, str] | None = None
    session_affinity: str = "None"
    session_affinity_config: _Affinity | None = None
    publish_not_ready_addresses: bool = False


class ServiceObject(msgspec.Struct, gc=False):
    """core/v1 Service, as far as it matters here."""

    metadata: Metadata
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)

    @property
    def crossing(self) -> Service:
        """What of it crosses."""
        spec = self.spec
        sticky_s = 0
        if spec.session_affinity == "ClientIP":
            held = spec.session_affinity_config
            sticky_s = (held and held.client_ip and held.client_ip.timeout_seconds) or 10_800
        headless = spec.cluster_ip == "None"
        return Service(
            self.metadata.name,
            tuple(port.crossing for port in spec.ports or ()),
            headless,
            sticky_s,
            spec.publish_not_ready_addresses,
            "" if headless else spec.cluster_ip,
        )

    @property
    def bare(self) -> bool:
        """Whether it is as we make them: somebody may have given one of ours a selector."""
        spec = self.spec
        local = spec.internal_traffic_policy == "Local"  # our endpoints are on no node of here
        return spec.type == "ClusterIP" and not (spec.selector or spec.external_ips or local)


class _Conditions(msgspec.Struct, gc=False):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class _Endpoint(msgspec.Struct, gc=False):
    addresses: list[str] | None = None
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)
    hostname: str | None = None

    @property
    def crossing(self) -> Endpoint:
        said = self.conditions
        return Endpoint(
            tuple(self.addresses or ()),
            said.ready,
            said.serving,
            said.terminating,
            self.hostname or "",
        )


class SliceObject(msgspec.Struct, gc=False, rename="camel"):
    """discovery.k8s.io/v1 EndpointSlice, as far as it matters here."""

    metadata: Metadata
    address_type: str = ""
    ports: list[_Port] | None = None
    endpoints: list[_Endpoint] | None = None

    @property
    def service(self) -> str:
        """Whose it is."""
        return (self.metadata.labels or {}).get(SERVICE_NAME, "")

    @property
    def crossing(self) -> Slice:
        """What of it crosses."""
        return Slice(
            self.service,
            self.metadata.name,
            self.address_type,
            tuple(port.crossing for port in self.ports or ()),
            tuple(one.crossing for one in self.endpoints or ()),
        )

    @property
    def of_a_controller(self) -> bool:
        """Whether it is none that an agent of ours has made."""
        return (self.metadata.labels or {}).get(MANAGED_BY) != names.MANAGER


read_service = msgspec.json.Decoder(ServiceObject).decode
read_slice = msgspec.json.Decoder(SliceObject).decode


def content_of(
    services: Iterable[ServiceObject], slices: Iterable[SliceObject], namespace: str
) -> Content:
    """What crosses of all that a namespace has; copies that are there of another cluster's do not.
    ServicesError where it is too much.
    """
    left: dict[str, str] = {}
    kept: list[Service] = []
    for one in services:
        name = one.metadata.name
        if space_of(one.metadata) is not None or (namespace, name) == ("default", "kubernetes"):
            continue
        if name in API_SERVER:
            left[name] = "would be taken for the API server by containers"
        elif one.spec.type == "ExternalName":
            left[name] = "is an ExternalName, an alias in the DNS of its own cluster"
        else:
            kept.append(one.crossing)
    whose = {one.name for one in kept}
    led = [
        one.crossing
        for one in slices
        if one.service in whose and one.of_a_controller and one.address_type in _FAMILIES
    ]
    content = Content(
        tuple(sorted(kept, key=lambda one: one.name)),
        tuple(sorted(led, key=lambda one: one.name)),
        left,
    )
    _bounded(content)
    return content


def _bounded(content: Content) -> None:
    for many, most, what in (
        (len(content.services) + len(content.left), MOST_SERVICES, "Services"),
        (len(content.slices), MOST_SLICES, "EndpointSlices"),
        (sum(len(one.endpoints) for one in content.slices), MOST_ENDPOINTS, "endpoints"),
    ):
        if many > most:
            raise ServicesError(f"has {many} {what}, and at most {most} cross")
    held: tuple[Service | Slice, ...] = (*content.services, *content.slices)
    for one in held:
        if len(one.ports) > MOST_PORTS:
            raise ServicesError(f'has "{one.name}" of more than {MOST_PORTS} ports')
    size = len(content.encoded)
    if size > MOST_CONTENT:
        raise ServicesError(f"has Services and endpoints of {size} bytes: {MOST_CONTENT} cross")


# --- in the target
# --------------------------------------------------------------------------------------------------

_decode = msgspec.json.Decoder(Content).decode


def checked(body: bytes) -> Content:
    """What another cluster gives, if it could be so. ServicesError."""
    try:
        content = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ServicesError(f"gives what cannot be read: {error}") from None
    _bounded(content)
    for name, why in content.left.items():
        _must(_LABEL.fullmatch(name) is not None and len(why) <= 256, f"Service {name[:80]!r}")
    for service in content.services:
        what = f"Service {service.name[:80]!r}"
        _must(_LABEL.fullmatch(service.name) is not None and service.name not in API_SERVER, what)
        _must(0 <= service.sticky_s <= _MOST_STICKY_S, what)
        _must(all(_is_port(one, least=1) for one in service.ports), what)
        _must(not service.address or is_unicast(service.address), what)
    known = {service.name for service in content.services}
    for one in content.slices:
        what = f"EndpointSlice {one.name[:80]!r}"
        _must(_OBJECT_NAME.fullmatch(one.name) is not None and one.service in known, what)
        _must(one.family in _FAMILIES, what)
        _must(all(_is_port(port, least=0) for port in one.ports), what)
        _must(all(_is_endpoint(end, one.family) for end in one.endpoints), what)
        named = ((end.hostname, one.service) for end in one.endpoints)
        _must(_API_SERVER_IN_DNS not in named, what)
    _must(len({one.name for one in content.slices}) == len(content.slices), "EndpointSlices")
    _must(len(known) == len(content.services), "Services")
    return content


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ServicesError(f"gives {what} with names, ports or addresses that none can have")


def _is_port(port: Port, least: int) -> bool:
    named = not port.name or _LABEL.fullmatch(port.name) is not None
    said = not port.app_protocol or _QUALIFIED.fullmatch(port.app_protocol) is not None
    return named and said and port.protocol in _PROTOCOLS and least <= port.port <= 65_535


def _is_endpoint(one: Endpoint, family: str) -> bool:
    named = not one.hostname or _LABEL.fullmatch(one.hostname) is not None
    many = 1 <= len(one.addresses) <= _MOST_ADDRESSES
    return named and many and all(_is_address(address, family) for address in one.addresses)


def _is_address(text: str, family: str) -> bool:
    """Whether a pod of another cluster may have it."""
    return is_unicast(text) and ip_address(text).version == _FAMILIES[family]


def is_unicast(text: str) -> bool:
    """Whether it is an address, and none of the node's own, or of a link: no EndpointSlice takes
    these.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) is not None
    return not (address.is_multicast or mapped or is_metadata(text) or "%" in text)


def mark_of(space: Space) -> str:
    """The label of all that is made of it: no other namespace of any cluster has it."""
    return copy_hash(space.cluster_uid, space.namespace, KIND, ALL)


def space_of(metadata: Metadata) -> Space | None:
    """Of what namespace an object is a copy, by its marks; None if it is none."""
    said = metadata.annotations or {}
    mark = (metadata.labels or {}).get(names.COPY, "")
    cluster = said.get(names.SOURCE_CLUSTER, "")
    found = Space(cluster, said.get(names.SOURCE_CLUSTER_UID, ""), metadata.namespace)
    return found if mark and mark == mark_of(found) else None


def service_object(one: Service, space: Space, found: dict[str, Any] | None) -> dict[str, Any]:
    """The copy, with what the server has given the one that is `found` here. A new one asks for the
    address that it has at home.
    """
    spec: dict[str, Any] = {"type": "ClusterIP", "ports": [_port(port) for port in one.ports]}
    if one.headless or one.address:
        spec["clusterIP"] = "None" if one.headless else one.address
    if one.unready:
        spec["publishNotReadyAddresses"] = True
    if one.sticky_s:
        spec["sessionAffinity"] = "ClientIP"
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": one.sticky_s}}
    metadata = _marked(one.name, one.name, space, {})
    if found is not None:
        kept = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        spec |= {key: found["spec"][key] for key in kept if key in found.get("spec", {})}
        metadata |= {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": KIND, "metadata": metadata, "spec": spec}


def _port(port: Port) -> dict[str, Any]:
    said = {"name": port.name, "appProtocol": port.app_protocol, "port": port.port}
    return {**{key: value for key, value in said.items() if value}, "protocol": port.protocol}


def _marked(name: str, of: str, space: Space, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": space.namespace,
        "labels": {names.COPY: mark_of(space), **labels},
        "annotations": {
            names.SOURCE_CLUSTER: space.cluster,
            names.SOURCE_CLUSTER_UID: space.cluster_uid,
            names.SOURCE_NAMESPACE: space.namespace,
            names.COPY_OF: of,
        },
    }


def parts(one: Slice) -> Iterator[Slice]:
    """The same as slices of a size that Kubernetes makes."""
    for start in range(0, max(1, len(one.endpoints)), OF_A_SLICE):
        held = one.endpoints[start : start + OF_A_SLICE]
        yield msgspec.structs.replace(one, endpoints=held)


def slice_name(one: Slice, number: int, space: Space) -> str:
    """Of a part of a slice of home, here."""
    whole = f"{mark_of(space)}/{one.name}/{one.family}/{number}"
    return f"{one.service}-{sha256(whole.encode()).hexdigest()[:16]}"


class Filled(NamedTuple):
    """A Service that is here, and is filled with addresses of home."""

    uid: str
    headless: bool


def slice_object(
    one: Slice, name: str, space: Space, of: Filled, found: SliceObject | None
) -> dict[str, Any]:
    """The EndpointSlice of this name that holds it, and that Kubernetes deletes after the Service:
    one that somebody makes of that name later gets none of its addresses.
    """
    labels = {SERVICE_NAME: one.service, MANAGED_BY: names.MANAGER}
    if of.headless:
        labels[HEADLESS] = ""
    metadata = _marked(name, one.name, space, labels)
    owner = {"apiVersion": "v1", "kind": KIND, "name": one.service, "uid": of.uid}
    metadata["ownerReferences"] = [{**owner, "blockOwnerDeletion": False}]
    if found is not None:
        metadata["uid"] = found.metadata.uid
        metadata["resourceVersion"] = found.metadata.resource_version
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": one.family,
        "ports": [_slice_port(port) for port in one.ports],
        "endpoints": [_endpoint(end) for end in one.endpoints],
    }


def _slice_port(port: Port) -> dict[str, Any]:
    return {"name": port.name, **_port(port)}


def _endpoint(one: Endpoint) -> dict[str, Any]:
    said = {"ready": one.ready, "serving": one.serving, "terminating": one.terminating}
    told: dict[str, Any] = {
        "addresses": list(one.addresses),
        "conditions": {key: value for key, value in said.items() if value is not None},
    }
    if one.hostname:
        told["hostname"] = one.hostname
    return told
