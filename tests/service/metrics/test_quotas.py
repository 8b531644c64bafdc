"""What /metrics says of quota and of the gateway's certificate."""

from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.metrics import CertificateCollector
from dispatcher.service.metrics.quotas import QuotaCollector
from shared.model.tenant import Share, Tenant

EXPIRY = "global_dispatcher_gateway_certificate_expiry_timestamp_seconds"


def test_quota_is_told_in_cores_and_bytes() -> None:
    tenant = Tenant("team", ("team-*",), {"cpu": Share(absolute=4000), "memory": Share(absolute=1 << 30)})
    ledger = QuotaLedger([tenant])
    ledger.charge(("east", "uid"), "team", {"cpu": 1500, "pods": 1})
    registry = CollectorRegistry()
    registry.register(QuotaCollector(ledger, FleetState()))

    def told(name: str, resource: str) -> float | None:
        return registry.get_sample_value(f"global_dispatcher_quota_{name}", {"tenant": "team", "resource": resource})

    assert [told("used", one) for one in ("cpu", "memory", "pods")] == [1.5, 0, None]
    assert [told("limit", one) for one in ("cpu", "memory")] == [4, 1 << 30]


@pytest.mark.parametrize("text", [None, b"no certificate"])
def test_a_certificate_that_cannot_be_read_has_no_expiry(tmp_path: Path, text: bytes | None) -> None:
    file = tmp_path / "gateway.crt"
    if text is not None:
        file.write_bytes(text)
    assert expiry(file) is None


def test_the_expiry_is_that_of_the_file(tmp_path: Path) -> None:
    until: dict[str, datetime] = {one.file.name: one.until for one in ensure(tmp_path, ["localhost"], [])}
    assert expiry(tmp_path / "gateway.crt") == until["gateway.crt"].timestamp()


def expiry(file: Path) -> float | None:
    registry = CollectorRegistry()
    registry.register(CertificateCollector(str(file), ""))
    return registry.get_sample_value(EXPIRY)
