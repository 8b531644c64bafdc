"""Metrics of the gateway's certificate and of the revocation list beside whom it trusts."""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.config.certificates import list_end


class CertificateCollector(Collector):
    """When what is in the gateway's files expires: they are read at each scrape, and may be absent."""

    def __init__(self, cert_file: str, client_ca_file: str) -> None:
        self._file, self._client_ca_file = cert_file, client_ca_file

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        expiry = GaugeMetricFamily(
            "global_dispatcher_gateway_certificate_expiry_timestamp_seconds",
            "When the gateway's certificate expires, in Unix time; only where clusters dial in.",
        )
        if (until := self._until()) is not None:
            expiry.add_metric([], until)
        yield expiry
        lists = GaugeMetricFamily(
            "global_dispatcher_gateway_revocation_list_expiry_timestamp_seconds",
            "When the first revocation list of client_ca_file expires, in Unix time; only where there is one.",
        )
        if (ends := list_end(self._client_ca_file)) is not None:
            lists.add_metric([], ends.timestamp())
        yield lists

    def _until(self) -> float | None:
        try:
            first = x509.load_pem_x509_certificate(Path(self._file).read_bytes())
        except (OSError, ValueError):  # missing or not readable: the gateway's log says so
            return None
        return first.not_valid_after_utc.timestamp()
