"""The gateway's port by the cluster's own ingress, which passes TLS through: an Ingress, or TLSRoutes."""

from typing import Any

import pytest

from tests.charts.dispatcher_values import ON_RAY
from tests.charts.rendering import Helm, HelmError, Object, of_kind, only

HOSTS = ["gd-0.example.com", "gd-1.example.com"]
PASSES = {"haproxy.org/ssl-passthrough": "true"}
INGRESS: Object = {"ingress": {"enabled": True, "className": "haproxy", "annotations": PASSES}}
ROUTE: Object = {"tlsRoute": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}]}}


def values(passthrough: Object, **more: Any) -> Object:
    """Of two dispatchers whose agents dial in."""
    return {
        "replicas": 2,
        "config": {"clusters": [{"name": "east", "via": "gateway"}]},
        "gateway": {"passthrough": {"hosts": HOSTS, **passthrough}},
        **more,
    }


def gateway_ports(objects: list[Object]) -> dict[str, list[Object]]:
    """The ports of the gateway's Services, by name, in order."""
    services = [one for one in of_kind(objects, "Service") if any(p["name"] == "gateway" for p in one["spec"]["ports"])]
    return {one["metadata"]["name"]: one["spec"]["ports"] for one in services}


def test_an_ingress_leads_each_host_to_the_service_of_one_dispatcher(helm: Helm) -> None:
    objects = helm.template("dispatcher", values(INGRESS))
    ingress, ports = only(objects, "Ingress"), gateway_ports(objects)
    rules = [(rule["host"], rule["http"]["paths"][0]["backend"]["service"]) for rule in ingress["spec"]["rules"]]
    assert len(ports) == 2
    assert rules == [
        (host, {"name": name, "port": {"name": "gateway"}}) for host, name in zip(HOSTS, ports, strict=True)
    ]
    assert ingress["metadata"]["annotations"] == PASSES
    assert ingress["spec"]["ingressClassName"] == "haproxy"
    assert "tls" not in ingress["spec"]  # who ends TLS on the way has no certificate that agents accept


@pytest.mark.parametrize(
    ("served", "version"), [((), "v1"), (("v1alpha2",), "v1alpha2"), (("v1alpha2", "v1alpha3"), "v1alpha3"),
                            (("v1alpha2", "v1alpha3", "v1"), "v1")],
)  # fmt: skip
def test_a_route_of_each_host_is_of_the_version_that_the_cluster_serves(
    helm: Helm, served: tuple[str, ...], version: str
) -> None:
    apis = tuple(f"gateway.networking.k8s.io/{one}/TLSRoute" for one in served)
    objects = helm.template("dispatcher", values(ROUTE), apis=apis)
    routes, ports = of_kind(objects, "TLSRoute"), gateway_ports(objects)
    assert {one["apiVersion"] for one in routes} == {f"gateway.networking.k8s.io/{version}"}
    assert [(one["spec"]["hostnames"], one["spec"]["rules"][0]["backendRefs"]) for one in routes] == [
        ([host], [{"name": name, "port": port["port"]}])
        for host, (name, (port,)) in zip(HOSTS, ports.items(), strict=True)
    ]
    assert routes[0]["spec"]["parentRefs"] == ROUTE["tlsRoute"]["parentRefs"]


def test_cert_manager_makes_the_gateways_certificate_for_these_hosts(helm: Helm) -> None:
    given = values(INGRESS)
    given["gateway"]["certManager"] = {
        "enabled": True,
        "issuerRef": {"name": "fleet"},
        "dnsNames": ["inside", HOSTS[0]],
    }
    made = [one["spec"] for one in of_kind(helm.template("dispatcher", given), "Certificate")]
    assert [one["dnsNames"] for one in made if "dnsNames" in one] == [["inside", *HOSTS]]


def test_nothing_of_it_is_there_unless_it_is_wanted(helm: Helm) -> None:
    objects = helm.template("dispatcher", values({"hosts": []}))
    assert [one["kind"] for one in objects if one["kind"] in ("Ingress", "TLSRoute")] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (values({**INGRESS, "hosts": HOSTS[:1]}), "gateway.passthrough.hosts: has 1, and the gateway has the Services"),
        (values({**INGRESS, "hosts": [HOSTS[0], HOSTS[0]]}), "each needs a host of its own"),
        (values({"ingress": {"enabled": True}}), "gateway.passthrough.ingress.annotations: agents show"),
        (values({"ingress": {"enabled": True, "annotations": {"haproxy.org/ssl-passthrough": "false"}}}),
         "gateway.passthrough.ingress.annotations: agents show"),
        (values({"tlsRoute": {"enabled": True}}), "gateway.passthrough.tlsRoute.parentRefs: name the Gateway"),
        (values({**INGRESS, "hosts": ["https://gd-0.example.com", "x"]}), "/gateway/passthrough/hosts/0"),
        ({**ON_RAY, "gateway": {"passthrough": {"hosts": HOSTS[:1], **ROUTE}}}, "none of config.clusters has"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_by_the_name_of_the_value(helm: Helm, given: Object, words: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template("dispatcher", given)
    assert words in str(refused.value)
