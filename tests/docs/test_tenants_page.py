"""The arithmetic of the page about tenants is that of the ledger."""

import re
from pathlib import Path

import pytest

from dispatcher.config.tenants import read_tenants
from dispatcher.scheduling.quota import QuotaLedger

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"


def test_the_example_is_what_the_ledger_makes_of_its_file(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "t.yaml").write_text(example)
    ledger = QuotaLedger(read_tenants(tmp_path / "t.yaml"))
    used = re.search(r"`vision` uses (\d+) CPUs, `speech` (\d+), `guests` (\d+)", text)
    assert used is not None
    for name, cpu in zip(("vision", "speech", "guests"), used.groups(), strict=True):
        ledger.charge(("home", name), name, {"cpu": 1000 * int(cpu)})
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) % \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["research", "vision", "speech", "guests"]
    for name, *figures in rows:
        node = ledger.node(name, {})
        amounts = (node.quota["cpu"], node.kept["cpu"], node.usage["cpu"], node.borrowed("cpu"), node.available("cpu"))
        assert [f"{one // 1000}" for one in amounts if one is not None] == figures[:-1]
        assert node.share().number * 100 == pytest.approx(int(figures[-1]))
