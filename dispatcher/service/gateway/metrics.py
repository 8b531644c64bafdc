"""Metrics of the gateway: its certificates and that of the signing key, whom it trusts, what it
refused to relay.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.config.certificates import list_end
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.links.link import AgentLink


class CertificateCollector(Collector):
    """When what is in these files expires: they are read at each scrape, and may be absent."""

    def __init__(self, cert_file: str, client_ca_file: str, signing_file: str = "") -> None:
        self._file = cert_file
        self._client_ca_file = client_ca_file
        self._signing_file = signing_file

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        expiry = GaugeMetricFamily(
            "global_dispatcher_gateway_certificate_expiry_timestamp_seconds",
            "When the gateway's certificate expires, in Unix time; only where clusters dial in.",
        )
        if (until := _until(self._file)) is not None:
            expiry.add_metric([], until)
        yield expiry
        signing = GaugeMetricFamily(
            "global_dispatcher_signing_certificate_expiry_timestamp_seconds",
            "When the certificate of the key that signs orders expires, in Unix time; only where "
            "orders are signed.",
        )
        if (until := _until(self._signing_file)) is not None:
            signing.add_metric([], until)
        yield signing
        lists = GaugeMetricFamily(
            "global_dispatcher_gateway_revocation_list_expiry_timestamp_seconds",
            "When the first revocation list of client_ca_file expires, in Unix time; only where "
            "there is one.",
        )
        if (ends := list_end(self._client_ca_file)) is not None:
            lists.add_metric([], ends.timestamp())
        yield lists


class RelayCollector(Collector):
    """Of the clusters that dial in: when what they show ends, and what was refused of them."""

    def __init__(self, links: Sequence[AgentLink]) -> None:
        self._links = [link for link in links if isinstance(link, GatewayLink)]

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        ends = GaugeMetricFamily(
            "global_dispatcher_agent_certificate_expiry_timestamp_seconds",
            "When the certificate expires with which an agent is connected, in Unix time; an "
            "agent of one process has "
            "it for both roles.",
            labels=["cluster", "role"],
        )
        for link in self._links:
            for role, until in link.certificate_ends().items():
                ends.add_metric([link.cluster, role], until)
        yield ends
        refused = CounterMetricFamily(
            "global_dispatcher_relay_streams_refused",
            "Streams (kubectl logs, exec and so on) that a cluster's agent opened faster than the "
            "gateway lets it.",
            labels=["cluster"],
        )
        for link in self._links:
            refused.add_metric([link.cluster], link.streams_refused())
        yield refused


def _until(file: str) -> float | None:
    try:
        first = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):  # missing or not readable: the log says so
        return None
    return first.not_valid_after_utc.timestamp()
