"""Metrics of the certificates of gateway and signing key, and of the revocation list beside whom it trusts."""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.config.certificates import list_end


class CertificateCollector(Collector):
    """When what is in these files expires: they are read at each scrape, and may be absent."""

    def __init__(self, cert_file: str, client_ca_file: str, signing_file: str = "") -> None:
        self._file, self._client_ca_file, self._signing_file = cert_file, client_ca_file, signing_file

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
            "When the certificate of the key that signs orders expires, in Unix time; only where orders are signed.",
        )
        if (until := _until(self._signing_file)) is not None:
            signing.add_metric([], until)
        yield signing
        lists = GaugeMetricFamily(
            "global_dispatcher_gateway_revocation_list_expiry_timestamp_seconds",
            "When the first revocation list of client_ca_file expires, in Unix time; only where there is one.",
        )
        if (ends := list_end(self._client_ca_file)) is not None:
            lists.add_metric([], ends.timestamp())
        yield lists


def _until(file: str) -> float | None:
    try:
        first = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):  # missing or not readable: the log says so
        return None
    return first.not_valid_after_utc.timestamp()
