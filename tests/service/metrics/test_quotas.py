"""What /metrics says of quota and of the gateway's certificate."""

from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dispatcher.scheduling.views import TenantRows
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.metrics import CertificateCollector
from dispatcher.service.metrics.quotas import QuotaCollector
from shared.model.tenant import Share, Tenant
from tests.service.tenant_world import World, tenant

EXPIRY = "global_dispatcher_gateway_certificate_expiry_timestamp_seconds"


def test_quota_is_told_in_cores_and_bytes() -> None:
    tenant = Tenant("team", ("team-*",), {"cpu": Share(absolute=4000), "memory": Share(absolute=1 << 30)})
    world = World(tenant)
    world.ledger.charge(("east", "uid"), "team", {"cpu": 1500, "pods": 1})
    registry = CollectorRegistry()
    registry.register(QuotaCollector(world.ledger, world.core))

    def told(name: str, resource: str) -> float | None:
        return registry.get_sample_value(f"global_dispatcher_quota_{name}", {"tenant": "team", "resource": resource})

    assert [told("used", one) for one in ("cpu", "memory", "pods")] == [1.5, 0, None]
    assert [told("limit", one) for one in ("cpu", "memory")] == [4, 1 << 30]


def test_of_each_tenant_is_told_what_is_lent_and_borrowed_and_who_waits_for_it() -> None:
    world = World(tenant("all", cpu=0), tenant("a", cpu=3, parent="all"), tenant("b", cpu=1, parent="all"))
    world.come("b", "b1", "b2", "b3", "b4", "b5")
    world.come("a", "a1", "a2")
    registry = CollectorRegistry()
    registry.register(QuotaCollector(world.ledger, world.core))

    def told(name: str, whose: str, **more: str) -> float | None:
        return registry.get_sample_value(f"global_dispatcher_{name}", {"tenant": whose, **more})

    amounts = ("used", "nominal", "borrowed", "lent", "limit")
    assert [told(f"quota_{one}", "b", resource="cpu") for one in amounts] == [4, 1, 3, 0, 4]
    assert [told(f"quota_{one}", "a", resource="cpu") for one in amounts] == [0, 3, 0, 3, 4]
    assert [told(f"quota_{one}", "all", resource="cpu") for one in amounts] == [4, 0, 0, 0, 4]
    assert [told("tenant_share", one) for one in ("a", "b", "all")] == [0, 0.75, 0]
    assert [told("tenant_waiting_pods", one) for one in ("a", "b", "all")] == [2, 1, 3]
    assert [told("tenant_starved_pods", one) for one in ("a", "b")] == [2, 0]


def test_what_parts_keep_for_themselves_is_not_told_as_used_up() -> None:
    """docs/tenants.md: 40 of its own for a, of which it lends 10"""
    keeps = tenant("a", cpu=40, parent="all", lending_limit={"cpu": Share(absolute=10_000)})
    world = World(tenant("all", cpu=5), keeps, tenant("b", parent="all"))
    world.come("a", *(f"a{at}" for at in range(20)))
    world.come("b", "b1", "b2")
    all_of_it = TenantRows(world.core, world.ledger).all()[0]
    assert (all_of_it["used"], all_of_it["limit"]) == ("2", "15")
    told = TenantRows(world.core, world.ledger).one("all")
    assert told is not None
    assert [told["resources"][0][key] for key in ("usage", "used", "available")] == ["2", "22", "13"]


def test_all_rules_of_a_tenant_are_told() -> None:
    world = World(tenant("a", cpu=1, reclaim="any", reclaim_strategies=("LessThanInitialShare",), min_runtime_s=60.0))
    told = TenantRows(world.core, world.ledger).one("a")
    assert told is not None
    assert told["rules"] == {
        "a": {"reclaim": "any", "reclaim_strategies": ["LessThanInitialShare"], "min_runtime_s": 60.0}
    }


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
