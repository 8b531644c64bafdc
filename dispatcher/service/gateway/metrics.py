"""A metric of the gateway's certificate."""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class CertificateCollector(Collector):
    """When the certificate in the gateway's file expires: the file is read at each scrape, and may be absent."""

    def __init__(self, cert_file: str) -> None:
        self._file = cert_file

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        expiry = GaugeMetricFamily(
            "global_dispatcher_gateway_certificate_expiry_timestamp_seconds",
            "When the gateway's certificate expires, in Unix time; only where clusters dial in.",
        )
        if (until := self._until()) is not None:
            expiry.add_metric([], until)
        yield expiry

    def _until(self) -> float | None:
        try:
            first = x509.load_pem_x509_certificate(Path(self._file).read_bytes())
        except (OSError, ValueError):  # missing or not readable: the gateway's log says so
            return None
        return first.not_valid_after_utc.timestamp()
